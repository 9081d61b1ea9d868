"""The cost model gives the numbers that the paper prints."""

from __future__ import annotations

import pytest

from penstock.cost.model import HASH, PAPER, SCAN, T_TREE, Workload, cheapest, combinations, crossover, full

NAMES = ("HH", "TT", "HT", "TH", "HN", "NH", "TN", "NT")
TABLE_3 = {
    Workload(2, 998, 9500, 500): (7.06, 9.56, 10.89, 5.74, 5.99, 2845.87, 4.67, 2849.69),
    Workload(800, 200, 7000, 3000): (7.06, 11.85, 6.46, 12.46, 722.39, 424.87, 727.78, 424.27),
    Workload(550, 450, 4000, 6000): (7.06, 11.60, 8.93, 9.73, 993.42, 543.84, 996.09, 545.71),
}


@pytest.mark.parametrize("workload", TABLE_3)
def test_table_3(workload: Workload) -> None:
    assert tuple(round(full(name, workload).total, 2) for name in NAMES) == TABLE_3[workload]


def test_crossover_of_tn_and_th() -> None:
    """Equation 8: 13.6 / (3 B - 55)."""
    assert crossover(SCAN, HASH, 500) == pytest.approx(13.6 / (3 * 500 - 55))
    assert round(crossover(SCAN, HASH, 500), 4) == 0.0094


def test_crossover_of_hash_and_t_tree() -> None:
    """At the crossover both cost the same; equations 9 and 10."""
    ratio = crossover(HASH, T_TREE, 5000)
    at = Workload(rate_a=ratio, rate_b=1, window_a=5000, window_b=5000)
    assert at.into_b.cost(HASH, PAPER) == pytest.approx(at.into_b.cost(T_TREE, PAPER))


def test_winners_along_the_ratio_of_rates() -> None:
    """Figure 2: windows of 5000 each."""
    winners = []
    for share in range(1, 10_000):
        workload = Workload(share, 10_000 - share, 5000, 5000)
        best = combinations(workload, PAPER, (HASH, T_TREE, SCAN))[0].name
        if not winners or winners[-1] != best:
            winners.append(best)
    assert winners == ["TN", "TH", "HH", "HT", "NT"]


def test_directions_are_chosen_alone() -> None:
    methods = (HASH, T_TREE, SCAN)
    for workload in TABLE_3:
        best = combinations(workload, PAPER, methods)[0]
        assert cheapest(workload.into_a, PAPER, methods) == best.on_a
        assert cheapest(workload.into_b, PAPER, methods) == best.on_b


def test_windows_of_time_hold_rate_times_length() -> None:
    assert Workload.timed(10, 20, 60, 30) == Workload(10, 20, 600, 600)
