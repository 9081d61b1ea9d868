"""Figure 5.16: the rate of an MJoin over that with caches, by the ratio of updates to probes."""

from bench.paper.caching_figures import by_updates, falls, relation

FIGURE = relation("5.16", "Ratio of updates to probes", "updates_per_probe", by_updates, falls)
