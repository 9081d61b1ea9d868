"""Independent (thesis 4.5): orders by each filter's own drop probability, as if filters were independent."""

from __future__ import annotations

import numpy as np

from penstock.streamon.framework import Recall
from penstock.streamon.ordering import Ordering
from penstock.streamon.profile_window import Bits
from penstock.streamon.thresholds import Thresholds


class Independent(Ordering):
    """Keeps the first row of the matrix view only."""

    name = "independent"

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.row = np.zeros(n, np.int64)

    def _view(self, come: Bits, gone: Bits) -> None:
        self.row += come.sum(axis=0, dtype=np.int64) - gone.sum(axis=0, dtype=np.int64)

    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        ratios = self.row / self.window.times()
        # One pass of insertion sort with alpha's tolerance: near-ties stay as they are.
        for at in range(1, self.n):
            k = at
            while k and ratios[self.order[k - 1]] < self.thresholds.alpha * ratios[self.order[k]]:
                self.order[k - 1], self.order[k] = self.order[k], self.order[k - 1]
                k -= 1
