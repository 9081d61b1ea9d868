"""Pipelined filters (thesis chapter 4): an executor with a profiler and a re-optimizer inside (fig. 4.10).

The executor evaluates filters on the tuples that the ones before let through, a slice of tuples at a time.
Between slices the profiler may have evidence for the re-optimizer; the next slice goes through in its order.
Which tuples pass never depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.algorithms import ordering
from penstock.streamon.burst import Burst
from penstock.streamon.framework import StreaMon
from penstock.streamon.laps import PROCESSING, PROFILING, VIOLATIONS
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import Bits
from penstock.streamon.profiler import DropProfiler, Evaluate, Keep, Rows
from penstock.streamon.thresholds import Thresholds

SLICE = Thresholds.slice


class PipelinedFilters:
    """An adaptive conjunction of ``n`` filters."""

    def __init__(
        self, n: int, algorithm: str = "a-greedy", thresholds: Thresholds | None = None, seed: int = 0
    ) -> None:
        self.ordering = ordering(algorithm, n, thresholds)
        self.thresholds = self.ordering.thresholds
        t = self.thresholds
        self.log = PlanLog(t.plan_log, t.similar, t.steady_after, t.worth)
        self.profiler = DropProfiler(self.ordering, self.log, seed)
        self._streamon = StreaMon[Bits](self, self.profiler, self.ordering, self.log)
        self.tuples = self.evaluations = 0
        self._laps = self.ordering.laps
        self._slice_rows = self.thresholds.slice
        self._scouts = 0

    @property
    def order(self) -> list[int]:
        """The order now used."""
        return self.ordering.order

    @property
    def profile_evaluations(self) -> int:
        """Filters evaluated for profiling alone."""
        return self.profiler.evaluations

    @property
    def profiled(self) -> int:
        """Sampled tuples that were profiled."""
        return self.profiler.profiled

    @property
    def surprises(self) -> int:
        """How often the stream was another one at once."""
        return self.profiler.surprises

    @property
    def seconds(self) -> dict[str, float]:
        """CPU time by what it was spent on (thesis table 4.2): other load on the machine is not in it."""
        return dict(self._laps.seconds)

    def use(self, plan: list[int]) -> None:
        """Go on in another order. What was sampled under the one before is known by its positions."""
        self.profiler.drop_samples()
        self.profiler.expect()

    def run(
        self, count: int, evaluate: Evaluate, alone: Evaluate | None = None, keep: Keep | None = None
    ) -> Rows:
        """The rows 0 .. count-1 that every filter lets through.

        ``alone``: the same for filters that share work or know what they found out before, each as if it was
        the first: what is timed. ``keep``: for rows that mean something after their run.
        """
        self._laps.start()
        self.profiler.begin(self.tuples)
        passed = []
        at = 0
        while at < count:
            rows = np.arange(at, min(at + self._slice_rows, count))
            if timed := self.profiler.timing_due(self.tuples):
                self._laps.lap(PROCESSING)
                self.profiler.time_filters(rows, alone or evaluate, self.tuples)
            at_start = timed and not self.tuples and self.ordering.whole
            passed.append(self._learn(rows, rows, [], evaluate) if at_start else self._slice(rows, evaluate))
            at += len(rows)
            self.tuples += len(rows)
            if self.profiler.waiting > self.thresholds.profile_window // 2:
                self._profile(evaluate, keep)
        self._end(evaluate, keep)
        kept = np.concatenate(passed) if passed else np.empty(0, np.int64)
        self._laps.lap(PROCESSING)
        return kept

    def _slice(self, rows: Rows, evaluate: Evaluate) -> Rows:
        began = time.perf_counter()
        passes = self._first(rows, evaluate)
        if passes is None:
            return self._start_anew(rows, rows, [], evaluate)
        # A change within the slice shows at its end.
        changed = self._surprised_by(passes[-self.thresholds.scouts :])
        left, surprised = self.profiler.split(0, rows, passes)
        surprised |= changed
        position = 1
        while len(left) and position < self.ordering.n and not surprised:
            passes = self._passes(self.order[position], left, evaluate)
            left, surprised = self.profiler.split(position, left, passes)
            position += 1
        if surprised:
            return self._start_anew(rows, left, self.order[:position], evaluate)
        if position == self.ordering.n:
            self._fit_slice(len(rows), time.perf_counter() - began)
        self.profiler.note_passing(len(rows), len(left))
        return left

    def _first(self, rows: Rows, evaluate: Evaluate) -> npt.NDArray[np.bool_] | None:
        """Which rows the first filter lets through; None if a run starts with scouts of another stream."""
        first, scouts = self.order[0], self._scouts
        if rows[0] > 0 or not 0 < 2 * scouts < len(rows):
            return self._passes(first, rows, evaluate)
        passes = self._passes(first, rows[:scouts], evaluate)
        if self._surprised_by(passes):
            return None
        return np.concatenate((passes, self._passes(first, rows[scouts:], evaluate)))

    def _surprised_by(self, passes: npt.NDArray[np.bool_]) -> bool:
        """Whether what the first filter lets through of some tuples is not what is expected."""
        return self.profiler.surprised_by(0, len(passes), int(np.count_nonzero(passes)))

    def _passes(self, f: int, rows: Rows, evaluate: Evaluate) -> npt.NDArray[np.bool_]:
        self.evaluations += len(rows)
        return evaluate(f, rows)

    def _fit_slice(self, rows: int, seconds: float) -> None:
        """Make slices as long as they should take, and send scouts ahead where that is cheap."""
        least, most = self.thresholds.slice >> 2, self.thresholds.slice
        self._slice_rows = max(least, min(most, int(self.thresholds.slice_seconds * rows / seconds)))
        next_slice = seconds * self._slice_rows / rows
        cheap = self.profiler.call_seconds(self.order[0]) < self.thresholds.scouting * next_slice
        self._scouts = self.thresholds.scouts if cheap else 0

    def _start_anew(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """The stream is another one: what is left of a slice goes on in an order for it."""
        self.profiler.start_anew()
        return self._learn(rows, left, done, evaluate)

    def _learn(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """Choose an order by a burst alone, one class of filters after the other, while a slice goes through.

        Filters that are ``done`` let those through that are ``left`` of its rows.
        """
        self._laps.lap(PROCESSING)
        burst, size = self.profiler.burst(), self.thresholds.burst
        first, *dearer = self.profiler.classes
        if done and all(f in first for f in done):
            # Tuples that passed a filter say nothing about it.
            sample = rows[-size:]
            order, _ = self.profiler.sample(burst, first, sample, len(rows) / len(sample), evaluate)
            left = self._through([f for f in order if f not in done], left, evaluate)
        else:
            left = self._through_class(burst, first, rows, size, evaluate)
        for some in dearer:
            if len(left):
                left = self._through_class(burst, some, left, self.thresholds.dear_burst, evaluate)
        profile = self.profiler.learned(burst)
        if not self._streamon.turn(self.tuples, profile):
            self.profiler.expect()
        self._laps.lap(VIOLATIONS)
        return left

    def _through_class(
        self, burst: Burst, some: list[int], left: Rows, size: int, evaluate: Evaluate
    ) -> Rows:
        """What is left of some rows after the filters of a class, in the best order for the last of them."""
        rest, sample = left[:-size], left[-size:]
        order, passing = self.profiler.sample(burst, some, sample, len(left) / len(sample), evaluate)
        rest = self._through(order, rest, evaluate)
        return np.concatenate((rest, kernels.kept(sample, passing)))

    def _through(self, order: list[int], left: Rows, evaluate: Evaluate) -> Rows:
        """What is left of some rows after some filters."""
        self._laps.lap(PROFILING)
        for f in order:
            if len(left):
                left = kernels.kept(left, self._passes(f, left, evaluate))
        self._laps.lap(PROCESSING)
        return left

    def _end(self, evaluate: Evaluate, keep: Keep | None) -> None:
        """A run is over, and so are its rows, unless they are kept."""
        waiting = self.profiler.waiting
        if keep and 0 < waiting < self.thresholds.bulk:
            self._laps.lap(PROCESSING)
            self.profiler.carry(keep, self.tuples)
        elif waiting:
            self._profile(evaluate, keep)

    def _profile(self, evaluate: Evaluate, keep: Keep | None) -> None:
        self._laps.lap(PROCESSING)
        profile = self.profiler.profile_tuples(evaluate, keep, self.tuples)
        if profile is not None:
            self._streamon.turn(self.tuples, profile)
            self._laps.lap(VIOLATIONS)

    def metrics(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The order, why, and what adapting costs (thesis table 4.2); ``names`` are the filters'."""
        called = names or [str(f) for f in range(self.ordering.n)]
        total = sum(self.seconds.values())
        return {
            "algorithm": self.ordering.name,
            "order": [called[f] for f in self.order],
            "switches": self.ordering.switches,
            "surprises": self.surprises,
            "recalled": self.log.recalled,
            "steady": [called[f] for f in sorted(self.log.steady)],
            "tuples": self.tuples,
            "evaluations a tuple": self.evaluations / max(self.tuples, 1),
            "profiled": self.profiled,
            "seconds": total,
            "share of time": {what: seconds / (total or 1.0) for what, seconds in self.seconds.items()},
            "decisions": [
                {
                    "tuple": d.time,
                    "drops": dict(zip(called, d.statistics, strict=True)),
                    "order": [called[f] for f in d.plan],
                    "recalled": d.recalled,
                }
                for d in self.log.last(8)
            ],
        }
