"""The profiler of pipelined filters (thesis 4.3.1): what filters drop, beyond the one that drops first.

Of the tuples that filters drop a share is sampled, and the other filters are evaluated on them too, which
makes profile tuples; many at once, and within a share of the time. Filters are timed now and then. Changes of
the stream in between are detected for free from the filters' selectivities (``DriftDetector``). After one,
and at the start, comes a burst: every filter is evaluated on the same few tuples, which fills a new profile
window at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.framework import PROCESSING, PROFILING, Stopwatch
from penstock.streamon.orderings import Ordering
from penstock.streamon.profile import Bits, Burst, DriftDetector, cost_classes
from penstock.streamon.settings import (
    CALL_OVERHEAD_S,
    EXPENSIVE_RATIO,
    LONGEST_WAIT_TUPLES,
    MEASURABLE_S,
    SAME_TIME_RATIO,
    SAVED_BUDGET_PART,
    TIMED_TUPLES,
    TIMING_SHARE,
    Thresholds,
)

Rows = npt.NDArray[np.int64]
Evaluate = Callable[[int, Rows], npt.NDArray[np.bool_]]
"""Which of the given rows pass a filter."""


class Keep(Protocol):
    """Lets sampled rows outlive their run, so that those of several runs are profiled together."""

    def take(self, rows: Rows) -> Any:
        """What filters need of these rows."""

    def joined(self, parts: list[Any]) -> Evaluate:
        """Which of the rows that were taken, numbered from 0 on, pass a filter."""


class ProfilingBudget:
    """Seconds for profiling and re-optimizing: a share of the processing time, some saved up or in debt."""

    def __init__(self, stopwatch: Stopwatch, thresholds: Thresholds) -> None:
        self._stopwatch, self._share = stopwatch, thresholds.overhead_share
        self._most_debt = thresholds.profiling_budget_s
        self._most = SAVED_BUDGET_PART * self._most_debt
        self._balance = self._most
        self._processing = self._adapting = 0.0

    @property
    def available(self) -> bool:
        """Whether some time is left."""
        processing, adapting = self._stopwatch.seconds[PROCESSING], self._stopwatch.adapting
        change = self._share * (processing - self._processing) - (adapting - self._adapting)
        self._balance = max(min(self._balance + change, self._most), -self._most_debt)
        self._processing, self._adapting = processing, adapting
        return self._balance > 0

    def wait(self, tuples: int) -> int:
        """The tuples until the debt is about repaid, if they take as long as the last ``tuples``."""
        earned = self._share * self._stopwatch.seconds[PROCESSING] / max(tuples, 1)
        return round(min(-self._balance / max(earned, 1e-12), LONGEST_WAIT_TUPLES))


class FilterTimer:
    """The cost of filters: measured at the start, and then less and less often."""

    def __init__(self, ordering: Ordering) -> None:
        self._ordering, self._stopwatch = ordering, ordering.stopwatch
        self._tuple_overhead_s = ordering.thresholds.tuple_overhead_s
        self._share = ordering.thresholds.overhead_share * TIMING_SHARE
        self._next, self._interval = 0, 4 * ordering.thresholds.slice_tuples
        self._after_s = 0.0
        self.evaluations = 0
        self._calls = [np.inf] * ordering.n
        self.classes = [list(range(ordering.n))]
        """Filters by cost, the cheapest first."""

    def due(self, tuples: int) -> bool:
        """Whether filters are to be timed after this many tuples."""
        return tuples >= self._next and self._stopwatch.seconds[PROCESSING] >= self._after_s

    def call_seconds(self, f: int) -> float:
        """What a call of a filter takes, whatever the number of rows."""
        return self._calls[f] + CALL_OVERHEAD_S

    def measure(self, rows: Rows, evaluate: Evaluate, tuples: int) -> None:
        """Time every filter on the same rows.

        Whatever interferes makes a filter slower: those that seem slower than the fastest are timed again.
        """
        before, some = self._stopwatch.seconds[PROFILING], rows[:TIMED_TUPLES]
        took = np.array([self._seconds_per_row(f, some, evaluate) for f in range(self._ordering.n)])
        for f in np.flatnonzero(took > SAME_TIME_RATIO * took.min()).tolist():
            took[f] = min(took[f], self._seconds_per_row(f, some, evaluate))
        self._ordering.window.add_times(took + self._tuple_overhead_s)
        self.classes = cost_classes(self._ordering.window.times(), EXPENSIVE_RATIO)
        self._stopwatch.lap(PROFILING)
        spent = self._stopwatch.seconds[PROFILING] - before
        self._after_s = self._stopwatch.seconds[PROCESSING] + spent / self._share
        self._next = tuples + self._interval
        self._interval = min(4 * self._interval, LONGEST_WAIT_TUPLES)

    def _seconds_per_row(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """Measured on a few rows if they take long, on all if a call takes as long as the rows do."""
        before = np.inf
        for shift in (6, 4, 2, 0):
            count = max(len(rows) >> shift, 1)
            took = self._seconds(f, rows[:count], evaluate)
            self._calls[f] = min(self._calls[f], took)
            # If it took longer than for fewer rows, by as much as it should, the call itself is little of it.
            if took > MEASURABLE_S and took > 2 * before:
                break
            before = took
        return took / count

    def _seconds(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """The least of two: a filter is not slow because its memory was not in the cache."""
        readings = [time.thread_time()]
        for _ in range(2):
            evaluate(f, rows)
            readings.append(time.thread_time())
        self.evaluations += 2 * len(rows)
        return min(after - before for before, after in pairwise(readings))


class DropProfiler:
    """Makes profile tuples of what the filters of an ordering drop."""

    def __init__(self, ordering: Ordering, seed: int) -> None:
        self._ordering, self._stopwatch = ordering, ordering.stopwatch
        self.thresholds = ordering.thresholds
        self._detector = DriftDetector(ordering.n, self.thresholds.drift_std_errors)
        self._budget = ProfilingBudget(self._stopwatch, self.thresholds)
        self.timer = FilterTimer(ordering)
        self._evaluations = self.profiled = self.drifts = 0
        # Dropped tuples to skip until the next sample, the state of the random numbers, and the number of
        # sampled rows that are not profiled yet, each with the position that dropped it.
        self._draw = np.array([0, 0x9E3779B97F4A7C15 // 4 + seed, 0], np.int64)
        self._resting_until = 0
        self._share = -1.0
        self._sample_share(self.thresholds.drop_profiling_probability)
        most = self.thresholds.profile_window + self.thresholds.slice_tuples
        self._sampled = np.empty((most, 2), np.int64)
        self._weight = 1
        self._taken: list[Any] = []
        self._taken_rows = 0

    @property
    def evaluations(self) -> int:
        """Filters evaluated for profiling alone."""
        return self._evaluations + self.timer.evaluations

    def statistics(self, evidence: Bits) -> npt.NDArray[np.float64]:
        """The share of dropped tuples that each filter drops."""
        found = np.zeros(self._ordering.n)
        kernels.shares(np.array(self._ordering.order), evidence, found)
        return found

    # From what the executor does anyway

    def split(self, position: int, rows: Rows, passes: npt.NDArray[np.bool_]) -> tuple[Rows, bool]:
        """The rows that pass the filter at a position, and whether its selectivity drifted.

        Of the others a share is sampled.
        """
        kept = np.empty(len(rows), np.int64)
        k = kernels.split(rows, passes, position, self._draw, self._scale, kept, self._sampled)
        drifted = self._detector.add(position, len(rows), k)
        return kept[:k], drifted and self._ordering.profiles_all

    def drifted(self, position: int, came: int, passed: int) -> bool:
        """Whether these tuples show that the selectivity of the filter at a position has changed."""
        return came > 0 and self._ordering.profiles_all and self._detector.drifted(position, came, passed)

    def add_passing(self, came: int, passed: int) -> None:
        """Add tuples that came, and those that passed all filters."""
        self._detector.add_passing(came, passed)

    # Changes

    def expect(self) -> None:
        """Expect of the filters in their order what the profile window says."""
        if self._ordering.profiles_all and self.thresholds.drift_std_errors < np.inf:
            self._detector.reorder(self._ordering.order, self._ordering.window.tuples())

    def reset(self) -> None:
        """The stream has changed: discard what was profiled."""
        self.drifts += 1
        self.drop_samples()
        self._ordering.reset()

    def drop_samples(self) -> None:
        """Discard what was sampled and not profiled."""
        self._draw[2] = self._taken_rows = 0
        self._taken = []

    @property
    def waiting(self) -> int:
        """Sampled rows that are not profiled yet."""
        return int(self._draw[2])

    # What is done for profiling alone

    def timing_due(self, tuples: int) -> bool:
        """Whether filters are to be timed, and there is time for it."""
        profiles = self.thresholds.drop_profiling_probability > 0
        return profiles and self.timer.due(tuples) and self._budget.available

    def burst(self) -> tuple[Burst, list[tuple[list[int], int]]]:
        """An empty burst, and its classes of filters with the size of the sample of each."""
        size = self.thresholds.burst
        sizes = [size, *([max(size // 4, 1)] * (len(self.timer.classes) - 1))]
        burst = Burst(self._ordering.n, self._ordering.window.times(), sum(sizes))
        return burst, list(zip(self.timer.classes, sizes, strict=True))

    def sample(
        self, burst: Burst, some: list[int], rows: Rows, stands_for: float, evaluate: Evaluate
    ) -> tuple[list[int], npt.NDArray[np.bool_]]:
        """Evaluate all filters of a class on all rows; their best order, and the rows that pass all."""
        passes = np.array([evaluate(f, rows) for f in some])
        self._evaluations += passes.size
        return burst.add(some, passes, stands_for)

    def learned(self, burst: Burst) -> Bits:
        """The profile tuples of a burst, which are all that is known of the stream now."""
        self._detector.passing = burst.passing
        profile, self._weight = burst.weighted()
        return profile

    def _sample_share(self, share: float) -> None:
        if share != self._share:
            self._share = share
            self._scale = kernels.gap_scale(share)
            self._draw[0] = kernels.gap(self._draw, self._scale)

    def _rest(self, tuples: int) -> None:
        """Sample nothing until there is time to profile it."""
        self.drop_samples()
        self._resting_until = tuples + self._budget.wait(tuples)
        self._sample_share(0.0)

    def begin(self, tuples: int) -> None:
        """Another run starts: sample again if there is time for it."""
        # Samples of a run that failed are of rows that are gone.
        self._draw[2] = self._taken_rows
        if tuples >= self._resting_until:
            self._resting_until = 0
            fewer = self.thresholds.steady_every if self._ordering.steadiness.all else 1
            self._sample_share(self.thresholds.drop_profiling_probability / fewer)

    def profile_tuples(self, evaluate: Evaluate, keep: Keep | None, tuples: int) -> Bits | None:
        """A profile tuple for every sampled row, None if there is no time for it."""
        if not self._budget.available:
            self._rest(tuples)
            return None
        if self._taken and keep:
            self._take(keep)
            evaluate = keep.joined(self._taken)
        profile = self._evaluated(evaluate)
        self.drop_samples()
        self._stopwatch.lap(PROFILING)
        return profile

    def carry(self, keep: Keep, tuples: int) -> None:
        """The run of some sampled rows ends: keep the few of them for the next one."""
        if self._budget.available:
            self._take(keep)
        else:
            self._rest(tuples)
        self._stopwatch.lap(PROFILING)

    def _take(self, keep: Keep) -> None:
        """Take what was sampled since; rows that are taken are numbered by their places among them."""
        new = self._sampled[self._taken_rows : self.waiting, 0]
        if len(new):
            self._taken.append(keep.take(new.copy()))
            new[:] = np.arange(self._taken_rows, self.waiting)
            self._taken_rows = self.waiting

    def _evaluated(self, evaluate: Evaluate) -> Bits:
        """The bits of the filters that the algorithm needs; of steady ones for some tuples, weighted."""
        ordering = self._ordering
        rows, ends = np.empty(self.waiting, np.int64), np.zeros(ordering.n + 1, np.int64)
        kernels.by_position(self._sampled[: len(rows)], rows, ends)
        stops = ends.tolist()
        drops = np.zeros((ordering.n, len(rows)), np.uint8)
        # If all filters are steady, fewer tuples are sampled instead.
        some_steady = ordering.profiles_all and not ordering.steadiness.all
        steady = ordering.steadiness.filters if some_steady else frozenset()
        for position, f in enumerate(ordering.order):
            first, stop = stops[ordering.profiled_from(position)], stops[position]
            if first == stop:
                continue
            every = self.thresholds.steady_every if f in steady else 1
            some = rows[first:stop] if every == 1 else rows[first:stop:every].copy()
            weight = np.uint8(self._weight * every)
            np.multiply(~evaluate(f, some), weight, out=drops[f, first:stop:every])
            self._evaluations += len(some)
        self.profiled += len(rows)
        profile = np.empty((len(rows), ordering.n), np.uint8)
        kernels.profile_tuples(drops, np.array(ordering.order), ends, self._weight, profile)
        return profile
