"""Anything that gives a relation or a stream, by the kind of thing it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.cql.clauses.streams import to_stream
from penstock.cql.names.context import Context
from penstock.cql.syntax.errors import error, unsupported
from penstock.cql.syntax.nodes import RelationToStream
from penstock.plan.logical import Logical, ToStream

RELATIONS: dict[type[exp.Expr], Callable[[Any, Context], Logical]] = {}

UNSUPPORTED: dict[type[exp.Expr], str] = {exp.Values: "VALUES", exp.Table: "a join in parentheses"}

NO_ORDER = "a relation has no order and no first rows"
REFUSED_MODIFIERS = {
    "order": ("ORDER BY", NO_ORDER),
    "sort": ("SORT BY", NO_ORDER),
    "cluster": ("CLUSTER BY", NO_ORDER),
    "distribute": ("DISTRIBUTE BY", NO_ORDER),
    "limit": ("LIMIT", f"{NO_ORDER}: use a [ROWS n] window"),
    "offset": ("OFFSET", NO_ORDER),
}


def bind_query(node: exp.Expr, context: Context) -> Logical:
    """The plan of a query: a relation, or a stream (ToStream) if it says so."""
    node = unwrapped(node)
    context = context.knowing(node.args.get("with_"))
    operator = _operator(node)
    if isinstance(node, RelationToStream):
        node = unwrapped(node.this)
        context = context.knowing(node.args.get("with_"))
    root = _bind(node, context)
    return root if operator is None else to_stream(root, operator, context)


def bind_relation(node: exp.Expr, context: Context, what: str) -> Logical:
    """The plan of a query where only a relation may stand; ``what`` says where that is."""
    root = bind_query(node, context)
    if isinstance(root, ToStream):
        operator = root.kind.upper()
        hint = f"leave {operator} out, or write {operator}(...) around the whole query"
        raise error(f"{what} takes a relation, and this query returns a stream", unwrapped(node), hint)
    return root


def unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery):
        refuse_modifiers(node)
        node = node.this
    return node


def refuse_modifiers(node: exp.Expr) -> None:
    """Refuse what would need an order."""
    for arg, (words, reason) in REFUSED_MODIFIERS.items():
        if node.args.get(arg):
            raise unsupported(words, node.args[arg], reason)


def _bind(node: exp.Expr, context: Context) -> Logical:
    bind_kind = RELATIONS.get(type(node))
    if bind_kind is None:
        raise unsupported(UNSUPPORTED.get(type(node), f"'{node.key.upper()}'"), node)
    refuse_modifiers(node)
    return bind_kind(node, context)


def operator_of(select: exp.Expr) -> RelationToStream | None:
    """The relation-to-stream operator around a SELECT list."""
    first = select.expressions[0] if isinstance(select, exp.Select) and select.expressions else None
    return first if isinstance(first, RelationToStream) else None


def _operator(node: exp.Expr) -> RelationToStream | None:
    """The relation-to-stream operator of a query, in whichever of its two spellings."""
    outer = node if isinstance(node, RelationToStream) else None
    inner = operator_of(unwrapped(outer.this) if outer else node)
    if outer and inner:
        raise error("a query has one relation-to-stream operator", inner, "write ISTREAM only once")
    return outer or inner
