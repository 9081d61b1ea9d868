"""Figure 5: 100 probes a second for streams of 800 and 200 rows a second over windows of 100 and 200 rows."""

from __future__ import annotations

from bench.paper.allocated_joins import Budgeted, gain, near_the_equations, order, rows_of
from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.budget import Within
from penstock.cost.model import Workload

JOIN = Budgeted(Workload(800, 200, 100, 200), Within(rate=100), keys=100)
STRATEGIES = ("max-a", "max-b", "proportional", "inverse", "equal", "optimal")


def measure(scale: Scale) -> list[Row]:
    return rows_of({name: (JOIN, name) for name in STRATEGIES}, 20 if scale.quick else 300)


def claims(rows: list[Row]) -> list[Claim]:
    says = "all probes to the larger window find most, then proportional, equal; the other way least"
    return [
        near_the_equations(rows),
        order(rows, says, {"max-a", "optimal"}, {"proportional"}, {"equal"}, {"max-b"}),
        gain(rows, "optimal", "a third more than equal shares (by the equations)", 0.3),
    ]


FIGURE = Figure("kang 5", "limited CPU: results a second by strategy", "strategy", ("results_a_second",),
                measure, claims, by="found", kind="bars")  # fmt: skip
