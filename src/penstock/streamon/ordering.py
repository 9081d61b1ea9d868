"""What an ordering algorithm is: an order of filters, and what it does with a profile tuple.

The executor evaluates filters in ``order``. Of the tuples they drop it profiles a share, evaluating beyond
the drop those filters that ``asked_from`` names, and hands the bits to ``observe``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.framework import Recall
from penstock.streamon.laps import VIEW, WINDOW, Laps
from penstock.streamon.profile_window import Bits, ProfileWindow
from penstock.streamon.thresholds import Thresholds


class Ordering(ABC):
    """Profiler and re-optimizer of one pipeline of n filters."""

    name: str
    whole = True
    """Whether its profile tuples have all bits: then what it knows can be replaced by a burst at once."""

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        self.n = n
        self.thresholds = thresholds
        self.order = list(range(n))
        self.window = ProfileWindow(n, thresholds.profile_window, thresholds.time_window)
        self.switches = 0
        self.gain = 0.0
        self.laps = Laps()

    def asked_from(self, position: int) -> int:
        """The filter at ``position`` is evaluated on profiled tuples that were dropped from here to there."""
        return 0

    @property
    def plan(self) -> list[int]:
        """The order, for who keeps it."""
        return list(self.order)

    def observe(self, profile: Bits, recall: Recall = lambda: None) -> bool:
        """Take in profile tuples (a row each, a column a filter); whether the order changed.

        Many at once leave the window and the view as one by one would; the order is looked at once, after
        them. An order to ``recall`` may save a search, if it keeps the invariant.
        """
        before, anew = list(self.order), not len(self.window)
        kept = self.telling(profile)
        gone = self.window.insert(kept)
        self.laps.lap(WINDOW)
        self._view(kept[-len(self.window.bits) :], gone)
        self.laps.lap(VIEW)
        self._keep_invariant(len(profile), recall)
        if self.order == before:
            return False
        self.switches += 1
        # An order for a stream of which nothing was known is worth all there is.
        self.gain = 1.0 if anew else self._gain(before)
        return True

    def _gain(self, before: list[int]) -> float:
        after, tuples = np.array(self.order), self.window.tuples()
        return kernels.gain(np.array(before), after, tuples, self.window.times())

    def telling(self, profile: Bits) -> Bits:
        """The profile tuples that say something to the algorithm."""
        return profile

    def _view(self, come: Bits, gone: Bits) -> None:  # noqa: B027 (not every algorithm has a view)
        """Keep a view over the window by what came into it and what left."""

    @abstractmethod
    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        """Find out whether the invariant is violated after ``profiled`` more tuples, and mend the order."""

    def forget(self) -> None:
        """The stream is another one: what was profiled says nothing any more."""
        self._view(self.window.tuples()[:0], self.window.tuples())
        self.window.clear()

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
    whole = False

    def asked_from(self, position: int) -> int:
        return position

    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        pass
