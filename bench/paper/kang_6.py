"""Figure 6, and 9 of the earlier text: memory for 1,000 rows, streams of 10 and 50 rows a second."""

from __future__ import annotations

from bench.paper.allocated_joins import Budgeted, gain, near_the_equations, order, rows_of
from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.budget import Within
from penstock.cost.model import Workload

JOIN = Budgeted(Workload(10, 50, 2_000, 10_000), Within(rows=1_000), keys=200)
STRATEGIES = ("max-a", "max-b", "proportional", "inverse", "equal", "optimal")


def measure(scale: Scale) -> list[Row]:
    return rows_of({name: (JOIN, name) for name in STRATEGIES}, 50 if scale.quick else 1_000)


def claims(rows: list[Row]) -> list[Claim]:
    says = "the slower stream's window found most with all memory, then inverse, equal, proportional"
    return [
        near_the_equations(rows),
        order(rows, says, {"max-a", "optimal"}, {"inverse"}, {"equal"}, {"proportional"}, {"max-b"}),
        gain(rows, "optimal", "two thirds more than equal shares (by the equations)", 0.6),
    ]


FIGURE = Figure("kang 6", "limited memory: results a second by strategy", "strategy", ("results_a_second",),
                measure, claims, by="found", kind="bars")  # fmt: skip
