"""Figure 6.16: rows kept by a join under OAC(k)."""

from bench.paper.memory_by_k import figure

FIGURE = figure("6.16", "OAC", (0, 5_000, 10_000, 20_000))
