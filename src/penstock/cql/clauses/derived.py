"""Queries that stand where a stream or relation does: subqueries in FROM, WITH, views.

The columns of ``(SELECT ...) AS x`` are named ``x.a`` by the subquery's own topmost projection, so that
no node is added; a window stands right on the relation-to-stream operator of its query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog import ViewDef
from penstock.cql.clauses.queries import bind_query
from penstock.cql.clauses.streams import as_stream
from penstock.cql.clauses.windows import windowed
from penstock.cql.names.context import CommonTable, Context
from penstock.cql.names.results import unique
from penstock.cql.names.scope import Item
from penstock.cql.syntax.errors import error, place
from penstock.cql.syntax.parser import parse_expressions
from penstock.errors import CQLError
from penstock.plan.logical import Logical, renamed


def derived_table(node: exp.Subquery, query: exp.Expr, context: Context) -> Item:
    """A subquery in FROM."""
    alias = node.alias or context.new_alias()
    return _item(bind_query(query, context), alias, _columns(node), node, context)


def common_table(node: exp.Table, table: CommonTable, context: Context) -> Item:
    """A query that WITH named, where its name stands."""
    names = _columns(node) or _columns(table.node)
    inside = replace(table.context, outer=context.outer)
    root = bind_query(table.node.this, inside.apart("a query of WITH"))
    return _item(root, node.alias or table.node.alias, names, node, context)


def view(node: exp.Table, view: ViewDef, context: Context) -> Item:
    """A view, where its name stands; what is wrong in it is said of the view, at the place of its use."""
    try:
        (query,) = parse_expressions(view.text)
        root = bind_query(query, context.on_its_own())
    except CQLError as failure:
        line, column = place(node)
        message = f"in view '{view.name}': {failure.message}"
        raise type(failure)(message, line=line, column=column, hint=failure.hint) from None
    return _item(root, node.alias or view.name, _columns(node), node, context)


def _item(root: Logical, alias: str, names: Sequence[exp.Expr], node: exp.Expr, context: Context) -> Item:
    window = node.args.get("window")
    if window is not None and not root.is_stream:
        root = as_stream(root, alias, window, context)
    item = Item.of(alias, requalified(root, alias, _column_names(root, names, node)))
    return windowed(item, window, context) if root.is_stream else item


def _columns(node: exp.Expr) -> Sequence[exp.Expr]:
    alias = node.args.get("alias")
    return (alias.args.get("columns") or ()) if alias else ()


def _column_names(root: Logical, names: Sequence[exp.Expr], node: exp.Expr) -> list[str]:
    """The columns' names, or those that the alias gives them."""
    own = root.schema.names
    if not names:
        return list(own)
    if len(names) != len(own):
        raise error(f"the alias has {len(names)} column name(s) for {len(own)} columns", names[0])
    return unique(n.name for n in names)


def requalified(node: Logical, alias: str, names: Sequence[str]) -> Logical:
    """The plan of a query with its columns named ``alias.name``."""
    return renamed(node, [f"{alias}.{name}" for name in names])
