"""Figure 8: the error of an average by the memory that its sample has; most clusters small, a few large."""

from __future__ import annotations

from bench.paper.aggregation_errors import KNOWN, SCHEMES, SKEW, Aggregation, crossover
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from bench.paper.known_models import known_joins, mean_error

MEMORY = (1, 2, 5, 10, 20, 40, 60, 80, 100)
"""Percent; the paper begins at 10."""


def measure(scale: Scale) -> list[Row]:
    aggregation, known = Aggregation.of("IC", scale), known_joins("IC", scale)
    rows: list[Row] = []
    for percent in (1, 40) if scale.quick else MEMORY:
        errors = {s: aggregation.error(percent, s, scale.seeds(3)) for s in SCHEMES}
        errors |= {f"{s} {KNOWN}": mean_error(known, percent, s) for s in SCHEMES[:2]}
        picked = aggregation.picked(percent)
        rows += [
            {"memory_percent": percent, "error": error, "algorithm": name, "picked": picked}
            for name, error in errors.items()
        ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    uniform, by_size, equal = (series(rows, "memory_percent", "error", s) for s in SCHEMES)
    letter, sizes = (series(rows, "memory_percent", "error", f"{s} {KNOWN}") for s in SCHEMES[:2])
    over = {m: equal[m] / by_size[m] for m in by_size if m < 100}
    ours = {m: uniform[m] / by_size[m] for m in by_size if m < 100}
    theirs = {m: letter[m] / sizes[m] for m in by_size if m < 100}
    picked = {str(r["picked"]) for r in rows if float(r["memory_percent"]) < 100}
    best = min(SCHEMES, key=lambda s: sum(series(rows, "memory_percent", "error", s).values()))
    return [
        Claim(
            "PPS-CLUSTER outperforms EQ-CLUSTER",
            f"EQ's error over PPS's: {shown(over, 1)}",
            min(over.values()) > 1,
        ),
        Claim(
            "UNIFORM is better in little memory, PPS-CLUSTER in more: to the letter, models known",
            f"UNIFORM's error over PPS's: {shown(theirs)}",
            theirs[min(theirs)] < 1 < theirs[max(theirs)],
        ),
        Claim(
            "UNIFORM is better with 10 % of the memory (models known)",
            f"{theirs.get(10, float('nan')):.2f}; crossover {crossover(theirs)}",
            theirs.get(10, 2.0) < 1,
            f"UNIFORM takes no results of tuples of which less than one is expected, which most tuples are: "
            f"its error is {letter[max(letter)]:.2f} with all memory and falls no further, and "
            f"PPS-CLUSTER's is {sizes.get(10, float('nan')):.2f} with 10 %",
        ),
        Claim(
            "to the letter UNIFORM's error does not go down to 0 with all memory",
            f"UNIFORM {letter[max(letter)]:.3f}, PPS {sizes[max(sizes)]:.3f}",
            letter[max(letter)] > 10 * sizes[max(sizes)],
        ),
        Claim(
            "SAMPLE takes the scheme whose error is least (our goal)",
            f"{', '.join(sorted(picked))}; UNIFORM's error over PPS's as Penstock learns: {shown(ours)}",
            picked == {best},
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
