"""Figure 6.11: RIDS(k) as it varies, as it is found, and the results missed."""

from bench.paper.monitored_constraints import figure

FIGURE = figure("6.11", "RIDS", 2.0)
