"""Figures 4.22 to 4.24: total time where filter characteristics change periodically (n = 8)."""

from __future__ import annotations

from bench.paper.figure import Claim, Row, Scale, ratios, series, shown
from bench.paper.filters import UNIT, changing, over_seeds
from penstock.workloads.filters import FilterWorkload

SPREAD = 0.4
"""Selectivities from 10 to 90 %."""


def drifting(cost: int, period: int, tuples: int, scale: Scale, seeds: int) -> list[Row]:
    """Four filters of cost 1, four of cost ``cost``; every change permutes the selectivities at random."""
    period, tuples = scale.tuples(period), scale.tuples(tuples)
    return over_seeds(
        [
            changing(FilterWorkload(spread=SPREAD, costs=(UNIT, UNIT * cost) * 4, seed=s), period, tuples)
            for s in scale.seeds(seeds)
        ]
    )


def targets(rows: list[Row], x: str) -> list[Claim]:
    """What Penstock wants to reach on every drifting workload."""
    found = []
    for y, what in (("cost_a_tuple", "cost of filters"), ("seconds", "total time")):
        oracle = ratios(rows, x, y, "penstock", "oracle")
        fixed = ratios(rows, x, y, "penstock", "fixed")
        told = f"over the oracle's: {shown(oracle)}"
        found += [
            Claim(
                f"A-Greedy as Penstock runs it: {what} within 1.1 of an oracle that knows all (our goal)",
                told + (f"; for each change {_millis_a_change(rows, x)}" if y == "seconds" else ""),
                max(oracle.values()) <= 1.1,
            ),
            Claim(
                f"{what} better than every fixed order (our goal)",
                f"over the best of all fixed orders: {shown(fixed)}",
                max(fixed.values()) < 1,
            ),
        ]
    return found


def _millis_a_change(rows: list[Row], x: str) -> str:
    """What is spent more than by the oracle, and what the oracle spends until the next change."""
    ours, oracle, changes = (
        series(rows, x, y, line)
        for y, line in (("seconds", "penstock"), ("seconds", "oracle"), ("changes", "oracle"))
    )
    more = {at: 1000 * (ours[at] - oracle[at]) / changes[at] for at in ours}
    between = {at: 1000 * oracle[at] / (changes[at] + 1) for at in ours}
    return f"{shown(more)} ms more of {shown(between, 1)} ms"
