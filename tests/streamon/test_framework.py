"""Executor, profiler, re-optimizer and plan log work together for plans and evidence of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from penstock.cost.model import PAPER, ByCost
from penstock.streamon.access import AdaptiveAccess
from penstock.streamon.framework import StreaMon
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.plan_log import Decision, PlanLog
from penstock.streamon.settings import Thresholds


class Split(NamedTuple):
    """A plan of this test: which side gets more memory, and how much."""

    side: str
    rows: int


class Halves:
    """An adaptive operator in one: gives the busier side three quarters of 100 rows."""

    def __init__(self) -> None:
        self.plan, self.gain, self.used = Split("left", 50), 0.0, []

    def use(self, plan: Split) -> None:
        self.used.append(plan)

    def statistics(self, evidence: tuple[int, int]) -> np.ndarray:
        return np.array(evidence, float) / sum(evidence)

    def reconsider(self, evidence: tuple[int, int], recall: Callable[[], Split | None]) -> bool:
        left, right = evidence
        best = recall() or Split("left" if left > right else "right", 75)
        changed, self.plan = best != self.plan, best
        self.gain = abs(left - right) / (left + right)
        return changed


def test_a_plan_is_a_type_of_the_instance() -> None:
    halves, log = Halves(), PlanLog[Split](8, distance=0.05)
    streamon = StreaMon(halves, halves, halves, log)
    assert streamon.adapt(10, (3, 1))
    assert not streamon.adapt(20, (3, 1))
    assert streamon.adapt(30, (1, 3))
    assert streamon.adapt(40, (30, 10))
    left, right = Split("left", 75), Split("right", 75)
    assert halves.used == [left, right, left]
    assert log.last(8) == [
        Decision(10, (0.75, 0.25), left, 0.5),
        Decision(30, (0.25, 0.75), right, 0.5),
        Decision(40, (0.75, 0.25), left, 0.5, recalled=True),
    ]
    assert (log.count, log.recalled) == (3, 1)


def test_orders_are_logged_with_what_they_save() -> None:
    filters = PipelinedFilters(3, thresholds=Thresholds(overhead_share=1e9, tuple_overhead_s=1.0))
    passes = np.random.default_rng(1).random((100_000, 3)) >= [0.1, 0.5, 0.9]
    filters.run(len(passes), lambda f, rows: passes[rows, f])
    assert filters.log.last(1)[0].plan == (2, 1, 0) == tuple(filters.order)
    assert filters.log.last(9)[0].gain == 1.0, "the first order for a stream"


def test_access_methods_are_logged_with_what_they_save() -> None:
    chooser, methods = ByCost(PAPER), ("hash", "none")
    access = AdaptiveAccess(methods, chooser)
    access.probed(1, 300)
    access.reconsider(5_000, 300)
    (decision,) = access.log.last(9)
    costs = chooser.costs(1, 5_000, 300, methods)
    assert decision.plan == access.method == "none"
    assert decision.statistics == (1, 5_000, 300)
    assert decision.gain == pytest.approx(1 - costs["none"] / costs["hash"])
