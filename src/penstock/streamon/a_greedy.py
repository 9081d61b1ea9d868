"""A-Greedy (thesis 4.3): keeps an order that satisfies the Greedy Invariant on the profile window.

V[i, i] / a(i) >= V[i, j] / a(j) for all i <= j: of the tuples that get to position i, the filter there drops
the most for its time. V is kept by increments (fig. 4.5), a violation is seen at once (fig. 4.6, with the
thrashing parameter of equation 4.4) and corrected from the window (fig. 4.7). A filter that moves forward
passes those between; their order among themselves stays (example 4.3.3).
"""

from __future__ import annotations

import numpy as np

from penstock.streamon import kernels
from penstock.streamon.framework import Recall
from penstock.streamon.ordering import Ordering
from penstock.streamon.profile_window import Bits
from penstock.streamon.thresholds import Thresholds


class AGreedy(Ordering):
    """Immediate detection, immediate correction."""

    name = "a-greedy"

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.view = np.zeros((n, n), np.int64)
        self.corrections = 0

    def _view(self, come: Bits, gone: Bits) -> None:
        order = np.array(self.order)
        if len(gone):
            kernels.count(self.view, order, gone, -1)
        kernels.count(self.view, order, come, 1)

    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        violated = self.violation()
        if violated is None or self._take(recall()):
            return
        order, times = np.array(self.order), self.window.times()
        self.corrections += kernels.mend(
            self.view, order, self.window.tuples(), times, self.thresholds.alpha, violated
        )
        self.order = order.tolist()

    def _take(self, known: list[int] | None) -> bool:
        """Take an order that was good for the like, if a search would find nothing better now."""
        if known is None:
            return False
        order, view = np.array(known), np.zeros_like(self.view)
        kernels.count(view, order, self.window.tuples(), 1)
        if kernels.violated(view, order, self.window.times(), 1.0) >= 0:
            return False
        self.order, self.view = known, view
        return True

    def violation(self) -> int | None:
        """The first position at which the Greedy Invariant is violated by more than alpha allows."""
        order, times = np.array(self.order), self.window.times()
        at = kernels.violated(self.view, order, times, self.thresholds.alpha)
        return None if at < 0 else at

    def forget(self) -> None:
        self.window.clear()
        self.view[:] = 0
