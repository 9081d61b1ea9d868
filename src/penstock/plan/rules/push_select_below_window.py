"""Filters commute with time windows and unbounded windows, not with row windows (thesis 2.2.4).

A filter on the columns that a row window is partitioned by keeps or drops whole partitions, so it
commutes with that one.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.logical import Logical, Select, StreamSource, Window


def push_select_below_window(node: Logical) -> Logical:
    """Select over window: the conjuncts that commute go below."""
    if not (isinstance(node, Select) and isinstance(node.input, Window)):
        return node
    window = node.input
    below = tuple(c for c in node.conjuncts if window.commutes(c))
    above = tuple(c for c in node.conjuncts if c not in below)
    if not below or not isinstance(window.input, StreamSource):
        return node
    pushed = replace(window, input=Select(window.input, below))
    return Select(pushed, above) if above else pushed
