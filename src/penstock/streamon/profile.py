"""Statistics of the filters' selectivities: profile tuples, bursts of them, and tests for drift.

A *profile tuple* has a bit per filter that says whether it drops the tuple. The *profile window* has the last
ones, sampled from the tuples that filters drop (thesis 4.3.1), and what each filter costs per tuple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.settings import (
    DRIFT_MEMORY,
    DRIFT_MIN_CHANGE,
    DRIFT_MIN_TUPLES,
    SAME_TIME_RATIO,
    TIMINGS_KEPT,
)

Bits = npt.NDArray[np.uint8]
MAX_WEIGHT = 31
"""A bit of the profile window holds 255 at most, and one of a steady filter counts several times."""


class ProfileWindow:
    """A sliding window of ``size`` profile tuples over ``n`` filters."""

    def __init__(self, n: int, size: int) -> None:
        self.bits: Bits = np.zeros((size, n), np.uint8)
        self.count = 0
        self._next = 0
        self._times = np.ones((TIMINGS_KEPT, n))
        self._timed = 0
        self._least = np.ones(n)

    def __len__(self) -> int:
        return self.count

    def insert(self, profile: Bits) -> Bits:
        """Insert profile tuples (one per row); return those that leave for them."""
        size = len(self.bits)
        if self.count + len(profile) <= size:
            self.bits[self.count : self.count + len(profile)] = profile
            self.count = self._next = self.count + len(profile)
            return profile[:0]
        profile = profile[-size:]
        # Up to the end of the ring, and on from its start.
        self._next %= size
        until = min(self._next + len(profile), size)
        again = self._next + len(profile) - until
        gone = np.concatenate((self.bits[self._next : min(until, self.count)], self.bits[:again]))
        self.bits[self._next : until] = profile[: len(profile) - again]
        self.bits[:again] = profile[len(profile) - again :]
        self._next = (self._next + len(profile)) % size
        self.count = min(self.count + len(profile) - len(gone), size)
        return gone

    def tuples(self) -> Bits:
        """The profile tuples, in no particular order."""
        return self.bits[: self.count]

    def clear(self) -> None:
        """Remove the profile tuples; the times stay."""
        self.count = self._next = 0

    def add_times(self, seconds: npt.NDArray[np.float64]) -> None:
        """Add what every filter took for the same tuples."""
        self._times[self._timed % len(self._times)] = seconds
        self._timed += 1
        # The least: a filter that was interrupted or compiled while it was timed is not slow.
        self._least = equalized(self._times[: self._timed].min(axis=0))

    def times(self) -> npt.NDArray[np.float64]:
        """What each filter takes, relative to the others; 1 until they are timed."""
        return self._least


def equalized(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace times that hardly differ by their mean, so that filters are not ordered by noise."""
    ranked = np.argsort(times)
    found = times.copy()
    first = 0
    for at in range(1, len(ranked) + 1):
        if at == len(ranked) or times[ranked[at]] > SAME_TIME_RATIO * times[ranked[first]]:
            found[ranked[first:at]] = times[ranked[first:at]].mean()
            first = at
    return found


def cost_classes(times: npt.NDArray[np.float64], ratio: float) -> list[list[int]]:
    """Filters by cost, the cheapest first; a filter ``ratio`` times slower starts another class."""
    found: list[list[int]] = []
    least = 0.0
    for f in np.argsort(times, kind="stable").tolist():
        if not found or times[f] > ratio * least:
            found.append([])
            least = times[f]
        found[-1].append(f)
    return found


