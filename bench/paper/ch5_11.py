"""Figure 5.11: rates with and without caches, by the cache hit probability."""

from bench.paper.caching_figures import absolute, by_multiplicity

FIGURE = absolute("5.11", "Cache hit probability", "multiplicity", by_multiplicity)
