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

from penstock.streamon.algorithms import ordering
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import Bits
from penstock.streamon.profiler import DropProfiler, Evaluate, Rows
from penstock.streamon.thresholds import Thresholds

SLICE = Thresholds.slice


class PipelinedFilters:
    """An adaptive conjunction of ``n`` filters."""

    def __init__(
        self, n: int, algorithm: str = "a-greedy", thresholds: Thresholds | None = None, seed: int = 0
    ) -> None:
        self.ordering = ordering(algorithm, n, thresholds)
        self.thresholds = self.ordering.thresholds
        self.log = PlanLog(self.thresholds.plan_log, self.thresholds.similar, self.thresholds.steady_after)
        self.profiler = DropProfiler(self.ordering, self.log, seed)
        self._streamon = StreaMon[Bits](self, self.profiler, self.ordering, self.log)
        self.tuples = self.evaluations = 0
        self._processing = 0.0
        self._slice_rows = self.thresholds.slice

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
        own = {"tuple processing": self._processing, "profile tuples": self.profiler.seconds}
        return own | self.ordering.seconds

    def use(self, plan: list[int]) -> None:
        """Go on in another order. What was sampled under the one before is known by its positions."""
        self.profiler.drop_samples()
        self.profiler.expect()

    def run(self, count: int, evaluate: Evaluate, alone: Evaluate | None = None) -> Rows:
        """The rows 0 .. count-1 that every filter lets through.

        ``alone``: the same for filters that share work or know what they found out before, each as if it was
        the first: what is timed.
        """
        passed = []
        at = 0
        while at < count:
            rows = np.arange(at, min(at + self._slice_rows, count))
            if self.profiler.timing_due(self.tuples):
                self.profiler.time_filters(rows, alone or evaluate, self.tuples)
                if self.ordering.whole and not self.tuples:
                    self._learn(rows[: self.thresholds.burst], evaluate)
            passed.append(self._slice(rows, evaluate))
            at += len(rows)
            self.tuples += len(rows)
        # Rows mean nothing after their run.
        self._profile(evaluate)
        return np.concatenate(passed) if passed else np.empty(0, np.int64)

    def _slice(self, rows: Rows, evaluate: Evaluate) -> Rows:
        began = time.thread_time()
        left, surprised = rows, False
        for position, f in enumerate(self.order):
            if not len(left) or surprised:
                break
            passes = evaluate(f, left)
            self.evaluations += len(left)
            left, surprised = self.profiler.split(position, left, passes)
        else:
            position = self.ordering.n
        self._processed(began)
        if surprised:
            return self._start_anew(rows, left, self.order[:position], evaluate)
        if position == self.ordering.n:
            took = (time.thread_time() - began) / len(rows)
            most = self.thresholds.slice
            self._slice_rows = int(np.clip(self.thresholds.slice_seconds / took, most >> 2, most))
        self.profiler.note_passing(len(rows), len(left))
        if self.profiler.waiting >= self.thresholds.profile_window:
            self._profile(evaluate)
        return left

    def _start_anew(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """Learn the new stream from the last rows of a slice; what is left of it goes on in the new order."""
        self.profiler.start_anew()
        self._learn(rows[-self.thresholds.burst :], evaluate)
        began = time.thread_time()
        for f in self.order:
            if f not in done and len(left):
                self.evaluations += len(left)
                left = left[evaluate(f, left)]
        self._processed(began)
        return left

    def _processed(self, since: float) -> None:
        took = time.thread_time() - since
        self._processing += took
        self.profiler.earn(took)

    def _learn(self, rows: Rows, evaluate: Evaluate) -> None:
        """Choose an order by a burst alone."""
        dropped = self.profiler.burst(rows, evaluate)
        if len(dropped):
            self._turn(dropped)
        self.profiler.expect()

    def _profile(self, evaluate: Evaluate) -> None:
        profile = self.profiler.profile_tuples(evaluate)
        if profile is not None:
            self._turn(profile)

    def _turn(self, profile: Bits) -> None:
        began = time.thread_time()
        self._streamon.turn(self.tuples, profile)
        self.profiler.spent(began)

    def metrics(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The order, why, and what adapting costs (thesis table 4.2); ``names`` are the filters'."""
        called = names or [str(f) for f in range(self.ordering.n)]
        total = sum(self.seconds.values()) or 1.0
        return {
            "algorithm": self.ordering.name,
            "order": [called[f] for f in self.order],
            "switches": self.ordering.switches,
            "surprises": self.surprises,
            "recalled": self.log.recalled,
            "steady": [called[f] for f in sorted(self.log.steady())],
            "tuples": self.tuples,
            "evaluations a tuple": self.evaluations / max(self.tuples, 1),
            "profiled": self.profiled,
            "share of time": {what: seconds / total for what, seconds in self.seconds.items()},
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
