"""Figure 4.20: filters evaluated over time by A-Greedy and by LocalSwaps when selectivities are permuted."""

from bench.paper.adaptivity import adaptivity_figure

FIGURE = adaptivity_figure("4.20", "local-swaps", "Adaptivity of A-Greedy versus LocalSwaps")
