"""Pipelined filters (thesis chapter 4): an executor with a profiler and a re-optimizer inside (fig. 4.10).

The executor evaluates filters on the tuples that the ones before let through. Of the tuples they drop, a
share is profiled: the other filters are evaluated on them too. The ordering algorithm makes of the profile
what it will; the next slice of tuples goes through in its order. Which tuples pass never depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.streamon.algorithms import ordering
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import Bits
from penstock.streamon.thresholds import Thresholds

Rows = npt.NDArray[np.int64]
Evaluate = Callable[[int, Rows], npt.NDArray[np.bool_]]
"""Which of the given rows a filter lets through."""

SLICE = 1 << 15
"""Rows that go through in one order: enough to be fast, few enough to adapt within a batch."""


class PipelinedFilters:
    """An adaptive conjunction of ``n`` filters."""

    def __init__(
        self, n: int, algorithm: str = "a-greedy", thresholds: Thresholds | None = None, seed: int = 0
    ) -> None:
        self.ordering = ordering(algorithm, n, thresholds)
        self.log = PlanLog(self.ordering.thresholds.plan_log)
        self._random = np.random.default_rng(seed)
        self.tuples = self.evaluations = self.profiled = 0
        self.seconds = {"processing": 0.0, "profile tuples": 0.0, "window and view": 0.0}

    @property
    def order(self) -> list[int]:
        """The order now used."""
        return self.ordering.order

    def run(self, count: int, evaluate: Evaluate) -> Rows:
        """The rows 0 .. count-1 that every filter lets through."""
        passed = [
            self._slice(np.arange(at, min(at + SLICE, count)), evaluate) for at in range(0, count, SLICE)
        ]
        self.tuples += count
        return np.concatenate(passed) if passed else np.empty(0, np.int64)

    def _slice(self, rows: Rows, evaluate: Evaluate) -> Rows:
        began = time.perf_counter()
        dropped: list[tuple[int, Rows]] = []
        for position, f in enumerate(self.order):
            if not len(rows):
                break
            before = time.perf_counter()
            passes = evaluate(f, rows)
            self.ordering.window.note_time(f, (time.perf_counter() - before) / len(rows))
            self.evaluations += len(rows)
            dropped.append((position, self._sample(rows, passes)))
            rows = rows[passes]
        self.seconds["processing"] += time.perf_counter() - began
        self._adapt(dropped, evaluate)
        return rows

    def _sample(self, rows: Rows, passes: npt.NDArray[np.bool_]) -> Rows:
        share = self.ordering.thresholds.drop_profiling_probability
        lost = len(rows) - int(np.count_nonzero(passes))
        count = self._random.binomial(lost, share) if share < 1 else lost
        if count == 0:
            return rows[:0]
        gone = rows[~passes]
        return gone if share >= 1 else gone[self._random.integers(0, lost, count)]

    def _adapt(self, dropped: list[tuple[int, Rows]], evaluate: Evaluate) -> None:
        began = time.perf_counter()
        profile = self._profile(dropped, evaluate)
        created = time.perf_counter()
        self.seconds["profile tuples"] += created - began
        if len(profile) and self.ordering.observe(profile):
            self.log.add(self.tuples, profile.mean(axis=0), self.order)
        self.seconds["window and view"] += time.perf_counter() - created

    def _profile(self, dropped: list[tuple[int, Rows]], evaluate: Evaluate) -> Bits:
        """A profile tuple for every sampled row: the bits of the filters that the algorithm wants."""
        n = self.ordering.n
        rows = np.concatenate([r for _, r in dropped]) if dropped else np.empty(0, np.int64)
        at = np.repeat([p for p, _ in dropped], [len(r) for _, r in dropped]).astype(np.int64)
        bits = np.zeros((len(rows), n), np.uint8)
        bits[np.arange(len(rows)), np.array(self.order)[at]] = 1
        wants = {p: self.ordering.wanted(p) for p, r in dropped if len(r)}
        for position, f in enumerate(self.order):
            asked = np.isin(at, [p for p, w in wants.items() if position in w])
            if asked.any():
                bits[asked, f] = ~evaluate(f, rows[asked])
        self.profiled += len(rows)
        return bits

    def metrics(self) -> dict[str, Any]:
        """The order, why, and what adapting costs (thesis table 4.2)."""
        total = sum(self.seconds.values()) or 1.0
        return {
            "algorithm": self.ordering.name,
            "order": list(self.order),
            "switches": self.ordering.switches,
            "evaluations a tuple": self.evaluations / max(self.tuples, 1),
            "profiled": self.profiled,
            "share of time": {what: seconds / total for what, seconds in self.seconds.items()},
            "decisions": [
                {"tuple": d.time, "drops": list(d.statistics), "order": list(d.plan)}
                for d in self.log.last(8)
            ],
        }
