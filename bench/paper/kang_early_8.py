"""The earlier text's figure 8: tuples dropped before the windows, 10 of 80 and 20 a second may come in."""

from __future__ import annotations

from bench.paper.allocated_joins import MEASURED, Budgeted, near_the_equations, order, rates, rows_of
from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.budget import Within
from penstock.cost.model import Workload

JOIN = Budgeted(Workload.timed(80, 20, 9, 1), Within(rate=10, before_windows=True), keys=50)
STRATEGIES = ("proportional", "inverse", "equal", "optimal")


def measure(scale: Scale) -> list[Row]:
    return rows_of({name: (JOIN, name) for name in STRATEGIES}, 100 if scale.quick else 3_000)


def claims(rows: list[Row]) -> list[Claim]:
    measured = rates(rows, MEASURED)
    apart = abs(measured["proportional"] / measured["inverse"] - 1)
    return [
        near_the_equations(rows),
        order(rows, "equal rates find most", {"equal", "optimal"}, {"proportional", "inverse"}),
        Claim("proportional and inverse hardly differ (by the equations)", f"{apart:.1%}", apart <= 0.1),
    ]


FIGURE = Figure("kang early 8", "tuples dropped before the windows: results a second by strategy", "strategy",
                ("results_a_second",), measure, claims, by="found", kind="bars")  # fmt: skip
