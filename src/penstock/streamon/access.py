"""The access method of one index, chosen again while the join runs.

The executor counts the probes of the index and the rows that enter its window; both in stream order, so that
the choice is the same whenever the same input is run again. The profiler forgets half of what it knows with
each period. The re-optimizer asks what every method would have cost and changes to the cheapest where that
saves more than a margin, and, in the rows of one window, more than the new index takes to build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from penstock.streamon.plan_log import PlanLog
from penstock.streamon.thresholds import ACCESS, AccessThresholds


class Chooser(Protocol):
    """Knows what access methods cost."""

    def costs(self, probes: float, updates: float, window: float, methods: Sequence[str]) -> dict[str, float]:
        """The cost of so many probes and updates by each method, the cheapest first."""


class AdaptiveAccess:
    """Which of ``methods`` a window is probed by; without a chooser, always the first."""

    def __init__(
        self, methods: Sequence[str], chooser: Chooser | None, thresholds: AccessThresholds = ACCESS
    ) -> None:
        self.methods = tuple(methods)
        self.method = self.methods[0]
        self.thresholds = thresholds
        self.log = PlanLog(thresholds.plan_log)
        self._chooser = chooser
        self._probes = self._updates = 0.0
        self._new_probes = self._new_updates = self._new_rows = self._seen = 0
        self._window = 0

    def probed(self, count: int, window: int) -> None:
        """So many tuples probed the index while so many rows were in the window."""
        self._new_probes += count
        self._new_rows += count * window

    def reconsider(self, updates: int, window: int) -> str | None:
        """Take in the rows that entered the window, which now holds so many; the method to change to, if any.

        What counts is what the window holds when it is probed: with a large batch that is more.
        """
        self._new_updates += updates
        if self._chooser is None or self._new_probes + self._new_updates < self.thresholds.period:
            return None
        self._seen += self._new_probes + self._new_updates
        self._probes = self._probes / 2 + self._new_probes
        self._updates = self._updates / 2 + self._new_updates
        self._window = window = self._new_rows // self._new_probes if self._new_probes else window
        self._new_probes = self._new_updates = self._new_rows = 0
        costs = self._chooser.costs(self._probes, self._updates, window, self.methods)
        best = next(iter(costs))
        if not self._pays(costs, best, window):
            return None
        self.method = best
        self.log.add(self._seen, np.array([self._probes, self._updates, window]), [self.methods.index(best)])
        return best

    def _pays(self, costs: dict[str, float], best: str, window: int) -> bool:
        assert self._chooser is not None
        if best == self.method or costs[self.method] < self.thresholds.margin * costs[best]:
            return False
        rows = max(self._probes + self._updates, 1.0)
        saved = (costs[self.method] - costs[best]) / rows * max(window, self.thresholds.period)
        return saved > self._chooser.costs(0, window / 2, window, (best,))[best]

    def metrics(self) -> dict[str, Any]:
        """The method, what each would cost for the rows now counted, and the last changes."""
        told: dict[str, Any] = {"method": self.method, "probes": self._probes, "updates": self._updates}
        if self._chooser is not None and self._probes + self._updates > 0:
            told["costs"] = self._chooser.costs(self._probes, self._updates, self._window, self.methods)
        told["switches"] = self.log.count
        told["decisions"] = [
            {"row": d.time, "method": self.methods[d.plan[0]], "probes": d.statistics[0],
             "updates": d.statistics[1], "window": d.statistics[2]}
            for d in self.log.last(8)
        ]  # fmt: skip
        return told
