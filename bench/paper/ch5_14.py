"""Figure 5.14: the rate of an MJoin over that with caches, by the join selectivity."""

from bench.paper.caching_figures import by_selectivity, relation, with_selectivity

FIGURE = relation("5.14", "Join selectivity", "joined_rows", by_selectivity, with_selectivity)
