"""Figure 5.17: rates with and without caches, by the number of joins."""

from bench.paper.caching_figures import absolute, by_joins

FIGURE = absolute("5.17", "Number of joins", "n", by_joins)
