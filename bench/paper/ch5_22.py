"""Figure 5.22: two fixed caches and adaptive ones when a stream has a burst."""

from bench.paper.figure import Figure
from bench.paper.join_plans import burst, burst_claims

FIGURE = Figure(
    "5.22",
    "Adaptivity to changing stream rate",
    "step",
    ("rows_per_second", "work"),
    burst,
    burst_claims,
)
