"""A predicate that reads one input of a join filters that input."""

from __future__ import annotations

from penstock.expression import Expression, columns
from penstock.plan.logical import Join, Logical, Select


def push_select_below_join(node: Logical) -> Logical:
    """Join: conjuncts over a single input become a select on it."""
    if not isinstance(node, Join):
        return node
    own: list[list[Expression]] = [[] for _ in node.inputs]
    rest: list[Expression] = []
    names = [set(i.schema.names) for i in node.inputs]
    for conjunct in node.conjuncts:
        reads = columns(conjunct)
        home = [k for k, n in enumerate(names) if reads and reads <= n]
        (own[home[0]] if home else rest).append(conjunct)
    inputs = tuple(Select(i, tuple(c)) if c else i for i, c in zip(node.inputs, own, strict=True))
    return Join(inputs, tuple(rest), node.cross)
