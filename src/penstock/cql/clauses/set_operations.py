"""UNION, EXCEPT and INTERSECT: two queries, column by column, as their common types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from penstock.cql.clauses.queries import bind_relation
from penstock.cql.expressions import types
from penstock.cql.expressions.coercion import coerce
from penstock.cql.names.context import Context
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Column
from penstock.plan.logical import Logical, Project, SetOperation


def bind_set_operation(node: exp.SetOperation, context: Context) -> Logical:
    """The plan of a set operation."""
    word = node.key.upper()
    for arg in ("by_name", "side", "kind", "on"):
        if node.args.get(arg):
            raise unsupported(f"{word} BY NAME", node)
    inside = context.apart(word)
    left, right = (bind_relation(side, inside, word) for side in (node.left, node.right))
    common = _common_types(left, right, node)
    every = not node.args.get("distinct")
    return SetOperation(_as(left, common), _as(right, common), node.key, every)


def _common_types(left: Logical, right: Logical, node: exp.SetOperation) -> list[pa.DataType]:
    word, mine, other = node.key.upper(), left.schema, right.schema
    if len(mine) != len(other):
        counts = f"{len(mine)} and {len(other)}"
        raise error(f"{word} takes two queries with the same number of columns, not {counts}", node)
    common = [types.common((a, b)) for a, b in zip(mine.types, other.types, strict=True)]
    for name, type_, a, b in zip(mine.names, common, mine.types, other.types, strict=True):
        if type_ is None:
            met = f"{types.sql_name(a)} and {types.sql_name(b)}"
            raise error(
                f"type mismatch: column '{name}' of {word} is {met}", node, "write CAST in one of them"
            )
    return common


def _as(node: Logical, common: Sequence[pa.DataType]) -> Logical:
    """A query's plan with its columns as the types."""
    if node.schema.types == list(common):
        return node
    if not isinstance(node, Project):
        node = Project(node, tuple((f.name, Column(f.name, f.type)) for f in node.schema))
    pairs = zip(node.columns, common, strict=True)
    return replace(node, columns=tuple((name, coerce(e, type_)) for (name, e), type_ in pairs))
