"""Table 6.1: what a tuple takes with constraints and without, for different k."""

from bench.paper.figure import Figure
from bench.paper.memory_by_k import table, table_claims

FIGURE = Figure(
    "table 6.1", "Tuple-processing times for different k", "k", ("microseconds", "ratio"), table, table_claims
)
