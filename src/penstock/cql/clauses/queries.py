"""Queries by their kind, each with its stream operator; and those that stand where a stream or relation does.

Set operations are bound here, SELECT in ``clauses/select``. Of subqueries in FROM, queries of WITH and views,
the columns are named ``x.a`` by their own topmost projection, so that no node is added; a window stands right
on the relation-to-stream operator of its query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import ViewDef
from penstock.cql.clauses.first_rows import first_rows_of
from penstock.cql.clauses.streams import as_stream, to_stream
from penstock.cql.clauses.windows import windowed
from penstock.cql.clauses.within import budget_of, with_budget
from penstock.cql.names.context import CommonTable, Context
from penstock.cql.names.results import unique
from penstock.cql.names.scope import Item
from penstock.cql.settings import MAX_VIEWS
from penstock.cql.syntax.errors import error, place, unsupported
from penstock.cql.syntax.nesting import chain
from penstock.cql.syntax.nodes import RelationToStream
from penstock.cql.syntax.parser import parse_expressions
from penstock.errors import CQLError
from penstock.expression import Column
from penstock.functions import types
from penstock.functions.types import coerce
from penstock.plan.logical import Logical, Project, SetOperation, ToStream, renamed
from penstock.schema import sql_name

UNSUPPORTED: dict[type[exp.Expr], str] = {exp.Values: "VALUES", exp.Table: "a join in parentheses"}

NO_ORDER = "a relation has no order; for its first rows write ORDER BY with LIMIT"
REFUSED_MODIFIERS = {
    "sort": ("SORT BY", NO_ORDER),
    "cluster": ("CLUSTER BY", NO_ORDER),
    "distribute": ("DISTRIBUTE BY", "leave it out: how rows are spread is chosen by the plan"),
}


def bind_query(node: exp.Expr, context: Context) -> Logical:
    """The plan of a query: a relation, or a stream (ToStream) if the query has such an operator."""
    budget, node = budget_of(node), unwrapped(node)
    context = context.with_common_tables(node.args.get("with_"))
    operator = _operator(node)
    if isinstance(node, RelationToStream):
        node = unwrapped(node.this)
        context = context.with_common_tables(node.args.get("with_"))
    root = _bind(node, context)
    if budget is not None:
        root = with_budget(root, budget, context)
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
    """A query without the parentheses around it, as far as nothing that has an effect stands after them."""
    while isinstance(node, exp.Subquery) and not has_first_rows(node):
        refuse_modifiers(node)
        node = node.this
    return node


def has_first_rows(node: exp.Expr) -> bool:
    """Whether ORDER BY, LIMIT or OFFSET stands after a query."""
    return any(node.args.get(arg) for arg in ("order", "limit", "offset"))


def refuse_modifiers(node: exp.Expr) -> None:
    """Reject modifiers that would need an order."""
    for arg, (words, reason) in REFUSED_MODIFIERS.items():
        if node.args.get(arg):
            raise unsupported(words, node.args[arg], reason)


def _bind(node: exp.Expr, context: Context) -> Logical:
    bind_kind = RELATIONS.get(type(node))
    if bind_kind is None:
        raise unsupported(UNSUPPORTED.get(type(node), f"'{node.key.upper()}'"), node)
    refuse_modifiers(node)
    relation = bind_kind(node, context)
    return relation if isinstance(node, exp.Select) else first_rows_of(relation, node)


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


def _bind_set_operation(node: exp.SetOperation, context: Context) -> Logical:
    word = node.key.upper()
    for arg in ("by_name", "side", "kind", "on"):
        if node.args.get(arg):
            raise unsupported(f"{word} BY NAME", node)
    inside = context.apart(word)
    sides = chain(node) if isinstance(node, exp.Union) else [node.this, node.expression]
    parts = [bind_relation(side, inside, word) for side in sides]
    common = parts[0].schema.types
    for part, side in zip(parts[1:], sides[1:], strict=True):
        common = _common_types(parts[0].schema.names, common, part.schema.types, word, _operation(side))
    every = not node.args.get("distinct")
    return SetOperation(tuple(_as(part, common) for part in parts), node.key, every)


def _operation(side: exp.Expr) -> exp.Expr:
    """The set operation on whose right a query stands."""
    assert side.parent is not None
    return side.parent


def _common_types(
    names: Sequence[str], mine: Sequence[pa.DataType], other: Sequence[pa.DataType], word: str, at: exp.Expr
) -> list[pa.DataType]:
    if len(mine) != len(other):
        counts = f"{len(mine)} and {len(other)}"
        raise error(f"{word} takes two queries with the same number of columns, not {counts}", at)
    common = [types.common(pair) for pair in zip(mine, other, strict=True)]
    for name, type_, a, b in zip(names, common, mine, other, strict=True):
        if type_ is None:
            met = f"{sql_name(a)} and {sql_name(b)}"
            raise error(f"type mismatch: column '{name}' of {word} is {met}", at, "write CAST in one of them")
    return common


def _as(node: Logical, common: Sequence[pa.DataType]) -> Logical:
    """A query's plan with its columns coerced to the types."""
    if node.schema.types == list(common):
        return node
    if not isinstance(node, Project):
        node = Project(node, tuple((f.name, Column(f.name, f.type)) for f in node.schema))
    pairs = zip(node.columns, common, strict=True)
    return replace(node, columns=tuple((name, coerce(e, type_)) for (name, e), type_ in pairs))


