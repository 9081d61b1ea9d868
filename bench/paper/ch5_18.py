"""Figure 5.18: the rate of an MJoin over that with caches, by the number of joins."""

from bench.paper.caching_figures import by_joins, relation, with_many_joins

FIGURE = relation("5.18", "Number of joins", "n", by_joins, with_many_joins)
