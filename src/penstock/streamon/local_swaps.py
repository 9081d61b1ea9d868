"""LocalSwaps (thesis 4.6): looks at neighbours only, and swaps two where that would pay."""

from __future__ import annotations

import numpy as np

from penstock.streamon.framework import Recall
from penstock.streamon.ordering import Ordering


class LocalSwaps(Ordering):
    """One more evaluation a profiled tuple; two diagonals of the view."""

    name = "local-swaps"
    whole = False

    def asked_from(self, position: int) -> int:
        return max(position - 1, 0)

    def _keep_invariant(self, profiled: int, recall: Recall) -> None:
        # After a swap the window is filled anew; a part of it must be there to be judged.
        if len(self.window) < len(self.window.bits) // 4:
            return
        violated = self.violation()
        if violated is not None:
            i = violated
            self.order[i], self.order[i + 1] = self.order[i + 1], self.order[i]
            # What was profiled for the old neighbours says nothing about the new ones.
            self.window.clear()

    def violation(self) -> int | None:
        """The first position whose filter drops less for its time than its neighbour would there."""
        bits = self.window.tuples()[:, self.order]
        times = self.window.times()[self.order]
        first = np.argmax(bits, axis=1)
        for i in range(self.n - 1):
            here = np.count_nonzero(first == i) / times[i]
            # Tuples dropped at i were profiled on i + 1 too; those dropped at i + 1 passed i.
            there = np.count_nonzero(bits[(first == i) | (first == i + 1), i + 1]) / times[i + 1]
            if here < self.thresholds.alpha * there:
                return i
        return None
