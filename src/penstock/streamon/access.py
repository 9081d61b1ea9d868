"""The access method of one index, chosen again while the join runs (Kang et al., section 5.1).

An instance of StreaMon whose plan is the name of a method. The executor is the index that is probed. The
profiler counts its probes and the rows that enter its window, both in stream order, so that the same input
always leads to the same choices, and halves old counts with each period. The re-optimizer compares what every
method would have cost, and changes to the cheapest if that saves more than a margin and, over the rows of one
window, more than it takes to build the new index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from penstock.measurement import Property, Reading, curve
from penstock.streamon.framework import StreaMon
from penstock.streamon.invalidation import InvalidationCosts
from penstock.streamon.plan_log import PlanLog, Price, Statistics
from penstock.streamon.settings import ACCESS, AccessThresholds

ADAPTIVE = "adaptive"
"""As the name of a method: the cheapest, chosen again while the query runs."""


class Chooser(InvalidationCosts, Protocol):
    """Estimates the cost of access methods, and of freeing rows."""

    def among(self, methods: Sequence[str]) -> Sequence[str]:
        """The methods to choose from, of those that find the rows; the first is used at first."""

    def costs(self, probes: float, updates: float, window: float, methods: Sequence[str]) -> dict[str, float]:
        """The cost of these probes and updates by each method, the cheapest first."""


class Usage(NamedTuple):
    """Recent probes of a window, recent insertions into it, and the rows in it when it was probed."""

    probes: float = 0.0
    updates: float = 0.0
    window: int = 0


class UsageProfiler:
    """Counts probes and updates; each period halves the counts before it."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.rows = 0
        self._probes = self._updates = self._probed_rows = 0

    def probed(self, count: int, window: int) -> None:
        self._probes += count
        self._probed_rows += count * window

    def updated(self, count: int) -> None:
        self._updates += count

    @property
    def pending(self) -> int:
        """Rows counted since the last period."""
        return self._probes + self._updates

    def end_period(self, window: int) -> Usage:
        """Usage including this period, after which the window holds ``window`` rows.

        The size that counts is the one at the time of the probes: in a large batch it is larger.
        """
        self.rows += self.pending
        held = self._probed_rows // self._probes if self._probes else window
        probes, updates, _ = self.usage
        self.usage = Usage(probes / 2 + self._probes, updates / 2 + self._updates, held)
        self._probes = self._updates = self._probed_rows = 0
        return self.usage

    def statistics(self, evidence: Usage) -> Statistics:
        return np.array(evidence, np.float64)


class CheapestMethod:
    """Re-optimizes by the cost model."""

    def __init__(self, methods: Sequence[str], chooser: Chooser, thresholds: AccessThresholds) -> None:
        self._methods, self._chooser, self._thresholds = methods, chooser, thresholds
        self.plan = methods[0]
        self.gain = 0.0

    def reconsider(self, evidence: Usage, recall: Callable[[], str | None]) -> bool:
        costs = self._chooser.costs(*evidence, self._methods)
        best = next(iter(costs))
        if not self._pays(costs, best, evidence):
            return False
        self.gain = 1.0 - costs[best] / costs[self.plan]
        self.plan = best
        return True

    def _pays(self, costs: dict[str, float], best: str, usage: Usage) -> bool:
        if best == self.plan or costs[self.plan] < self._thresholds.margin * costs[best]:
            return False
        rows = max(usage.probes + usage.updates, 1.0)
        saved = (costs[self.plan] - costs[best]) / rows * max(usage.window, self._thresholds.period)
        return saved > self._chooser.costs(0, usage.window / 2, usage.window, (best,))[best]


class AdaptiveAccess:
    """Which of ``methods`` a window is probed by; without a chooser, always the first.

    A chooser that leaves one method forces it.
    """

    def __init__(
        self, methods: Sequence[str], chooser: Chooser | None, thresholds: AccessThresholds = ACCESS
    ) -> None:
        self._all = tuple(methods)
        self._planned = tuple(methods if chooser is None else chooser.among(methods))
        self.method = self._planned[0]
        self.log = PlanLog[str](thresholds.plan_log_size)
        self._chooser, self._thresholds = chooser, thresholds
        self._profiler = UsageProfiler()
        self._choose_from(self._planned)

    def _choose_from(self, methods: tuple[str, ...]) -> None:
        self.methods = methods
        self._streamon: StreaMon[str, Usage] | None = None
        if self._chooser is not None:
            cheapest = CheapestMethod(methods, self._chooser, self._thresholds)
            cheapest.plan = self.method
            self._streamon = StreaMon(self, self._profiler, cheapest, self.log, self._pricing)

    def _pricing(self, _: Statistics, usage: Usage) -> Price[str]:
        assert self._chooser is not None
        costs, rows = self._chooser.costs(*usage, self._all), max(usage.probes + usage.updates, 1.0)
        return lambda method: costs[method] / rows

    def force(self, name: str | None) -> bool:
        """Use this method wherever it finds the rows; "adaptive": choose; None: as planned.

        Returns whether another method is used now.
        """
        known = (name,) if name in self._all else self._all if name == ADAPTIVE else self._planned
        before = self.method
        if known != self.methods:
            self.method = before if before in known else known[0]
            self._choose_from(known)
        return self.method != before

    def use(self, plan: str) -> None:
        self.method = plan

    def probed(self, count: int, window: int) -> None:
        """Count tuples that probed the index while ``window`` rows were in the window."""
        self._profiler.probed(count, window)

    def reconsider(self, updates: int, window: int) -> str | None:
        """Count rows that entered the window, which now holds ``window``; the method to change to, if any."""
        self._profiler.updated(updates)
        if self._streamon is None or self._profiler.pending < self._thresholds.period:
            return None
        usage = self._profiler.end_period(window)
        return self.method if self._streamon.adapt(self._profiler.rows, usage) else None

    def measure(self) -> Iterator[Reading]:
        """The method, what each would cost for the rows now counted, and the last changes."""
        usage = self._profiler.usage
        yield Reading(Property.METHOD, 0, self.method)
        yield Reading(Property.PROBES, usage.probes)
        yield Reading(Property.UPDATES, usage.updates)
        if self._chooser is not None and usage.probes + usage.updates > 0:
            costs = self._chooser.costs(*usage, self.methods)
            yield from curve(Property.COST, costs.values(), costs)
        yield Reading(Property.CHANGES, self.log.count)
        yield from self.log.measure(Usage._fields, str, self._profiler.rows)
