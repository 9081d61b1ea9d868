"""A filter above a row window lets the window drop the payload of rows that fail it (thesis example 6.1.5).

The window counts all rows, so the filter cannot go below it; but a row that fails only occupies its place.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.logical import Logical, Select, Window


def keep_in_row_window(node: Logical) -> Logical:
    """Select over a row window: its conjuncts become the window's ``keep``."""
    if not (isinstance(node, Select) and isinstance(node.input, Window)):
        return node
    window = node.input
    if window.spec.kind != "rows" or window.spec.size is None or window.spec.slide is not None:
        return node
    return replace(window, keep=(*window.keep, *node.conjuncts))
