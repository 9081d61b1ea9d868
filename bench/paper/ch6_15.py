"""Figure 6.15: OAP(k) as it varies, as it is found, and the results missed."""

from bench.paper.monitored_constraints import figure

FIGURE = figure("6.15", "OAP", 2.3)
