"""Figure 5.15: rates with and without caches, by the ratio of updates to probes."""

from bench.paper.caching_figures import absolute, by_updates

FIGURE = absolute("5.15", "Ratio of updates to probes", "updates_per_probe", by_updates)
