"""Figure 6.13: CA(k) as it varies, as it is found, and the results missed."""

from bench.paper.monitored_constraints import figure

FIGURE = figure("6.13", "CA", None)
