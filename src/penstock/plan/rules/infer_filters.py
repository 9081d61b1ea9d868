"""A filter on one side of an equality holds for the other side too.

S1.A = S2.A AND S1.A > 10 lets S2 drop its rows with A <= 10 before they are stored (thesis 2.2.4).
"""

from __future__ import annotations

from penstock.expression import Call, Column, Expression, columns, transform, walk
from penstock.plan.logical import Join, Logical


def infer_filters(node: Logical) -> Logical:
    """Join: copy each one-column predicate to the columns that the join makes equal to it."""
    if not isinstance(node, Join):
        return node
    found = list(node.conjuncts)
    for left, right in _equalities(node.conjuncts):
        for here, there in ((left, right), (right, left)):
            found += [
                _moved(c, here, there)
                for c in tuple(found)
                if columns(c) == {here.name} and not _is_equality(c)
            ]
    return Join(node.inputs, tuple(dict.fromkeys(found)), node.cross)


def _is_equality(e: Expression) -> bool:
    return isinstance(e, Call) and e.function == "=" and all(isinstance(a, Column) for a in e.args)


def _equalities(conjuncts: tuple[Expression, ...]) -> list[tuple[Column, Column]]:
    pairs = []
    for c in conjuncts:
        if isinstance(c, Call) and c.function == "=":
            left, right = c.args
            if isinstance(left, Column) and isinstance(right, Column) and left.type == right.type:
                pairs.append((left, right))
    return pairs


def _moved(predicate: Expression, here: Column, there: Column) -> Expression:
    assert any(e == here for e in walk(predicate))
    return transform(predicate, lambda e: there if e == here else None)
