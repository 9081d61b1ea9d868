"""Figure 6.12: rows kept by a join under CA(k)."""

from bench.paper.memory_by_k import figure, peaks_early

FIGURE = figure("6.12", "CA", (0, 1_000, 5_000, 10_000, 20_000), peaks_early)