def _bind_parenthesised(node: exp.Subquery, context: Context) -> Logical:
    return bind_relation(node.this, context.apart("a query in parentheses"), "ORDER BY after parentheses")


RELATIONS: dict[type[exp.Expr], Callable[[Any, Context], Logical]] = {
    exp.Union: _bind_set_operation,
    exp.Except: _bind_set_operation,
    exp.Intersect: _bind_set_operation,
    exp.Subquery: _bind_parenthesised,
}
"""Binders by kind of query. SELECT, whose subqueries are queries too, is added by ``cql.query``."""


# queries in place of a stream or relation


def derived_table(node: exp.Subquery, query: exp.Expr, context: Context) -> Item:
    """A subquery in FROM."""
    alias = node.alias or context.new_alias()
    return _item(bind_query(query, context), alias, columns_of(node), node, context)


def common_table(node: exp.Table, table: CommonTable, context: Context) -> Item:
    """A query that WITH named, where its name stands."""
    names = columns_of(node) or columns_of(table.node)
    inside = replace(table.context, outer=context.outer).apart("a query of WITH")
    root = context.once(table, node, lambda: bind_query(table.node.this, inside))
    return _item(root, node.alias or table.node.alias, names, node, context)


def view(node: exp.Table, view: ViewDef, context: Context) -> Item:
    """A view, where its name stands; an error in it names the view, at the place of its use."""
    if context.views >= MAX_VIEWS:
        raise error(f"views are nested more than {MAX_VIEWS} deep", node, "write some of them as one query")

    def bind() -> Logical:
        (query,) = parse_expressions(view.text)
        return bind_query(query, context.of_view())

    try:
        root = context.once(view.name, node, bind)
    except CQLError as failure:
        line, column = place(node)
        message = f"in view '{view.name}': {failure.message}"
        raise type(failure)(message, line=line, column=column, hint=failure.hint) from None
    names = columns_of(node) or [exp.to_identifier(n) for n in view.columns]
    return _item(root, node.alias or view.name, names, node, context)


def _item(root: Logical, alias: str, names: Sequence[exp.Expr], node: exp.Expr, context: Context) -> Item:
    window = node.args.get("window")
    if window is not None and not root.is_stream:
        root = as_stream(root, alias, window, context)
    item = Item.of(alias, requalified(root, alias, column_names(root, names, node)))
    return windowed(item, window, context) if root.is_stream else item


def columns_of(node: exp.Expr) -> Sequence[exp.Expr]:
    """The column names after an alias."""
    alias = node.args.get("alias")
    return (alias.args.get("columns") or ()) if alias else ()


def column_names(root: Logical, names: Sequence[exp.Expr], node: exp.Expr) -> list[str]:
    """The names of the columns: those of the alias, if it has any."""
    own = root.schema.names
    if not names:
        return list(own)
    if len(names) != len(own):
        raise error(f"the alias has {len(names)} column name(s) for {len(own)} columns", names[0])
    return unique(n.name for n in names)


def requalified(node: Logical, alias: str, names: Sequence[str]) -> Logical:
    """The plan of a query with its columns named ``alias.name``."""
    return renamed(node, [f"{alias}.{name}" for name in names])
