"""Figure 5.19: rates with and without caches, by the join cost."""

from bench.paper.caching_figures import absolute, by_cost

FIGURE = absolute("5.19", "Join cost", "window", by_cost)
