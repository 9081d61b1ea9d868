"""Figure 4.13: A-Greedy and Independent by the correlation factor for 3 filters, under convergence."""

from bench.paper.correlation import correlation_figure

FIGURE = correlation_figure("4.13", n=3)
