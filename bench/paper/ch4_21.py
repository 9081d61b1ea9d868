"""Figure 4.21: filters evaluated over time by A-Greedy and by Independent when selectivities are permuted."""

from bench.paper.adaptivity import adaptivity_figure

FIGURE = adaptivity_figure("4.21", "independent", "Adaptivity of A-Greedy versus Independent")
