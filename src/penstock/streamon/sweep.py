"""Sweep (thesis 4.4): A-Greedy for one filter at a time; a stage profiles the filter at position j only."""

from __future__ import annotations

import numpy as np

from penstock.streamon.framework import Recall
from penstock.streamon.ordering import Ordering
from penstock.streamon.profile_window import Bits
from penstock.streamon.thresholds import Thresholds


class Sweep(Ordering):
    """At most one more evaluation a profiled tuple, and n - 1 stages to see everything."""

    name = "sweep"
    whole = False

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.profiled = min(1, n - 1)
        self._seen = 0

    def asked_from(self, position: int) -> int:
        return 0 if position == self.profiled else position

    def telling(self, profile: Bits) -> Bits:
        # A tuple that gets past the profiled filter says nothing about it.
        return profile[profile[:, self.order[: self.profiled + 1]].any(axis=1)]

    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        if self.n < 2:
            return
        self._seen += profiled
        violated = self.violation()
        if violated is not None:
            self.order.insert(violated, self.order.pop(self.profiled))
        if violated is not None or self._seen >= self.thresholds.sweep_stage:
            self._next_stage()

    def _next_stage(self) -> None:
        self._seen = 0
        self.window.clear()
        self.profiled = self.profiled % (self.n - 1) + 1

    def violation(self) -> int | None:
        """The first position before j whose filter drops less for its time than the one at j would."""
        bits = self.window.tuples()[:, self.order]
        times = self.window.times()[self.order]
        if len(bits) < max(8, self.thresholds.sweep_stage // 10):
            return None
        j = self.profiled
        first = np.argmax(bits, axis=1)
        for i in range(j):
            here = np.count_nonzero(first == i) / times[i]
            there = np.count_nonzero(bits[first >= i, j]) / times[j]
            if here < self.thresholds.alpha * there:
                return i
        return None
