"""A predicate that reads one input of a join filters that input."""

from __future__ import annotations

from dataclasses import replace

from penstock.expression import Expression
from penstock.plan.facts import input_of
from penstock.plan.logical import Join, Logical, Select


def push_select_below_join(node: Logical) -> Logical:
    """Join: conjuncts over a single input become a select on it."""
    if not isinstance(node, Join):
        return node
    own: list[list[Expression]] = [[] for _ in node.parts]
    rest: list[Expression] = []
    schemas = [i.schema.names for i in node.parts]
    for conjunct in node.conjuncts:
        place = input_of(conjunct, schemas)
        (rest if place is None else own[place]).append(conjunct)
    parts = tuple(Select(i, tuple(c)) if c else i for i, c in zip(node.parts, own, strict=True))
    return replace(node, parts=parts, conjuncts=tuple(rest))
