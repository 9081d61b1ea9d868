"""The plan log (thesis 7.1): what-if, and statistics that are prone to transient changes."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.measurement import Property
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.settings import Thresholds

COSTS = {"a": (1.0, 9.0), "b": (8.0, 2.0), "c": (4.0, 4.0)}
"""What plans cost in each of two phases."""


def logged(*entries: tuple[int, str, int]) -> PlanLog[str]:
    """Entries of (time, plan, phase)."""
    log = PlanLog[str](8)
    for time, plan, phase in entries:
        log.add(time, np.array([float(phase)]), plan, price=lambda p, phase=phase: COSTS[p][phase])
    return log


def test_what_if_the_plan_had_never_changed() -> None:
    """60 tuples in the first phase, 40 in the second: a costs 4.2, b 5.6; those that were used cost 1.4."""
    found = logged((0, "a", 0), (60, "b", 1)).what_if(now=100)
    assert found is not None
    assert (found.single, found.single_cost, found.adapted) == ("a", pytest.approx(4.2), pytest.approx(1.4))


def test_over_an_interval() -> None:
    log = logged((0, "a", 0), (60, "b", 1))
    inside = log.what_if(now=100, since=50)
    assert inside is not None and (inside.since, inside.single) == (50, "b")
    assert inside.single_cost == pytest.approx((10 * 8.0 + 40 * 2.0) / 50)
    before = log.what_if(now=60, since=0)
    assert before is not None and before.adapted == before.single_cost


def test_adapting_may_lose() -> None:
    """Plans that come too late: each was right for the phase before."""
    found = logged((0, "b", 0), (50, "a", 1), (100, "c", 0)).what_if(now=150)
    assert found is not None and found.adapted > found.single_cost


def test_without_prices_nothing_is_said() -> None:
    log = PlanLog[str](2)
    assert log.what_if(now=10) is None
    log.add(0, np.array([1.0]), "a")
    assert log.what_if(now=10) is None
    assert [r.property for r in log.measure(["rate"], str, now=10)].count(Property.SINGLE_PLAN) == 0


def statistics(*seen: tuple[int, float, float]) -> PlanLog[str]:
    log = PlanLog[str](16)
    for time, *values in seen:
        log.add(time, np.array(values), "a")
    return log


def test_transient_statistics() -> None:
    """The first comes back at once, twice; the second changes and stays."""
    log = statistics((0, 0.1, 0.2), (100, 0.9, 0.2), (105, 0.1, 0.2), (200, 0.9, 0.8), (205, 0.1, 0.8))
    assert log.transient().tolist() == [True, False]
    shown = [r.text for r in log.measure(["first", "second"], str) if r.property is Property.TRANSIENT]
    assert shown == ["first"]


def test_phases_are_not_transient() -> None:
    log = statistics(*((100 * n, float(n % 2), 0.0) for n in range(9)))
    assert log.transient().tolist() == [False, False]
    assert PlanLog[str](4).transient().tolist() == []


def test_a_single_visit_is_not_enough() -> None:
    log = statistics((0, 0.1, 0.2), (100, 0.9, 0.2), (105, 0.1, 0.2), (300, 0.1, 0.9))
    assert log.transient().tolist() == [False, False]


def test_orders_of_filters_have_prices() -> None:
    """Two phases with opposite filters: each single order is wrong in one of them."""
    filters = PipelinedFilters(2, thresholds=Thresholds(overhead_share=1e9, tuple_overhead_s=1.0))
    random = np.random.default_rng(1)
    for phase in range(2):
        for _ in range(10):
            passes = random.random((20_000, 2)) >= ([0.9, 0.1] if phase else [0.1, 0.9])
            filters.run(len(passes), lambda f, rows, passes=passes: passes[rows, f])
    found = filters.log.what_if(filters.tuples)
    assert found is not None and found.adapted < 0.9 * found.single_cost
