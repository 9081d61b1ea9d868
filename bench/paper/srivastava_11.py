"""Figure 11: the least recall of two joins under one budget, age-based model, by how steep the curves are."""

from __future__ import annotations

from bench.paper.allocations import compared, judged
from bench.paper.budget_joins import WINDOW, Experiment
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from penstock.workloads.memory_limited import by_age, curve

POWERS = (0, 1, 2, 3, 4)
RATE = 20
"""r1; 1 in the paper (see figure 7)."""
PERCENT = 50
SHAPES = ("INC", "DEC")


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for power in scale.some(POWERS):
        joins = lambda seed, p=power: {shape: _join(shape, p, scale, seed) for shape in SHAPES}  # noqa: E731
        rows += compared(joins, scale.seeds(2), PERCENT, "AGE", {"power": power})
    return rows


def _join(shape: str, power: int, scale: Scale, seed: int) -> Experiment:
    rate, windows = (4, 6) if scale.quick else (RATE, 10)
    return Experiment(by_age(curve(shape, power), WINDOW, rate, windows * WINDOW, seed))


def claims(rows: list[Row]) -> list[Claim]:
    prop = series(rows, "power", "minimum_recall", "PROP")
    ours = series(rows, "power", "minimum_recall", "ALLOC")
    first, last = min(prop), max(prop)
    return [
        *judged(rows, "power", SHAPES),
        Claim("as curves get steeper ALLOC's minimum grows", shown(ours), ours[last] > ours[first] + 0.02),
        Claim("PROP's stays the same", shown(prop), max(prop.values()) - min(prop.values()) <= 0.03),
    ]


FIGURE = Figure(
    "srivastava 11",
    f"two joins with {PERCENT} % of their memory, age-based",
    "power",
    ("minimum_recall", "INC_memory_percent", "DEC_memory_percent"),
    measure,
    claims,
)
