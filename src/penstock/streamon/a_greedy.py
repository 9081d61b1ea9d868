"""A-Greedy (thesis 4.3): keeps an order that satisfies the Greedy Invariant on the profile window.

V[i, i] / a(i) >= V[i, j] / a(j) for all i <= j: of the tuples that get to position i, the filter there drops
the most for its time. V is kept by increments (fig. 4.5), a violation is seen at once (fig. 4.6, with the
thrashing parameter of equation 4.4) and corrected from the window (fig. 4.7). A filter that moves forward
passes those between; their order among themselves stays (example 4.3.3).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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

    def _observe(self, profile: Bits) -> None:
        self._count(self.window.insert(profile), -1)
        self._count(profile[-len(self.window.bits) :], 1)
        violated = self.violation()
        if violated is not None:
            self._correct(violated)

    def _count(self, profile: Bits, by: int) -> None:
        """Figure 4.5, for several tuples at once."""
        left = profile[:, self.order].astype(np.int64)
        for i in range(self.n):
            self.view[i, i:] += by * left[:, i:].sum(axis=0)
            left = left[left[:, i] == 0]

    def ratios(self) -> npt.NDArray[np.float64]:
        """V[i, j] / a(j)."""
        return self.view / self.window.times()[self.order]

    def violation(self) -> int | None:
        """The first position at which the Greedy Invariant is violated by more than alpha allows."""
        ratios = self.ratios()
        for i in range(self.n - 1):
            if ratios[i, i] < self.thresholds.alpha * ratios[i, i + 1 :].max():
                return i
        return None

    def _correct(self, position: int) -> None:
        """Figure 4.7: choose anew from ``position`` on, as far as the choice disturbs what follows."""
        self.corrections += 1
        times, bits = self.window.times(), self.window.tuples()
        r, last = position, position
        while r <= last:
            left = bits[~bits[:, self.order[:r]].any(axis=1)]
            ratios = left[:, self.order[r:]].sum(axis=0) / times[self.order[r:]]
            best = r + int(np.argmax(ratios))
            last = max(last, best)
            self.order.insert(r, self.order.pop(best))
            r += 1
        self.view = self.matrix_view()
