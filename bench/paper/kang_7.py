"""Figure 7, and 10 of the earlier text: 10 probes a second and memory for 100 rows.

Memory and probes go to opposite sides, both to one side, or in equal parts to both.
"""

from __future__ import annotations

from bench.paper.allocated_joins import Budgeted, gain, near_the_equations, order, rows_of
from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.budget import Within
from penstock.cost.model import Workload

JOIN = Budgeted(Workload(50, 50, 1_000, 1_000), Within(rate=10, rows=100), keys=100)
STRATEGIES = {
    "opposite": "optimal",
    "both A": "max-a",
    "both B": "max-b",
    "equal": "equal",
}


def measure(scale: Scale) -> list[Row]:
    joins = {name: (JOIN, strategy) for name, strategy in STRATEGIES.items()}
    return rows_of(joins, 50 if scale.quick else 1_500)


def claims(rows: list[Row]) -> list[Claim]:
    best, same = "opposite", {"both A", "both B"}
    says = "all memory to one window and all probes to the other side find most; the same side least"
    return [
        near_the_equations(rows),
        order(rows, says, {best}, {"equal"}, same),
        gain(rows, best, "allocation finds up to 90 % more results than equal distribution", 0.9),
    ]


FIGURE = Figure("kang 7", "limited CPU and memory: results a second by strategy", "strategy",
                ("results_a_second",), measure, claims, by="found", kind="bars")  # fmt: skip
