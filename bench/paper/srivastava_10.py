"""Figure 10: the least recall of two joins under one budget, frequency-based model, by skew."""

from __future__ import annotations

from math import sqrt

from bench.paper.allocations import compared, judged
from bench.paper.budget_joins import WINDOW, Experiment
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from penstock.workloads.memory_limited import by_value, correlated

SKEWS = (0.0, 0.5, 1.0, 1.5, 2.0)
PERCENT = 20
CASES = ("DC", "IC")
RESULTS_A_SECOND, MOST = 500, 40
"""Streams that are run are as fast as gives about so many results, or at most so fast.

Recall does not depend on it, and in IC a few tuples of rare values give most results, so there must be many.
"""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for skew in SKEWS[::4] if scale.quick else SKEWS:
        joins = lambda seed, z=skew: {case: _join(case, z, scale, seed) for case in CASES}  # noqa: E731
        rows += compared(joins, scale.seeds(3), PERCENT, "PROB", {"skew": skew})
    return rows


def _join(case: str, skew: float, scale: Scale, seed: int) -> Experiment:
    parts = correlated(case, skew)
    rate = min(sqrt(RESULTS_A_SECOND / (WINDOW * float(parts[0] @ parts[1]))), MOST)
    return Experiment(by_value(parts, (rate, rate), (6 if scale.quick else 20) * WINDOW, seed))


def claims(rows: list[Row]) -> list[Claim]:
    prop = series(rows, "skew", "minimum_recall", "PROP")
    ours = series(rows, "skew", "minimum_recall", "ALLOC")
    first, last = min(prop), max(prop)
    easy = {float(r["skew"]): float(r["IC_memory_percent"]) for r in rows if r["algorithm"] == "ALLOC"}
    return [
        *judged(rows, "skew", CASES),
        Claim(
            "as skew grows PROP's minimum falls sharply, ALLOC's hardly",
            f"PROP {shown(prop)}; ALLOC {shown(ours)}",
            prop[last] - prop[first] < ours[last] - ours[first],
        ),
        Claim(
            "IC is easy, and gets less memory the more skew there is",
            f"percent of all: {shown(easy, 1)}",
            easy[last] < easy[first],
        ),
    ]


FIGURE = Figure(
    "srivastava 10",
    f"two joins with {PERCENT} % of their memory, frequency-based",
    "skew",
    ("minimum_recall", "DC_memory_percent", "IC_memory_percent"),
    measure,
    claims,
)
