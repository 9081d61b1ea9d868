"""Active or lazy invalidation of one window, chosen again while the join runs.

An instance of StreaMon whose plan is the name of a policy (``engine/synopses/invalidation.py``). The profiler
counts the steps of the join, those in which the window was probed, and the rows that entered it, all in the
order of the stream, and halves old counts with each period. Lazy costs memory, so it must save a share of
what freeing rows costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from penstock.measurement import Property, Reading, curve
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Price, Statistics
from penstock.streamon.settings import INVALIDATION, InvalidationThresholds


class InvalidationCosts(Protocol):
    """Estimates the cost of policies."""

    @property
    def invalidation(self) -> str | None:
        """The policy that is forced, if any."""

    def invalidations(self, steps: float, probed: float, rows: float, window: float) -> dict[str, float]:
        """Seconds by each policy, the cheapest first."""


class Turnover(NamedTuple):
    """Recent steps, those in which a window was probed, rows that entered it; the rows in it."""

    steps: float = 0.0
    probed: float = 0.0
    rows: float = 0.0
    window: int = 0


class TurnoverProfiler:
    """Counts a window's steps."""

    def __init__(self) -> None:
        self.turnover = Turnover()
        self.steps = 0

    def stepped(self, probed: bool, rows: int, window: int) -> None:
        steps, before, entered, _ = self.turnover
        self.turnover = Turnover(steps + 1, before + probed, entered + rows, window)
        self.steps += 1

    def end_period(self) -> Turnover:
        """The counts up to now; from now on they count half."""
        now = self.turnover
        self.turnover = Turnover(now.steps / 2, now.probed / 2, now.rows / 2, now.window)
        return now

    def statistics(self, evidence: Turnover) -> Statistics:
        return np.array(evidence, np.float64)


class CheapestInvalidation:
    """Re-optimizes by the cost model."""

    def __init__(self, costs: InvalidationCosts, thresholds: InvalidationThresholds) -> None:
        self._costs, self._thresholds = costs, thresholds
        self.plan = "active"
        self.gain = 0.0

    def reconsider(self, evidence: Turnover, recall: Callable[[], str | None]) -> bool:
        costs = self._costs.invalidations(*evidence)
        best = "lazy" if costs["active"] > self._thresholds.margin * costs["lazy"] else "active"
        if best == self.plan:
            return False
        self.gain = 1.0 - costs[best] / costs[self.plan]
        self.plan = best
        return True


class AdaptiveInvalidation:
    """Which policy a reader prefers; without costs always active, and the forced one where one is."""

    def __init__(
        self, costs: InvalidationCosts | None, thresholds: InvalidationThresholds = INVALIDATION
    ) -> None:
        self.policy = (costs.invalidation if costs else None) or "active"
        self.log = PlanLog[str](thresholds.plan_log_size)
        self._costs, self._period = costs, thresholds.period
        self._profiler = TurnoverProfiler()
        self._streamon: StreaMon[str, Turnover] | None = None
        if costs is not None and costs.invalidation is None:
            cheapest = CheapestInvalidation(costs, thresholds)
            self._streamon = StreaMon(self, self._profiler, cheapest, self.log, self._pricing)

    def _pricing(self, _: Statistics, turnover: Turnover) -> Price[str]:
        assert self._costs is not None
        costs = self._costs.invalidations(*turnover)
        return lambda policy: costs[policy] / max(turnover.steps, 1.0)

    def use(self, plan: str) -> None:
        self.policy = plan

    def stepped(self, probed: bool, rows: int, window: int) -> None:
        """Count a step, and choose again after some."""
        self._profiler.stepped(probed, rows, window)
        if self._streamon is not None and self._profiler.steps % self._period == 0:
            self._streamon.adapt(self._profiler.steps, self._profiler.end_period())

    def measure(self) -> Iterator[Reading]:
        """The policy, what each would cost for the steps now counted, and the last changes."""
        yield Reading(Property.INVALIDATION, 0, self.policy)
        if self._costs is not None:
            costs = self._costs.invalidations(*self._profiler.turnover)
            yield from curve(Property.COST, costs.values(), costs)
        yield Reading(Property.CHANGES, self.log.count)
        yield from self.log.measure(Turnover._fields, str)
