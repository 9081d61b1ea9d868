"""A burst: filters evaluated on the same few tuples, to choose an order at once.

Filters are in classes by what they take, and a class is evaluated on tuples that all cheaper ones let
through: it comes behind them anyway. Of those a sample would have few, so each class has a sample of its own,
taken when tuples get there. A sampled tuple stands for so many of the stream: that is its weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.profile_window import Bits

HEAVIEST = 31
"""A bit of the profile window holds 255, and one of a steady filter counts several times."""


def classes(times: npt.NDArray[np.float64], expensive: float) -> list[list[int]]:
    """Filters by what they take, cheapest first; ``expensive`` times as long is another class."""
    found: list[list[int]] = []
    least = 0.0
    for f in np.argsort(times, kind="stable").tolist():
        if not found or times[f] > expensive * least:
            found.append([])
            least = times[f]
        found[-1].append(f)
    return found


class Burst:
    """What the filters of each class drop of its sample, and how many tuples a sampled one stands for.

    ``most``: tuples of all samples.
    """

    def __init__(self, n: int, times: npt.NDArray[np.float64], most: int) -> None:
        self._times = times
        self._profile: Bits = np.zeros((most + n, n), np.uint8)
        self._stops = [0]
        self._stands_for: list[float] = []
        self.passing = 1.0
        """The share of tuples that no filter drops."""

    def add(
        self, some: list[int], passes: npt.NDArray[np.bool_], stands_for: float
    ) -> tuple[list[int], npt.NDArray[np.bool_]]:
        """Which of the sampled tuples (columns) the filters of a class (rows) let through.

        Returns these filters in the order that drops the most for its time, and the tuples that pass them
        all. With a profile tuple for each filter that it alone drops: of those that get past all others few
        are sampled, and a cheap filter that dropped none of them may still be worth its time before a dear
        one.
        """
        order, first = np.array(some), self._stops[-1]
        passing = np.empty(passes.shape[1], np.bool_)
        dropped = kernels.burst(passes, order, self._times, self._profile, first, passing)
        self._stops.append(first + dropped + len(some))
        self._stands_for.append(stands_for)
        self.passing *= 1 - dropped / len(passing)
        return order.tolist(), passing

    def weighed(self) -> tuple[Bits, int]:
        """Profile tuples of all samples, and what one of the first weighs, as any of the stream will.

        A bit counts as many times as its tuple weighs.
        """
        stops, stands_for = np.array(self._stops), np.array(self._stands_for)
        weight = kernels.weigh(self._profile, stops, stands_for, HEAVIEST)
        return self._profile[: self._stops[-1]], weight
