"""Figure 4.19: filters evaluated over time by A-Greedy and by Sweep when selectivities are permuted."""

from bench.paper.adaptivity import adaptivity_figure

FIGURE = adaptivity_figure("4.19", "sweep", "Adaptivity of A-Greedy versus Sweep")
