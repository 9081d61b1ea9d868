"""Figure 5.21 with table 5.2: MJoin, XJoin and caches with prefix and with global consistency at D1 to D8."""

from bench.paper.figure import Figure
from bench.paper.join_plans import NOTES, by_point, point_claims

FIGURE = Figure(
    "5.21",
    "Performance of join plans",
    "point",
    ("rows_per_second", "work"),
    by_point,
    point_claims,
    kind="bars",
    notes=NOTES,
)
