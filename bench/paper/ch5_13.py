"""Figure 5.13: rates with and without caches, by the join selectivity."""

from bench.paper.caching_figures import absolute, by_selectivity

FIGURE = absolute("5.13", "Join selectivity", "joined_rows", by_selectivity)
