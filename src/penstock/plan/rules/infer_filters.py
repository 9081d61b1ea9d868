"""A filter on one side of an equality holds for the other side too.

S1.A = S2.A AND S1.A > 10 lets S2 drop its rows with A <= 10 before they are stored (thesis 2.2.4).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.expression import Column, Expression, columns, transform
from penstock.plan.facts import Equivalence, equal_columns
from penstock.plan.logical import Join, Logical


def infer_filters(node: Logical) -> Logical:
    """Join: copy each one-column predicate to the columns that the join makes equal to it."""
    if not isinstance(node, Join):
        return node
    equal = Equivalence[Column]()
    for pair in equal_columns(node.conjuncts):
        equal.equate(*pair)
    found = list(node.conjuncts)
    for members in equal.classes:
        for here in members:
            filters = [c for c in node.conjuncts if columns(c) == {here.name}]
            found += [_moved(c, here, there) for c in filters for there in members if there != here]
    return replace(node, conjuncts=tuple(dict.fromkeys(found)))


def _moved(predicate: Expression, here: Column, there: Column) -> Expression:
    return transform(predicate, lambda e: there if e == here else None)
