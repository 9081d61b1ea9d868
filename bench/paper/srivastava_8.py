"""Figure 8: the error of an average by the memory that its sample has; most clusters small, a few large."""

from __future__ import annotations

from bench.paper.aggregation_errors import SCHEMES, SKEW, Aggregation
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown

MEMORY = (1, 2, 5, 10, 20, 40, 60, 80, 100)
"""Percent; the paper begins at 10."""


def measure(scale: Scale) -> list[Row]:
    aggregation = Aggregation.of("IC", scale)
    return [
        {
            "memory_percent": percent,
            "error": aggregation.error(percent, scheme, scale.seeds(3)),
            "algorithm": scheme,
        }
        for percent in ((1, 40) if scale.quick else MEMORY)
        for scheme in SCHEMES
    ]


def claims(rows: list[Row]) -> list[Claim]:
    uniform, by_size, equal = (series(rows, "memory_percent", "error", s) for s in SCHEMES)
    over = {m: equal[m] / by_size[m] for m in by_size if m < 100}
    ratio = {m: uniform[m] / by_size[m] for m in by_size if m < 100}
    first = min(ratio)
    large = [m for m in ratio if m >= 20]
    return [
        Claim(
            "PPS-CLUSTER outperforms EQ-CLUSTER",
            f"EQ's error over PPS's: {shown(over, 1)}",
            min(over.values()) > 1,
        ),
        Claim(
            "UNIFORM is better in little memory (the paper: at 10 %)",
            f"UNIFORM's error over PPS's: {shown(ratio)}",
            ratio[first] < 1,
        ),
        Claim(
            "PPS-CLUSTER is better in more memory",
            f"UNIFORM's error over PPS's at most memory: {ratio[max(large)]:.2f}",
            all(ratio[m] > 1 for m in large),
        ),
        Claim(
            "errors fall with memory",
            f"PPS {shown(by_size, 3)}",
            by_size[max(by_size)] < by_size[min(by_size)],
        ),
    ]


FIGURE = Figure(
    "srivastava 8",
    f"error of an average, IC, Z = {SKEW:g}, mean = standard deviation",
    "memory_percent",
    ("error",),
    measure,
    claims,
)
