"""The rates of results that the papers give for each way of sharing what is short."""

from __future__ import annotations

import pytest

from penstock.approx.allocation import STRATEGIES, Allocation, Budget, allocate
from penstock.cost.model import Workload

CPU = Workload(rate_a=800, rate_b=200, window_a=100, window_b=200)
MEMORY = Workload(rate_a=10, rate_b=50, window_a=1e6, window_b=1e6)
BOTH = Workload(rate_a=100, rate_b=100, window_a=1000, window_b=1000)


@pytest.mark.parametrize(
    ("strategy", "results"),
    [("optimal", 200), ("max-a", 200), ("proportional", 180), ("equal", 150), ("max-b", 100)],
)
def test_limited_cpu(strategy: str, results: float) -> None:
    assert allocate(CPU, Budget(rate=100), strategy).output_rate(0.01) == pytest.approx(results)


@pytest.mark.parametrize(
    ("strategy", "results"),
    [("optimal", 250), ("max-a", 250), ("inverse", 217), ("equal", 150), ("proportional", 83), ("max-b", 50)],
)
def test_limited_memory(strategy: str, results: float) -> None:
    assert allocate(MEMORY, Budget(rows=1000), strategy).output_rate(0.005) == pytest.approx(results, abs=0.5)


@pytest.mark.parametrize(("strategy", "results"), [("optimal", 10), ("equal", 5), ("max-a", 0), ("max-b", 0)])
def test_both_limited(strategy: str, results: float) -> None:
    assert allocate(BOTH, Budget(rate=10, rows=100), strategy).output_rate(0.01) == pytest.approx(results)


def test_tuples_dropped_before_the_windows_are_dropped_to_equal_rates() -> None:
    """The earlier text's figure 8: 80 and 20 a second, windows of 9 and 1 seconds, 10 may be served."""
    workload = Workload.timed(80, 20, 9, 1)
    budget = Budget(rate=10, before_windows=True)
    best = allocate(workload, budget)
    assert (best.rate_a, best.rate_b) == (5, 5)
    assert (best.window_a, best.window_b) == (45, 5)
    others = (allocate(workload, budget, name).output_rate(0.02) for name in STRATEGIES)
    assert best.output_rate(0.02) == pytest.approx(max(others))


def test_a_slow_stream_keeps_its_rate_when_the_fast_one_is_regulated() -> None:
    """The earlier text's example: rates of 5 and 100 under a service rate of 50 become 5 and 45."""
    regulated = allocate(Workload.timed(5, 100, 1, 1), Budget(rate=50, before_windows=True))
    assert (regulated.rate_a, regulated.rate_b) == (5, 45)


def test_each_side_has_its_least() -> None:
    """Section 5.2.1: windows of 500 and 1000, 100 served a second, each stream at least 10."""
    given = allocate(Workload(1000, 1000, 500, 1000), Budget(rate=100, least=10))
    assert (given.rate_a, given.rate_b) == (90, 10)
    kept = allocate(Workload(10, 50, 5000, 5000), Budget(rows=1000, least_rows=300))
    assert (kept.window_a, kept.window_b) == (700, 300)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_budget_that_suffices_takes_nothing(strategy: str) -> None:
    assert allocate(CPU, Budget(rate=1000, rows=300), strategy) == Allocation(800, 200, 100, 200)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rate", [1, 50, 300, 900])
def test_no_side_gets_more_than_it_has_and_all_is_given(strategy: str, rate: float) -> None:
    given = allocate(CPU, Budget(rate=rate), strategy)
    assert given.rate_a + given.rate_b == pytest.approx(rate)
    assert 0 <= given.rate_a <= 800
    assert 0 <= given.rate_b <= 200