class Burst:
    """All filters evaluated on the same few tuples, to choose an order at once.

    A class of filters by cost is sampled on tuples that pass all cheaper classes, since it follows them
    anyway. A sample of the whole stream would have few of those, so each class has its own, taken when tuples
    get there. The weight of a sampled tuple is the number of the stream's tuples it stands for. ``most``: the
    tuples of all samples.
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
        """Add which of the sampled tuples (columns) pass the filters of a class (rows).

        Returns these filters in the order that drops the most for its time, and the tuples that pass them
        all. With a profile tuple for each filter that it alone drops: of the tuples that pass all others few
        are sampled, and a cheap filter that dropped none of them may still pay before an expensive one.
        """
        order, first = np.array(some), self._stops[-1]
        passing = np.empty(passes.shape[1], np.bool_)
        dropped = kernels.burst(passes, order, self._times, self._profile, first, passing)
        self._stops.append(first + dropped + len(some))
        self._stands_for.append(stands_for)
        self.passing *= 1 - dropped / len(passing)
        return order.tolist(), passing

    def weighted(self) -> tuple[Bits, int]:
        """Profile tuples of all samples, each bit with its weight, and the weight in the first sample.

        The latter is also the weight of tuples that are profiled later.
        """
        stops, stands_for = np.array(self._stops), np.array(self._stands_for)
        weight = kernels.weigh(self._profile, stops, stands_for, MAX_WEIGHT)
        return self._profile[: self._stops[-1]], weight


class DriftDetector:
    """The selectivity expected of the filter at each position of an order, and whether it still holds.

    The executor counts what enters and leaves a filter anyway: statistics of every tuple for free. They
    cannot tell which order is better, but they show at once that the stream has changed.
    """

    def __init__(self, n: int, std_errors: float) -> None:
        self._std_errors = std_errors
        self._came = [0] * n
        self._passed = [0] * n
        self._shares = [0.5] * n
        self._seen = [0.0] * n
        # What they were when the order was chosen: a stream may also change slowly.
        self._chosen_shares, self._chosen_seen = self._shares.copy(), self._seen.copy()
        self.passing = 0.0
        """Share of tuples that pass all filters, whatever their order."""

    def add(self, position: int, came: int, passed: int) -> bool:
        """Add tuples that came to the filter at a position and those that passed; whether it drifted."""
        came, passed = came + self._came[position], passed + self._passed[position]
        if came < DRIFT_MIN_TUPLES:
            self._came[position], self._passed[position] = came, passed
            return False
        self._came[position] = self._passed[position] = 0
        if self.drifted(position, came, passed):
            return True
        seen = min(self._seen[position], DRIFT_MEMORY * came)
        self._shares[position] = (self._shares[position] * seen + passed) / (seen + came)
        self._seen[position] = seen + came
        chosen_for, chosen_by = self._chosen_shares[position], self._chosen_seen[position]
        return self._differs(chosen_for, chosen_by, self._shares[position], seen + came)

    def add_passing(self, came: int, passed: int) -> None:
        """Add tuples that came, and those that passed all filters."""
        self.passing += (passed / came - self.passing) / (1 + DRIFT_MEMORY)

    def reorder(self, order: Sequence[int], profile: Bits) -> None:
        """Expect of a new order what these profile tuples say."""
        shares, seen = np.empty((2, len(order)))
        kernels.expected(np.array(order), profile, self.passing, shares, seen)
        self._shares, self._seen = shares.tolist(), seen.tolist()
        self._chosen_shares, self._chosen_seen = self._shares.copy(), self._seen.copy()
        self._came = [0] * len(order)
        self._passed = [0] * len(order)

    def drifted(self, position: int, came: int, passed: int) -> bool:
        """Whether the share that passed differs from the expected one."""
        return self._differs(self._shares[position], self._seen[position], passed / came, came)

    def _differs(self, share: float, seen: float, now: float, came: float) -> bool:
        """Whether a share seen on some tuples cannot be the one that is seen now."""
        if not seen:
            return False
        # One tuple more each way: a share of 0 or 1 expected from few tuples is not certain.
        p = (share * seen + 1) / (seen + 2)
        by = abs(now - p)
        limit = self._std_errors * math.sqrt(p * (1 - p) * (1 / came + 1 / seen))
        return by > DRIFT_MIN_CHANGE and by > limit
