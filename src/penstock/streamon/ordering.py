"""What an ordering algorithm is: an order of filters, and what it does with a profile tuple.

The executor evaluates filters in ``order``. Of the tuples they drop it profiles a share, evaluating beyond
the drop those filters that ``wanted`` names, and hands the bits to ``observe``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from penstock.streamon.profile_window import Bits, ProfileWindow
from penstock.streamon.thresholds import Thresholds


class Ordering(ABC):
    """Profiler and re-optimizer of one pipeline of n filters."""

    name: str

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        self.n = n
        self.thresholds = thresholds
        self.order = list(range(n))
        self.window = ProfileWindow(n, thresholds.profile_window, thresholds.time_window)
        self.switches = 0

    def wanted(self, position: int) -> list[int]:
        """Positions of the filters to evaluate on a profiled tuple that ``position`` dropped."""
        return list(range(position + 1, self.n))

    def observe(self, profile: Bits) -> bool:
        """Take in profile tuples (a row each, a column a filter); whether the order changed."""
        before = list(self.order)
        self._observe(profile)
        if self.order != before:
            self.switches += 1
        return self.order != before

    @abstractmethod
    def _observe(self, profile: Bits) -> None:
        """Take in profile tuples and keep the algorithm's invariant."""

    def matrix_view(self) -> npt.NDArray[np.int64]:
        """V recounted from the profile window: V[i, j] tuples dropped by the filter at j, not before i.

        The definition of thesis 4.3.2, by brute force; algorithms keep what they need of it by increments.
        """
        bits = self.window.tuples()[:, self.order]
        view = np.zeros((self.n, self.n), np.int64)
        for i in range(self.n):
            left = bits[~bits[:, :i].any(axis=1)]
            view[i, i:] = left[:, i:].sum(axis=0)
        return view

    def first_drop(self, tuple_: Bits) -> int:
        """The position of the first filter in the order that drops a profile tuple; n if none does."""
        hits = np.flatnonzero(tuple_[self.order])
        return int(hits[0]) if len(hits) else self.n


class Static(Ordering):
    """The order as written, for ever."""

    name = "static"

    def wanted(self, position: int) -> list[int]:
        return []

    def _observe(self, profile: Bits) -> None:
        pass
