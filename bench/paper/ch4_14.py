"""Figure 4.14: A-Greedy and Independent by the correlation factor for 8 filters, under convergence."""

from bench.paper.correlation import correlation_figure

FIGURE = correlation_figure("4.14", n=8)
