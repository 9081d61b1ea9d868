"""Lineage: which expression over which stream a column of a plan comes from."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.expression import Column, Expression, PythonCall, columns, transform, walk
from penstock.functions import may_raise
from penstock.plan import logical

Origin = tuple[int, Expression]
"""The number of a stream or relation, and an expression over its columns."""
Origins = dict[str, Origin]


def origins(node: logical.Logical) -> Origins:
    """For the columns of a node that come from one stream each: from where."""
    match node:
        case logical.StreamSource() | logical.RelationSource():
            return {f.name: (node.number, Column(f.name, f.type)) for f in node.schema}
        case logical.TableSource() | logical.Exchange():
            return {}
        case logical.Project(below, shown):
            return _named(shown, origins(below))
        case logical.Aggregate(below, keys, _):
            return _named(keys, origins(below))
        case logical.SemiJoin(left) | logical.SetOperation(left):
            return origins(left)
    return {name: o for below in logical.inputs(node) for name, o in origins(below).items()}


def origin(expression: Expression, known: Mapping[str, Origin]) -> Origin | None:
    """Where an expression comes from, if it is one that a host can evaluate on every row."""
    sources = {known[c][0] for c in columns(expression) if c in known}
    if len(sources) != 1 or not columns(expression) <= known.keys():
        return None
    traced = transform(expression, lambda e: known[e.name][1] if isinstance(e, Column) else None)
    if any(isinstance(e, PythonCall) for e in walk(traced)) or may_raise(traced):
        return None
    return sources.pop(), traced


def _named(shown: tuple[tuple[str, Expression], ...], known: Origins) -> Origins:
    traced = {name: origin(e, known) for name, e in shown}
    return {name: o for name, o in traced.items() if o is not None}
