"""Binding: from the text of a query to a logical plan, with every name and type resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.cql.ddl import SelectStatement, parse
from penstock.cql.duration import ticks
from penstock.cql.errors import error, unsupported
from penstock.cql.from_clause import Catalog, Context
from penstock.cql.nodes import RelationToStream
from penstock.cql.select import bind_select, operator_of
from penstock.plan.logical import Aggregate, Logical, Query, ToStream, Window, inputs


def bind(query: str | exp.Expr | SelectStatement, catalog: Catalog) -> Query:
    """The bound form of one query over a catalog.

    ``query`` is its text, the statement that :func:`parse` made of it, or a sqlglot expression.
    """
    node = _expression(query)
    context = Context(catalog)
    operator = _operator(node)
    root = bind_relation(node.this if isinstance(node, RelationToStream) else node, context)
    if not context.streams:
        raise error(
            "a continuous query needs a stream in FROM, and here are only tables",
            node,
            "query tables with Spark itself",
        )
    return Query(_to_stream(root, operator, context), context.streams[0].time, tuple(context.notes))


def bind_relation(node: exp.Expr, context: Context) -> Logical:
    """The plan of anything that gives a relation."""
    bind_kind = RELATIONS.get(type(node))
    if bind_kind is None:
        raise unsupported(UNSUPPORTED.get(type(node), f"'{node.key.upper()}'"), node)
    return bind_kind(node, context)


RELATIONS: dict[type[exp.Expr], Callable[[Any, Context], Logical]] = {exp.Select: bind_select}

UNSUPPORTED: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
    exp.Subquery: "a query in parentheses",
    exp.Values: "VALUES",
}


def _expression(query: str | exp.Expr | SelectStatement) -> exp.Expr:
    if isinstance(query, exp.Expr):
        return query
    if isinstance(query, SelectStatement):
        return query.expression
    statements = parse(query)
    if len(statements) != 1:
        raise error(f"one query is expected here, not {len(statements)} statements")
    if not isinstance(statements[0], SelectStatement):
        raise error("a query is expected here, not CREATE or DROP")
    return statements[0].expression


def _operator(node: exp.Expr) -> RelationToStream | None:
    """The relation-to-stream operator of a query, in whichever of its two spellings."""
    outer = node if isinstance(node, RelationToStream) else None
    query = node.this if outer else node
    inner = operator_of(query) if isinstance(query, exp.Select) else None
    if outer and inner:
        raise error("a query has one relation-to-stream operator", inner, "write ISTREAM only once")
    return outer or inner


def _to_stream(root: Logical, operator: RelationToStream | None, context: Context) -> Logical:
    if operator is None:
        if not only_grows(root):
            return root
        context.notes.append("the result only grows, so it is streamed: ISTREAM is filled in")
        return ToStream(root, "istream")
    kind, every = operator.args["kind"], operator.args.get("every")
    if every is None:
        return ToStream(root, kind)
    if kind != "rstream":
        raise error(f"EVERY goes with RSTREAM, not with {kind.upper()}", every)
    return ToStream(root, kind, ticks(every, context.streams[0].time, "EVERY", least=1))


def only_grows(node: Logical) -> bool:
    """Whether rows, once in the result, stay in it."""
    if isinstance(node, Aggregate) or isinstance(node, Window) and node.spec.size is not None:
        return False
    return all(only_grows(i) for i in inputs(node))
