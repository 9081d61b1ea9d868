"""Pipelined filters (thesis chapter 4): an executor with a profiler and a re-optimizer inside (fig. 4.10).

The executor evaluates each filter on the tuples that pass the ones before, a slice of tuples at a time.
Between slices the profiler may have evidence for the re-optimizer; the next slice uses its order. Which
tuples pass never depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.measurement import Property, Reading, curve
from penstock.streamon import kernels
from penstock.streamon.framework import PROCESSING, PROFILING, VIOLATIONS, StreaMon
from penstock.streamon.orderings import Order, ordering
from penstock.streamon.plan_log import PlanLog, Price, Statistics
from penstock.streamon.profile import Bits, Burst
from penstock.streamon.profiler import DropProfiler, Evaluate, Keep, Rows
from penstock.streamon.settings import DEFAULTS, Thresholds


class PipelinedFilters:
    """An adaptive conjunction of ``n`` filters."""

    def __init__(
        self, n: int, algorithm: str = "a-greedy", thresholds: Thresholds | None = None, seed: int = 0
    ) -> None:
        self.ordering = ordering(algorithm, n, thresholds)
        self.thresholds = self.ordering.thresholds
        t = self.thresholds
        self.log = PlanLog[Order](t.plan_log_size, t.recall_distance)
        self.profiler = DropProfiler(self.ordering, seed)
        self._streamon = StreaMon(self, self.profiler, self.ordering, self.log, self._pricing)
        self.tuples = self.evaluations = 0
        self._stopwatch = self.ordering.stopwatch
        self._slice_rows = self.thresholds.slice_tuples
        self._first_sample = 0
        self._process: Evaluate

    def _pricing(self, shares: Statistics, _: Bits) -> Price[Order]:
        """What a dropped tuple takes in an order, if filters drop independently of each other."""
        times = self.ordering.window.times()

        def price(order: Order) -> float:
            cost, left = 0.0, 1.0
            for f in order:
                cost, left = cost + left * times[f], left * (1.0 - shares[f])
            return float(cost)

        return price

    def anew(self, algorithm: str | None, profiling: float | None) -> PipelinedFilters:
        """Filters that another algorithm orders, or that are profiled at another rate; they learn anew.

        ``static`` stays in the present order.
        """
        name = algorithm or self.ordering.name
        t = DEFAULTS[name]
        t = t if profiling is None else replace(t, drop_profiling_probability=profiling)
        if name == self.ordering.name and t == self.thresholds:
            return self
        made = PipelinedFilters(self.ordering.n, name, t)
        if name == "static":
            made.ordering.order = list(self.order)
        return made

    @property
    def order(self) -> list[int]:
        return self.ordering.order

    @property
    def profiled(self) -> int:
        """Sampled tuples that were profiled."""
        return self.profiler.profiled

    @property
    def drifts(self) -> int:
        """How often a change of the stream was detected."""
        return self.profiler.drifts

    @property
    def seconds(self) -> dict[str, float]:
        """CPU time by what it was spent on (thesis table 4.2): other load on the machine is not in it."""
        return dict(self._stopwatch.seconds)

    def use(self, plan: Order) -> None:
        # What was sampled under the order before is known by its positions.
        self.profiler.drop_samples()
        self.profiler.expect()

    def run(
        self,
        count: int,
        evaluate: Evaluate,
        alone: Evaluate | None = None,
        keep: Keep | None = None,
        process: Evaluate | None = None,
    ) -> Rows:
        """The rows 0 .. count-1 that pass every filter.

        ``alone``: how a filter that shares work with others is evaluated if it is the first; this is timed.
        ``keep``: how rows are kept after their run. ``process``: how a filter is evaluated by the executor,
        on rows that go on if they pass, where that differs from evaluating it to learn about it.
        """
        self._process = process or evaluate
        self._stopwatch.start()
        self.profiler.begin(self.tuples)
        passed = []
        at = 0
        while at < count:
            rows = np.arange(at, min(at + self._slice_rows, count))
            if timed := self.profiler.timing_due(self.tuples):
                self._stopwatch.lap(PROCESSING)
                self.profiler.timer.measure(rows, alone or evaluate, self.tuples)
            at_start = timed and not self.tuples and self.ordering.profiles_all
            passed.append(self._learn(rows, rows, [], evaluate) if at_start else self._slice(rows, evaluate))
            at += len(rows)
            self.tuples += len(rows)
            if self.profiler.waiting > self.thresholds.profile_window // 2:
                self._profile(evaluate, keep)
        self._end(evaluate, keep)
        kept = np.concatenate(passed) if passed else np.empty(0, np.int64)
        self._stopwatch.lap(PROCESSING)
        del self._process  # it may hold what it found of these rows
        return kept

    def _slice(self, rows: Rows, evaluate: Evaluate) -> Rows:
        began = time.perf_counter()
        passes = self._first(rows)
        if passes is None:
            return self._relearn(rows, rows, [], evaluate)
        # A change within the slice shows at its end.
        changed = self._drifted(passes[-self.thresholds.drift_sample :])
        left, drifted = self.profiler.split(0, rows, passes)
        drifted |= changed
        position = 1
        while len(left) and position < self.ordering.n and not drifted:
            passes = self._passes(self.order[position], left)
            left, drifted = self.profiler.split(position, left, passes)
            position += 1
        if drifted:
            return self._relearn(rows, left, self.order[:position], evaluate)
        if position == self.ordering.n:
            self._fit_slice(len(rows), time.perf_counter() - began)
        self.profiler.add_passing(len(rows), len(left))
        return left

    def _first(self, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Which rows pass the first filter; None if the first rows of a run show that the stream changed."""
        first, sample = self.order[0], self._first_sample
        if rows[0] > 0 or not 0 < 2 * sample < len(rows):
            return self._passes(first, rows)
        passes = self._passes(first, rows[:sample])
        if self._drifted(passes):
            return None
        return np.concatenate((passes, self._passes(first, rows[sample:])))

    def _drifted(self, passes: npt.NDArray[np.bool_]) -> bool:
        """Whether some tuples show that the selectivity of the first filter has changed."""
        return self.profiler.drifted(0, len(passes), int(np.count_nonzero(passes)))

    def _passes(self, f: int, rows: Rows) -> npt.NDArray[np.bool_]:
        self.evaluations += len(rows)
        return self._process(f, rows)

    def _fit_slice(self, rows: int, seconds: float) -> None:
        """Make slices as long as they should take; test the first rows of a run alone where that is cheap."""
        t = self.thresholds
        least, most = t.slice_tuples >> 2, t.slice_tuples
        self._slice_rows = max(least, min(most, int(t.slice_s * rows / seconds)))
        next_slice = seconds * self._slice_rows / rows
        cheap = self.profiler.timer.call_seconds(self.order[0]) < t.overhead_share * next_slice
        self._first_sample = t.drift_sample if cheap and t.drift_std_errors < np.inf else 0

    def _relearn(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """The stream has changed: process the rest of a slice in a new order."""
        self.profiler.reset()
        return self._learn(rows, left, done, evaluate)

    def _learn(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """Choose an order by a burst alone, one class of filters after the other, while a slice is processed.

        ``left`` are its rows that pass the filters that are ``done``.
        """
        self._stopwatch.lap(PROCESSING)
        burst, ((first, size), *expensive) = self.profiler.burst()
        if done and all(f in first for f in done):
            # Tuples that passed a filter say nothing about it.
            sample = rows[-size:]
            order, _ = self.profiler.sample(burst, first, sample, len(rows) / len(sample), evaluate)
            left = self._through([f for f in order if f not in done], left)
        else:
            left = self._through_class(burst, first, rows, size, evaluate)
        for some, size in expensive:
            if len(left):
                left = self._through_class(burst, some, left, size, evaluate)
        profile = self.profiler.learned(burst)
        if not self._streamon.adapt(self.tuples, profile):
            self.profiler.expect()
        self._stopwatch.lap(VIOLATIONS)
        return left

    def _through_class(
        self, burst: Burst, some: list[int], left: Rows, size: int, evaluate: Evaluate
    ) -> Rows:
        """What is left of some rows after the filters of a class, in the best order for the last of them."""
        rest, sample = left[:-size], left[-size:]
        order, passing = self.profiler.sample(burst, some, sample, len(left) / len(sample), evaluate)
        rest = self._through(order, rest)
        return np.concatenate((rest, kernels.kept(sample, passing)))

    def _through(self, order: list[int], left: Rows) -> Rows:
        """What is left of some rows after some filters."""
        self._stopwatch.lap(PROFILING)
        for f in order:
            if len(left):
                left = kernels.kept(left, self._passes(f, left))
        self._stopwatch.lap(PROCESSING)
        return left

    def _end(self, evaluate: Evaluate, keep: Keep | None) -> None:
        """A run ends, and its rows are gone unless they are kept."""
        waiting = self.profiler.waiting
        if keep and 0 < waiting < self.thresholds.profile_window // 4:
            self._stopwatch.lap(PROCESSING)
            self.profiler.carry(keep, self.tuples)
        elif waiting:
            self._profile(evaluate, keep)

    def _profile(self, evaluate: Evaluate, keep: Keep | None) -> None:
        self._stopwatch.lap(PROCESSING)
        profile = self.profiler.profile_tuples(evaluate, keep, self.tuples)
        if profile is not None:
            self._streamon.adapt(self.tuples, profile)
            self._stopwatch.lap(VIOLATIONS)

    def measure(self, names: Sequence[str] | None = None) -> Iterator[Reading]:
        """Why the order is so, and what adapting costs (thesis table 4.2); ``names`` are the filters'."""
        called = names or [str(f) for f in range(self.ordering.n)]
        yield Reading(Property.ALGORITHM, 0, self.ordering.name)
        yield Reading(Property.CHANGES, self.ordering.switches)
        yield Reading(Property.DRIFTS, self.drifts)
        yield Reading(Property.RECALLED, self.log.recalled)
        yield from (Reading(Property.STEADY, 0, called[f]) for f in sorted(self.ordering.steadiness.filters))
        yield Reading(Property.TUPLES, self.tuples)
        yield Reading(Property.EVALUATIONS, self.evaluations)
        yield Reading(Property.PROFILED, self.profiled)
        yield from curve(Property.CPU_SECONDS, self.seconds.values(), self.seconds)
        yield from self.log.measure(called, lambda plan: ", ".join(called[f] for f in plan), self.tuples)
