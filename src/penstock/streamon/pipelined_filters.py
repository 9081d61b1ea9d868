"""Pipelined filters (thesis chapter 4): an executor with a profiler and a re-optimizer inside (fig. 4.10).

The executor evaluates filters on the tuples that the ones before let through. Of the tuples they drop, a
share is profiled: the other filters are evaluated on them too. The ordering algorithm makes of the profile
what it will; the next slice of tuples goes through in its order. Which tuples pass never depends on it.

Slices keep the cost of adapting small against that of the tuples; what tells the executor of a change
in between costs nothing: the share that each filter lets through (``Expected``). Then, and at the start,
comes a burst: every filter is evaluated on the same few tuples, which makes a new profile window at once
and says what the filters take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.algorithms import ordering
from penstock.streamon.expected import Expected
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import Bits
from penstock.streamon.thresholds import Thresholds

Rows = npt.NDArray[np.int64]
Evaluate = Callable[[int, Rows], npt.NDArray[np.bool_]]
"""Which of the given rows a filter lets through."""

SLICE = 1 << 13
"""Rows at most that go through in one order: enough to be fast, few enough to adapt within a batch."""
SLICE_SECONDS = 5e-4
"""A slice has fewer rows if they take longer than this."""
EXPENSIVE = 3.0
"""A filter that takes so many times as long as the cheapest is not evaluated on a burst's every row."""
TIMED = 1 << 9
"""Rows on which filters are timed: enough that a call costs nothing against them."""
LONG = 2e-5
"""Seconds that can be timed, whatever a call takes."""
TIMED_EVERY = 1 << 21
"""Tuples after which filters are timed again at the latest."""
PURSE = 5e-3
"""Seconds for profiling that can be saved up or owed: one that took long, since something was compiled or
interrupted, does not stop the next ones for good."""
HANDLING = 2e-9
"""Seconds that the executor itself takes to hand a row to a filter and to keep or drop it."""


