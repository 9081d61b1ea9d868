"""Figure 9: the error of an average by how much its attribute varies."""

from __future__ import annotations

from bench.paper.aggregation_errors import KNOWN, SCHEMES, SKEW, Aggregation, crossover
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from bench.paper.known_models import Known, known_joins, mean_error

VARIATION = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""Standard deviations over the mean."""
MEMORY = (2, 3, 5, 10, 20)
"""Percent; 10 in the paper."""
ORDERS = 8
"""Other orders of the values that are looked at."""


def measure(scale: Scale) -> list[Row]:
    """An error in standard deviations, times the coefficient of variation, is a part of the mean."""
    aggregation, known = Aggregation.of("UC", scale), known_joins("UC", scale)
    errors = {f"{s} 10 %": aggregation.error(10, s, scale.seeds(3)) for s in SCHEMES}
    orders = " ".join(f"{_over_sizes(order, scale):.2f}" for order in scale.seeds(ORDERS))
    for percent in MEMORY:
        for s in SCHEMES[:2]:
            errors[f"{s} {percent} % {KNOWN}"] = mean_error(known, percent, s)
    return [
        {"variation": variation, "error": variation * error, "algorithm": name, "other_orders": orders}
        for name, error in errors.items()
        for variation in VARIATION
    ]


def _over_sizes(order: int, scale: Scale) -> float:
    """UNIFORM's error over PPS-CLUSTER's with 10 %, with values in another order on the second stream."""
    joins = [Known.of("UC", seed, order) for seed in scale.seeds(2)]
    one, other = (mean_error(joins, 10, s) for s in SCHEMES[:2])
    return one / other


def claims(rows: list[Row]) -> list[Claim]:
    by = {str(r["algorithm"]): series(rows, "variation", "error", str(r["algorithm"])) for r in rows}
    ours = {s: by[f"{s} 10 %"][1.0] for s in SCHEMES}
    letter, sizes = ({m: by[f"{s} {m} % {KNOWN}"] for m in MEMORY} for s in SCHEMES[:2])
    ratio = {float(m): letter[m][1.0] / sizes[m][1.0] for m in MEMORY}
    others = str(rows[0]["other_orders"]).split()
    gaps = {v: sizes[2][v] - letter[2][v] for v in (0.5, 1.0, 2.0)}
    return [
        Claim(
            "as variance grows cluster sampling degrades compared to UNIFORM (ours: with 2 %, models known)",
            f"PPS's error less UNIFORM's: {shown(gaps, 3)}",
            0 < gaps[0.5] < gaps[2.0],
        ),
        Claim(
            "UNIFORM is better in little memory, PPS-CLUSTER in more: to the letter, models known",
            f"UNIFORM's error over PPS's by memory: {shown(ratio)}; crossover {crossover(ratio)}",
            ratio[min(MEMORY)] < 1 < ratio[max(MEMORY)],
        ),
        Claim(
            "UNIFORM is better with 10 % of the memory (models known)",
            f"{ratio[10]:.2f}; as Penstock learns {ours['UNIFORM'] / ours['PPS-CLUSTER']:.2f}",
            ratio[10] < 1,
            "it depends on which values are frequent on both streams, which is drawn by chance and not in "
            f"the paper: for {len(others)} other orders of the values it is {', '.join(others)}",
        ),
        Claim(
            "PPS-CLUSTER outperforms EQ-CLUSTER",
            f"EQ's error over PPS's: {ours['EQ-CLUSTER'] / ours['PPS-CLUSTER']:.1f}",
            ours["EQ-CLUSTER"] > ours["PPS-CLUSTER"],
        ),
    ]


FIGURE = Figure(
    "srivastava 9", f"error of an average, UC, Z = {SKEW:g}", "variation", ("error",), measure, claims
)
