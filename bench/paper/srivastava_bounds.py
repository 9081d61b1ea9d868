"""How often the bounds of estimates from a sample hold: SUM and AVG of what comes in half a window."""

from __future__ import annotations

import numpy as np

from bench.paper.budget_joins import Experiment, seeded
from bench.paper.estimates import Clusters
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from penstock.budget import CLUSTER, WEIGHT
from penstock.engine.element import Chunk
from penstock.workloads.memory_limited import SECOND, by_value, correlated

WINDOW, WINDOWS, RATES = 100, 24, (4.0, 4.0)
MEMORY = (10, 20, 40)
"""Percent."""
RUNS = 16
SKEWS = {"EQ-CLUSTER": 0.0, "PPS-CLUSTER": 1.0}
MEAN, DEVIATION = 100.0, 20.0


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for scheme, skew in SKEWS.items():
        seconds = (6 if scale.quick else WINDOWS) * WINDOW
        run = Experiment(by_value(correlated("IC", skew), RATES, seconds), WINDOW)
        true = _slices(run, run.run(run.plan(2 * run.rows, "SAMPLE CLUSTER"))[0])
        for percent in MEMORY:
            node = run.plan(run.rows * percent / 100, "SAMPLE CLUSTER")
            seeds = range(2 if scale.quick else RUNS)
            samples = [_slices(run, run.run(seeded(node, seed))[0]) for seed in seeds]
            pairs = [pair for sample in samples for pair in zip(sample, true, strict=True)]
            held = {
                "SUM": [some.sum().holds(every.sum().value) for some, every in pairs],
                "AVG": [some.average().holds(every.average().value) for some, every in pairs],
            }
            rows += [
                {
                    "memory_percent": percent,
                    "coverage": float(np.mean(h)),
                    "cases": len(h),
                    "line": f"{scheme} {n}",
                }
                for n, h in held.items()
            ]
    return rows


def _slices(run: Experiment, results: Chunk) -> list[Clusters]:
    """The results of each half window since the join has learned."""
    names = ("S1.v", WEIGHT, CLUSTER)
    values, weights, clusters = (results.column(n).to_numpy(zero_copy_only=False) for n in names)
    edges = np.arange(run.from_, int(run.streams[1].ts[-1]), WINDOW * SECOND // 2)
    slices = [(results.ts >= a) & (results.ts < b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return [Clusters.of(MEAN + DEVIATION * values[s], weights[s], clusters[s]) for s in slices]


def claims(rows: list[Row]) -> list[Claim]:
    found = []
    for line in dict.fromkeys(str(r["line"]) for r in rows):
        held = series(rows, "memory_percent", "coverage", line, "line")
        mean, cases = (
            100 * float(np.mean(list(held.values()))),
            sum(int(r["cases"]) for r in rows if r["line"] == line),
        )
        found.append(
            Claim(
                f"{line}: 95 % bounds hold in 93 to 97 % of all cases (our goal)",
                f"{mean:.1f} % of {cases}; by memory: {shown({m: 100 * h for m, h in held.items()}, 1)}",
                93 <= mean <= 97,
            )
        )
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
