"""Figure 4.24: total time by the cost of half the filters, with a change every 1,000,000 tuples."""

from bench.paper.drift import drifting, targets
from bench.paper.figure import Claim, Figure, Row, Scale, ratios, shown

COSTS = (1, 10, 50, 100)


def measure(scale: Scale) -> list[Row]:
    return [
        {"cost": c, **row}
        for c in scale.some(COSTS)
        for row in drifting(c, 1_000_000, 4_000_000, scale, seeds=4 if c < 50 else 2)
    ]


def claims(rows: list[Row]) -> list[Claim]:
    sweep = ratios(rows, "cost", "cost_a_tuple", "a-greedy", "sweep")
    return [
        Claim(
            "Sweep improves against A-Greedy as A-Greedy's overhead grows with the filters' cost",
            f"cost, A-Greedy over Sweep: {shown(sweep)}",
            sweep[max(sweep)] > sweep[min(sweep)] and sweep[max(sweep)] > 1,
        ),
        *targets(rows, "cost"),
    ]


FIGURE = Figure(
    "4.24",
    "Varying filter cost with a change every 1,000,000 tuples",
    "cost",
    ("seconds", "cost_a_tuple"),
    measure,
    claims,
    log_x=True,
)
