"""Figure 9: the error of an average by how much its attribute varies."""

from __future__ import annotations

from bench.paper.aggregation_errors import SCHEMES, SKEW, Aggregation
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown

VARIATION = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""Standard deviations over the mean."""
MEMORY = (10, 1)
"""Percent; 10 in the paper."""


def measure(scale: Scale) -> list[Row]:
    """An error in standard deviations, times the coefficient of variation, is a part of the mean."""
    aggregation = Aggregation.of("UC", scale)
    return [
        {"variation": variation, "error": variation * error, "algorithm": f"{scheme} {percent} %"}
        for percent in MEMORY
        for scheme, error in ((s, aggregation.error(percent, s, scale.seeds(3))) for s in SCHEMES)
        for variation in VARIATION
    ]


def claims(rows: list[Row]) -> list[Claim]:
    by = {str(r["algorithm"]): series(rows, "variation", "error", str(r["algorithm"])) for r in rows}
    over = {m: by[f"EQ-CLUSTER {m} %"][1.0] / by[f"PPS-CLUSTER {m} %"][1.0] for m in MEMORY}
    gaps = {v: by["PPS-CLUSTER 1 %"][v] - by["UNIFORM 1 %"][v] for v in (0.5, 1.0, 2.0)}
    ratio = {m: by[f"UNIFORM {m} %"][1.0] / by[f"PPS-CLUSTER {m} %"][1.0] for m in MEMORY}
    return [
        Claim(
            "as variance grows cluster sampling degrades compared to UNIFORM (ours: at 1 %)",
            f"PPS's error less UNIFORM's: {shown(gaps, 3)}",
            0 < gaps[0.5] < gaps[2.0],
        ),
        Claim(
            "UNIFORM is better in little memory, PPS-CLUSTER in more (our crossover is below 10 %)",
            f"UNIFORM's error over PPS's by memory: {shown(ratio)}",
            ratio[1] < 1 < ratio[10],
        ),
        Claim(
            "PPS-CLUSTER outperforms EQ-CLUSTER",
            f"EQ's error over PPS's by memory: {shown(over)}",
            min(over.values()) > 1,
        ),
    ]


FIGURE = Figure(
    "srivastava 9", f"error of an average, UC, Z = {SKEW:g}", "variation", ("error",), measure, claims
)
