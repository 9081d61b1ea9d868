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
    """What the filters of each class drop of its sample, and how many tuples a sampled one stands for."""

    def __init__(self, n: int, times: npt.NDArray[np.float64]) -> None:
        self._n, self._times = n, times
        self._profiles: list[Bits] = []
        self._stands_for: list[float] = []
        self._passing = 1.0

    def add(self, some: list[int], drops: Bits, stands_for: float) -> None:
        """Which of the sampled tuples (columns) the filters of a class (rows) drop.

        With a tuple for each filter that it alone drops: of those that get past all others few are sampled,
        and a cheap filter that dropped none of them may still be worth its time before a dear one.
        """
        profile = np.zeros((drops.shape[1] + len(some), self._n), np.uint8)
        dropped = kernels.dropped(drops, np.array(some), profile)
        self._profiles.append(profile[: dropped + len(some)])
        self._stands_for.append(stands_for)
        self._passing *= 1 - dropped / drops.shape[1]

    def greedy(self, some: list[int]) -> list[int]:
        """The filters of the last class in the order that drops the most for its time."""
        order = np.array(some)
        unused = np.zeros((len(some), len(some)), np.int64)
        kernels.correct(unused, order, self._profiles[-1], self._times, 0)
        return order.tolist()

    @property
    def passing(self) -> float:
        """The share of tuples that no filter drops."""
        return self._passing

    @property
    def weight(self) -> int:
        """What a tuple of the first sample weighs, which is any of the stream: what is profiled next, too."""
        return self._weight(self._stands_for[0])

    def _weight(self, stands_for: float) -> int:
        return min(round(stands_for / min(self._stands_for)), HEAVIEST)

    def profile(self) -> Bits:
        """Profile tuples of all samples; a bit counts as many times as its tuple weighs."""
        if len(self._profiles) == 1:
            return self._profiles[0]
        weighed = [
            profile * np.uint8(self._weight(each))
            for profile, each in zip(self._profiles, self._stands_for, strict=True)
        ]
        return np.concatenate(weighed)
