"""Figure 6.10: rows kept by a join under RIDS(k)."""

from bench.paper.memory_by_k import figure

FIGURE = figure("6.10", "RIDS", (0, 5_000, 10_000, 20_000))
