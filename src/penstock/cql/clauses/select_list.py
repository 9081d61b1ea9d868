"""The SELECT list: its items, what * stands for, and the names of the result's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.cql.clauses.queries import operator_of, unwrapped
from penstock.cql.names.results import text_of
from penstock.cql.names.scope import Named, Scope
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Expression

BindItem = Callable[[exp.Expr], Expression]
Adapt = Callable[[Expression, exp.Expr], Expression]


def select_items(select: exp.Select) -> list[exp.Expr]:
    """The items of the SELECT list, whether or not ISTREAM( ) is around them."""
    around = operator_of(select)
    items = around.expressions if around else select.expressions
    if not items:
        raise error("SELECT needs at least one item", select)
    return items


def is_distinct(select: exp.Select) -> bool:
    """Whether DISTINCT stands before the items, outside or inside ISTREAM( )."""
    distinct, around = select.args.get("distinct"), operator_of(select)
    if distinct and distinct.args.get("on"):
        raise unsupported("DISTINCT ON", select)
    return bool(distinct or around and around.args.get("distinct"))


def bind_items(items: Sequence[exp.Expr], scope: Scope, bind: BindItem, adapt: Adapt) -> list[Named]:
    """The columns of the items, each bound over the rows and adapted to what the SELECT list is over."""
    named = list[Named]()
    for item in items:
        if _is_star(item):
            named += [(name, adapt(e, item)) for name, e in _star(item, scope)]
        else:
            inner = item.unalias()
            named.append((_name(item, scope), adapt(bind(inner), inner)))
    return named


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _name(item: exp.Expr, scope: Scope) -> str:
    if isinstance(item, exp.Alias):
        return item.alias
    if isinstance(item, exp.Column):
        return scope.own_name(item)
    return _name_of_subquery(item) if isinstance(item, exp.Subquery) else text_of(item)


def _name_of_subquery(item: exp.Subquery) -> str:
    """A scalar subquery is named as its only item."""
    query = unwrapped(item)
    first = query.expressions[0] if isinstance(query, exp.Select) and query.expressions else item
    return first.alias_or_name if isinstance(first, exp.Alias | exp.Column) else text_of(first)


def _star(item: exp.Expr, scope: Scope) -> list[Named]:
    star = item.this if isinstance(item, exp.Column) else item
    for arg, words in (("except_", "* EXCEPT"), ("replace", "* REPLACE"), ("rename", "* RENAME")):
        if star.args.get(arg):
            raise unsupported(words, item)
    return scope.star(item)
