"""How often the bounds of estimates from a sample hold: SUM and AVG of what comes in half a window."""

from __future__ import annotations

import numpy as np

from bench.paper.budget_joins import LEARNS
from bench.paper.figure import Claim, Figure, Row, Scale, series
from bench.paper.sampled_queries import Answer, SampledQuery
from penstock.workloads.memory_limited import SECOND, by_value, correlated

WINDOW, WINDOWS, RATES = 100, 24, (4.0, 4.0)
MEMORY = (10, 20, 40)
"""Percent."""
RUNS = 16
SKEWS = {"EQ-CLUSTER": 0.0, "PPS-CLUSTER": 1.0}
SELECT = "SUM(100 + 20 * v) AS total, AVG(100 + 20 * v) AS mean"
NAMES = {"SUM": "total", "AVG": "mean"}
LEAST, MOST = 93.0, 97.0
"""Percent of the cases in which bounds of 95 % have to hold."""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for scheme, skew in SKEWS.items():
        seconds = (6 if scale.quick else WINDOWS) * WINDOW
        streams = by_value(correlated("IC", skew), RATES, seconds)
        # Every half window, of what came since the last time.
        query = SampledQuery(streams, SELECT, WINDOW, WINDOW * SECOND // 2 - 1, WINDOW // 2)
        true, needed = query.run(None), RATES[0] * WINDOW
        for percent in MEMORY:
            seeds = range(2 if scale.quick else RUNS)
            samples = [query.run(needed * percent / 100, "SAMPLE CLUSTER", seed) for seed in seeds]
            for aggregate, name in NAMES.items():
                held = np.concatenate([_held(some, true, name) for some in samples])
                rows.append(
                    {"memory_percent": percent, "coverage": float(held.mean()), "cases": len(held),
                     "line": f"{scheme} {aggregate}"}
                )  # fmt: skip
    return rows


def _held(some: Answer, true: Answer, name: str) -> np.ndarray:
    """Whether the truth is within the bounds, at each instant since the join has learned."""
    since = LEARNS * WINDOW * SECOND + WINDOW * SECOND // 2
    truth, low, high = (
        of.column(c, since) for of, c in ((true, name), (some, f"{name}_low"), (some, f"{name}_high"))
    )
    return np.asarray((low <= truth) & (truth <= high))


def claims(rows: list[Row]) -> list[Claim]:
    found = []
    for line in dict.fromkeys(str(r["line"]) for r in rows):
        held = series(rows, "memory_percent", "coverage", line, "line")
        cases = {float(r["memory_percent"]): int(r["cases"]) for r in rows if r["line"] == line}
        for memory, part in held.items():
            says = (
                f"{line}, {memory:g} % of the memory: 95 % bounds hold in 93 to 97 % of all cases (our goal)"
            )
            ours = f"{100 * part:.1f} % of {cases[memory]}"
            found.append(Claim(says, ours, LEAST <= 100 * part <= MOST))
    return found


FIGURE = Figure(
    "srivastava bounds",
    "how often 95 % bounds hold",
    "memory_percent",
    ("coverage",),
    measure,
    claims,
    by="line",
)