class PipelinedFilters:
    """An adaptive conjunction of ``n`` filters."""

    def __init__(
        self, n: int, algorithm: str = "a-greedy", thresholds: Thresholds | None = None, seed: int = 0
    ) -> None:
        self.ordering = ordering(algorithm, n, thresholds)
        self.thresholds = self.ordering.thresholds
        self.log = PlanLog(self.thresholds.plan_log)
        self.expected = Expected(n, self.thresholds.surprise)
        self.tuples = self.evaluations = self.profile_evaluations = self.profiled = self.surprises = 0
        self._spent = {"tuple processing": 0.0, "profile tuples": 0.0}
        self._share = self.thresholds.drop_profiling_probability
        # What is still to be passed over until the next sample, and the state of the random numbers.
        self._draw = np.array([0, 0x9E3779B97F4A7C15 // 4 + seed], np.int64)
        self._draw[0] = kernels.gap(self._draw, self._share)
        self._pending: list[list[Rows]] = [[] for _ in range(n)]
        self._purse = PURSE
        self._next_timing, self._until_timing = 0, SLICE
        self._slice_rows = SLICE

    @property
    def order(self) -> list[int]:
        """The order now used."""
        return self.ordering.order

    @property
    def seconds(self) -> dict[str, float]:
        """Time by what it was spent on (thesis table 4.2)."""
        return self._spent | self.ordering.seconds

    def run(self, count: int, evaluate: Evaluate) -> Rows:
        """The rows 0 .. count-1 that every filter lets through."""
        passed = []
        at = 0
        while at < count:
            rows = np.arange(at, min(at + self._slice_rows, count))
            if self._share and self._purse > 0 and self.tuples >= self._next_timing:
                self._time(rows, evaluate)
            passed.append(self._slice(rows, evaluate))
            at += len(rows)
            self.tuples += len(rows)
        # Rows mean nothing after their run.
        self._profile(evaluate)
        return np.concatenate(passed) if passed else np.empty(0, np.int64)

    def _slice(self, rows: Rows, evaluate: Evaluate) -> Rows:
        began = time.perf_counter()
        left, surprised = rows, False
        for position, f in enumerate(self.order):
            if not len(left):
                break
            passes = evaluate(f, left)
            kept, sampled = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
            k, s = kernels.split(left, passes, self._draw, self._share, kept, sampled)
            if s:
                self._pending[position].append(sampled[:s])
            self.evaluations += len(left)
            surprised = self.expected.note(position, len(left), k) and self.ordering.whole
            left = kept[:k]
            if surprised:
                break
        self._processed(began)
        if position == self.ordering.n - 1:
            took = (time.perf_counter() - began) / len(rows)
            self._slice_rows = int(np.clip(SLICE_SECONDS / took, SLICE >> 2, SLICE))
        if surprised:
            return self._start_anew(rows, left, self.order[: position + 1], evaluate)
        self.expected.note_passing(len(rows), len(left))
        if sum(len(s) for p in self._pending for s in p) >= self.thresholds.profile_window:
            self._profile(evaluate)
        return left

    def _start_anew(self, rows: Rows, left: Rows, done: list[int], evaluate: Evaluate) -> Rows:
        """Learn the new stream from the last rows of a slice; what is left of it goes on in the new order."""
        self.surprises += 1
        self._pending = [[] for _ in self._pending]
        self.ordering.forget()
        self._learn(rows[-self.thresholds.burst :], evaluate)
        began = time.perf_counter()
        for f in self.order:
            if f not in done and len(left):
                self.evaluations += len(left)
                left = left[evaluate(f, left)]
        self._processed(began)
        return left

    def _processed(self, since: float) -> None:
        took = time.perf_counter() - since
        self._spent["tuple processing"] += took
        self._purse = min(self._purse + self.thresholds.overhead * took, PURSE)

    def _learn(self, rows: Rows, evaluate: Evaluate) -> None:
        """A burst: a new profile window from the same rows through every filter, cheap ones first.

        An expensive filter comes after the cheap ones anyway, so only what they let through is of interest.
        """
        began = time.perf_counter()
        times = self.ordering.window.times()
        bits = np.zeros((len(rows), self.ordering.n), np.uint8)
        for f in np.argsort(times, kind="stable").tolist():
            dear = times[f] > EXPENSIVE * times.min()
            some = ~bits.any(axis=1) if dear else slice(None)
            asked = rows[some]
            if len(asked):
                bits[some, f] = ~evaluate(f, asked)
                self.profile_evaluations += len(asked)
        self._spent["profile tuples"] += time.perf_counter() - began
        dropped = bits[bits.any(axis=1)]
        self.expected.passing = 1 - len(dropped) / len(bits)
        self._observe(dropped)
        self.expected.reorder(self.ordering.first_drops())
        self._pay(began)

    def _time(self, rows: Rows, evaluate: Evaluate) -> None:
        """Time every filter on the same rows; at the start, learn an order from some too."""
        began = time.perf_counter()
        took = [self._seconds_a_row(f, rows[:TIMED], evaluate) for f in range(self.ordering.n)]
        self.ordering.window.note_times(np.array(took) + HANDLING)
        self._spent["profile tuples"] += time.perf_counter() - began
        self._pay(began)
        self._next_timing = self.tuples + self._until_timing
        self._until_timing = min(4 * self._until_timing, TIMED_EVERY)
        if self.ordering.whole and not self.tuples:
            self._learn(rows[: self.thresholds.burst], evaluate)

    def _seconds_a_row(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """Of a few rows if they take long, of all if a call takes as long as the rows do."""
        for some in (rows[: TIMED >> 3], rows):
            # The second time counts: a filter that is seldom reached is not slow for its cold memory.
            for _ in range(2):
                before = time.perf_counter()
                evaluate(f, some)
                took = time.perf_counter() - before
            self.profile_evaluations += 2 * len(some)
            if took > LONG:
                break
        return took / len(some)

    def _profile(self, evaluate: Evaluate) -> None:
        """Make profile tuples of the sampled rows, unless there is no time for it."""
        if not any(self._pending):
            return
        if self._purse > 0:
            began = time.perf_counter()
            profile = self._profile_tuples(evaluate)
            self._spent["profile tuples"] += time.perf_counter() - began
            self._observe(profile)
            self._pay(began)
        self._pending = [[] for _ in self._pending]

    def _profile_tuples(self, evaluate: Evaluate) -> Bits:
        """A profile tuple for every sampled row: the bits of the filters that the algorithm wants."""
        n = self.ordering.n
        stops = np.cumsum([0, *(sum(len(s) for s in p) for p in self._pending)])
        rows = np.concatenate([s for p in self._pending for s in p])
        bits = np.zeros((len(rows), n), np.uint8)
        asked: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for position, f in enumerate(self.order):
            first, stop = int(stops[position]), int(stops[position + 1])
            if first == stop:
                continue
            bits[first:stop, f] = 1
            for other in self.ordering.wanted(position):
                spans = asked[other]
                # Rows that neighbouring positions dropped are neighbours: one call for them.
                if spans and spans[-1][1] == first:
                    first = spans.pop()[0]
                spans.append((first, stop))
                first = int(stops[position])
        for position, f in enumerate(self.order):
            for first, stop in asked[position]:
                bits[first:stop, f] = ~evaluate(f, rows[first:stop])
                self.profile_evaluations += stop - first
        self.profiled += len(rows)
        # As they came: the window keeps the last ones, and those that were dropped first are not older.
        return bits[np.argsort(rows)]

    def _pay(self, since: float) -> None:
        self._purse = max(self._purse - (time.perf_counter() - since), -PURSE)

    def _observe(self, profile: Bits) -> None:
        if len(profile) and self.ordering.observe(profile):
            self.log.add(self.tuples, profile.mean(axis=0), self.order)
            if self.ordering.whole:
                self.expected.reorder(self.ordering.first_drops())

    def metrics(self) -> dict[str, Any]:
        """The order, why, and what adapting costs (thesis table 4.2)."""
        total = sum(self.seconds.values()) or 1.0
        return {
            "algorithm": self.ordering.name,
            "order": list(self.order),
            "switches": self.ordering.switches,
            "surprises": self.surprises,
            "evaluations a tuple": self.evaluations / max(self.tuples, 1),
            "profiled": self.profiled,
            "share of time": {what: seconds / total for what, seconds in self.seconds.items()},
            "decisions": [
                {"tuple": d.time, "drops": list(d.statistics), "order": list(d.plan)}
                for d in self.log.last(8)
            ],
        }
