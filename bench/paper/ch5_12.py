"""Figure 5.12: the rate of an MJoin over that with caches, by the cache hit probability."""

from bench.paper.caching_figures import by_multiplicity, relation, with_hits

FIGURE = relation("5.12", "Cache hit probability", "multiplicity", by_multiplicity, with_hits)
