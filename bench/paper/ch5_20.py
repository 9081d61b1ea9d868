"""Figure 5.20: the rate of an MJoin over that with caches, by the join cost."""

from bench.paper.caching_figures import by_cost, relation, rises

FIGURE = relation("5.20", "Join cost", "window", by_cost, rises)
