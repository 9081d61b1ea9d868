"""FROM: streams, relations, tables, views and subqueries, and their joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from penstock import sysstream
from penstock.catalog import FunctionDef, Input, SinkDef, TableDef, ViewDef
from penstock.cql.clauses.grouping import row_binder
from penstock.cql.clauses.joins import Joined, join
from penstock.cql.clauses.queries import (
    column_names,
    columns_of,
    common_table,
    derived_table,
    has_first_rows,
    view,
)
from penstock.cql.clauses.windows import windowed
from penstock.cql.clauses.windows_between import with_windows
from penstock.cql.expressions.coercion import unify
from penstock.cql.names.context import Catalog, Context
from penstock.cql.names.scope import Item, Scope, lookup
from penstock.cql.syntax.ddl_parser import DEFINED
from penstock.cql.syntax.errors import did_you_mean, error, text_of_node, unsupported
from penstock.cql.syntax.foreign import is_window_function, window_function
from penstock.plan.logical import RelationSource, StreamSource, TableSource, Values

__all__ = ["Catalog", "Context", "bind_from", "bind_item"]


def bind_from(select: exp.Select, context: Context) -> Joined:
    """The FROM clause of a SELECT."""
    start = select.args.get("from_")
    if start is None:
        raise error("SELECT needs FROM with at least one stream", select)
    clause = select.args.get("between")
    inside = replace(context.apart("a subquery in FROM"), between=clause is not None)
    joined = _bind_list(start.this, select.args.get("joins") or (), inside)
    if clause is not None:
        joined = with_windows(joined, clause, select, context)
    scope = replace(joined.scope, functions=context.functions, outer=context.outer)
    return replace(joined, scope=scope)


def _bind_list(first: exp.Expr, joins: Iterable[exp.Join], context: Context) -> Joined:
    """Items with commas and JOINs between; a JOIN goes before a comma."""
    lists = [bind_item(first, context)]
    for node in joins:
        right = bind_item(node.this, context)
        if node.meta.get("comma"):
            lists.append(right)
            continue
        lists[-1] = join(lists[-1], right, node, context)
        if node.kind == "CROSS":
            lists[-1].crossed.append({i.alias for part in lists for i in part.inputs})
    result = lists[0]
    for other in lists[1:]:
        result = result.beside(other, other.inputs[0].at)
    return result


def bind_item(node: exp.Expr, context: Context) -> Joined:
    """One FROM item, by its kind."""
    bind_kind = ITEMS.get(type(node))
    if bind_kind is None:
        raise unsupported(UNSUPPORTED.get(type(node), f"'{text_of_node(node)}' in FROM"), node)
    for arg, words in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT"), ("laterals", "LATERAL VIEW")):
        if node.args.get(arg):
            raise unsupported(words, node)
    return bind_kind(node, context)


# names


def _named(node: exp.Table, context: Context) -> Joined:
    if node.args.get("joins"):
        return _bind_list(_without_joins(node), node.args["joins"], context)
    if isinstance(node.this, exp.Values):  # first in a join in parentheses
        alone = node.this.copy()
        alone.set("alias", node.args.get("alias"))
        return _values(alone, context)
    if not isinstance(node.this, exp.Identifier):
        _refuse_kind(node.this)
        if is_window_function(node.this.name):
            raise window_function(node.this.name, node)
        raise unsupported("a table function", node)
    if node.args.get("db"):
        raise unsupported(f"a name in two parts ('{text_of_node(node)}')", node)
    common = lookup(context.common_tables, node.name)
    if common is not None:
        return Joined.of(common_table(node, common, context), node)
    definition = _definition(node, context)
    return Joined.of(DEFINITIONS[type(definition)](node, definition, context), node)


def _definition(node: exp.Table, context: Context) -> Input | TableDef | ViewDef:
    known = {name: d for name, d in context.catalog.items() if not isinstance(d, FunctionDef)}
    definition = lookup(known, node.name)
    if definition is None:
        _refuse_kind(node.this)
        names = [*context.common_tables, *known]
        none = "write CREATE STREAM before the query, or give the file that has it before this one"
        other = none if names in ([], [sysstream.NAME]) else f"registered: {', '.join(names)}"
        hint = did_you_mean(node.name, names, other)
        raise error(f"unknown stream or table '{node.name}'", node.this, hint)
    if isinstance(definition, SinkDef):
        hint = f"write INSERT INTO {definition.name} SELECT ..., or CREATE STREAM over what it wrote"
        raise error(f"'{definition.name}' is a sink; queries write to it", node.this, hint)
    return definition


def _refuse_kind(name: exp.Expr) -> None:
    """``FROM TABLE t`` reads as a table of that name, ``FROM TABLE(t)`` as a function."""
    if name.name.upper() in DEFINED:
        raise error(f"{name.name.upper()} is not allowed in FROM", name, "write only the name, as in FROM S")


def _without_joins(node: exp.Expr) -> exp.Expr:
    alone = node.copy()
    alone.set("joins", None)
    return alone


def _own_alias(node: exp.Table, name: str) -> str:
    """The alias of a stream or table; its columns keep their names."""
    alias = node.args.get("alias")
    if alias and alias.args.get("columns"):
        raise unsupported(
            "an alias with column names for a stream or table", alias, "write it for a subquery in FROM"
        )
    return node.alias or name


def _refuse_window(node: exp.Table, name: str, what: str) -> None:
    if node.args.get("window"):
        message = f"'{name}' is a {what} and takes no window"
        raise error(message, node.args["window"], "only streams take windows")


def _table(node: exp.Table, table: TableDef, context: Context) -> Item:
    alias = _own_alias(node, table.name)
    _refuse_window(node, table.name, "table")
    return Item.of(alias, TableSource(alias, table))


def _input(node: exp.Table, input: Input, context: Context) -> Item:
    alias = _own_alias(node, input.name)
    if input.is_relation:
        _refuse_window(node, input.name, "relation")
    context.add_stream(input, node)
    kind = RelationSource if input.is_relation else StreamSource
    item = Item.of(alias, kind(alias, input))
    return item if input.is_relation else windowed(item, node.args.get("window"), context)


DEFINITIONS: dict[type, Callable[[exp.Table, Any, Context], Item]] = {
    Input: _input,
    TableDef: _table,
    ViewDef: view,
}

# parentheses


def _parenthesised(node: exp.Subquery, context: Context) -> Joined:
    """A query, a join or a single item in parentheses."""
    if node.args.get("joins"):
        return _bind_list(_without_joins(node), node.args["joins"], context)
    inside, alias, window = node.this, node.args.get("alias"), node.args.get("window")
    if has_first_rows(node):
        return Joined.of(derived_table(node, node, context), node)
    if not isinstance(inside, exp.Table | exp.Subquery):
        return Joined.of(derived_table(node, inside, context), node)
    if not inside.args.get("joins"):
        return bind_item(_item_as(inside, alias, window), context)
    if alias or window:
        everything = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inside.copy()))
        return Joined.of(derived_table(node, everything, context), node)
    return bind_item(inside, context)


def _item_as(inside: exp.Expr, alias: exp.Expr | None, window: exp.Expr | None) -> exp.Expr:
    """An item in parentheses as if the alias and window after them stood inside."""
    item = inside.copy()
    if alias:
        item.set("alias", alias.copy())
    if window and item.args.get("window"):
        raise error(f"'{item.alias_or_name}' has two windows", window)
    if window:
        item.set("window", window.copy())
    return item


# constants


def _values(node: exp.Values, context: Context) -> Joined:
    """VALUES: a static table of constants, with columns col1, col2, ... unless the alias names them."""
    binder = row_binder(Scope(functions=context.functions), "VALUES")
    rows = [[binder.bind(e) for e in row.expressions] for row in node.expressions]
    if any(len(row) != len(rows[0]) for row in rows):
        raise error("the rows of VALUES have different numbers of columns", node)
    columns = [unify(column, node, "a column of VALUES has") for column in zip(*rows, strict=True)]
    alias = node.alias or context.new_alias()
    own = tuple(f"col{n + 1}" for n in range(len(columns)))
    root = Values(alias, own, tuple(zip(*columns, strict=True)))
    names = column_names(root, columns_of(node), node)
    return Joined.of(Item.of(alias, replace(root, names=tuple(f"{alias}.{n}" for n in names))), node)


ITEMS: dict[type[exp.Expr], Callable[[Any, Context], Joined]] = {
    exp.Table: _named,
    exp.Subquery: _parenthesised,
    exp.Values: _values,
}

UNSUPPORTED: dict[type[exp.Expr], str] = {
    exp.Lateral: "LATERAL",
    exp.Unnest: "UNNEST",
}
