"""Figure 5.23: caches, MJoin and XJoin by the memory for subresults."""

from bench.paper.figure import Figure
from bench.paper.join_plans import NOTES, by_memory, memory_claims

FIGURE = Figure(
    "5.23",
    "Adaptivity to memory availability",
    "kilobytes",
    ("rows_per_second", "work"),
    by_memory,
    memory_claims,
    log_x=True,
    notes=NOTES,
)
