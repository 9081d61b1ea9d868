"""Figure 6.14: rows kept by a join under OAP(k)."""

from bench.paper.memory_by_k import figure, varies

FIGURE = figure("6.14", "OAP", (0, 1_000, 5_000, 10_000, 20_000), varies)
