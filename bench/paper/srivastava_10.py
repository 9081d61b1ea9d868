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
SHARPLY, CONSTANT = 0.1, 0.05
"""Recall that is lost where it decreases sharply, and by which it varies where it is almost constant."""
FROM = 1.0
RISES = (
    "without skew all values are alike, and with 20 % of the memory a join finds about 20 %; with skew a "
    "policy that keeps the values with the most results finds more of them, in both joins"
)
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
    easy = {float(r["skew"]): float(r["IC_memory_percent"]) for r in rows if r["algorithm"] == "ALLOC"}
    return [
        *judged(rows, "skew", CASES),
        *_as_skew_grows("as Z increases", prop, ours, RISES),
        *_as_skew_grows(f"from Z = {FROM:g} on (ours)", _since(prop), _since(ours), ""),
        Claim(
            "IC is easy, and gets less memory the more skew there is",
            f"percent of all: {shown(easy, 1)}",
            easy[max(easy)] < easy[min(easy)],
        ),
    ]


def _since(values: dict[float, float]) -> dict[float, float]:
    return {z: value for z, value in values.items() if z >= FROM}


def _as_skew_grows(when: str, prop: dict[float, float], ours: dict[float, float], why: str) -> list[Claim]:
    fall = prop[min(prop)] - prop[max(prop)]
    varies = max(ours.values()) - min(ours.values())
    return [
        Claim(f"{when} the minimum recall decreases sharply for PROP", shown(prop), fall >= SHARPLY, why),
        Claim(f"{when} it remains almost constant for ALLOC", shown(ours), varies <= CONSTANT, why),
    ]


FIGURE = Figure(
    "srivastava 10",
    f"two joins with {PERCENT} % of their memory, frequency-based",
    "skew",
    ("minimum_recall", "DC_memory_percent", "IC_memory_percent"),
    measure,
    claims,
)
