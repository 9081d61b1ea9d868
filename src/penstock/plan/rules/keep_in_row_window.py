"""A filter above a row window lets the window forget the payload of rows that fail it (thesis example 6.1.5).

The window must be of all rows, so the filter cannot go below; but of a row that fails it only the place it
takes matters.
"""

from __future__ import annotations

from penstock.plan.logical import Logical, Select, Window


def keep_in_row_window(node: Logical) -> Logical:
    """Select over a row window: the window keeps what the select would."""
    if not (isinstance(node, Select) and isinstance(node.input, Window)):
        return node
    window = node.input
    if window.spec.kind != "rows" or window.spec.size is None or window.spec.slide is not None:
        return node
    return Window(window.input, window.spec, (*window.keep, *node.conjuncts))
