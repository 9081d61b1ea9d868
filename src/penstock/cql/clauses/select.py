"""SELECT: from its clauses to windows, joins, selection, aggregation and projection, in that order.

Nothing is pushed down here: the plan mirrors the query, and the rules in ``plan`` rewrite it.
Subqueries in a clause add their joins on top of the clause's input: those in WHERE above the join of
FROM, those in HAVING and in a grouped SELECT list above the aggregation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.cql.clauses.from_clause import bind_from
from penstock.cql.clauses.grouping import Grouping, bind_grouping, is_grouped, row_binder, with_items
from penstock.cql.clauses.queries import operator_of, unwrapped
from penstock.cql.clauses.ranking import FirstRows, Ranking
from penstock.cql.clauses.subqueries import Attachments, key_parts, needed, value_above
from penstock.cql.expressions.binder import ExpressionBinder
from penstock.cql.names.context import Context
from penstock.cql.names.results import text_of
from penstock.cql.names.scope import Named, Scope, outer_columns
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nesting import chain
from penstock.expression import Call, Expression, Literal, columns, conjuncts
from penstock.plan.logical import Logical, Select

UNSUPPORTED_CLAUSES = {
    "windows": "a WINDOW clause with names for OVER",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "into": "SELECT INTO",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS STRUCT",
    "hint": "a hint",
}


@dataclass(frozen=True)
class Rows:
    """The result of FROM and WHERE: a plan, its scope, and the conditions on the enclosing query."""

    node: Logical
    scope: Scope
    correlated: list[Expression]


def bind_select(select: exp.Select, context: Context) -> Logical:
    """The plan of a SELECT, without its relation-to-stream operator."""
    _refuse_clauses(select)
    items, rows = select_items(select), _rows(select, context)
    output = _grouped if is_grouped(select, items, rows.scope) else _projected
    return output(select, items, rows, context)


def _refuse_clauses(select: exp.Select) -> None:
    for arg, construct in UNSUPPORTED_CLAUSES.items():
        value = select.args.get(arg)
        if value:
            at = value[0] if isinstance(value, list) else value
            raise unsupported(construct, at if isinstance(at, exp.Expr) else select)


def _rows(select: exp.Select, context: Context) -> Rows:
    """FROM and WHERE."""
    joined, where = bind_from(select, context), select.args.get("where")
    scope, attachments = joined.scope, Attachments(context, joined.scope)
    binder = row_binder(scope, "WHERE", attachments.value)
    every = _conjuncts(where.this, binder, attachments, "WHERE") if where else []
    for condition in joined.deferred:
        every += _conjuncts(condition, binder, attachments, "ON")
    own = [c for c in every if not outer_columns(c)]
    plain = [c for c in own if columns(c).isdisjoint(attachments.names)]
    node = _selected(attachments.over(joined.plan(plain)), [c for c in own if c not in plain])
    scope = scope.under([*joined.conjuncts, *own])
    if scope.outer:
        scope = replace(scope, outer=scope.outer.refusing("a clause other than WHERE"))
    return Rows(node, scope, [c for c in every if c not in own])


def _conjuncts(
    node: exp.Expr, binder: ExpressionBinder, attachments: Attachments, clause: str
) -> list[Expression]:
    """The conjuncts of WHERE or HAVING; EXISTS and IN among them become semijoins instead."""
    parts = _parts(node)
    word = clause if len(parts) == 1 else "AND"
    bound = list[Expression]()
    for part in parts:
        if not attachments.semijoin(part, binder):
            bound += conjuncts(binder.condition(part, word))
    return bound


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition as it is written."""
    inner = node.unnest()
    return [term.unnest() for term in chain(inner)] if isinstance(inner, exp.And) else [inner]


def _selected(node: Logical, conjuncts: Sequence[Expression]) -> Logical:
    return Select(node, tuple(conjuncts)) if conjuncts else node


def _projected(select: exp.Select, items: Sequence[exp.Expr], rows: Rows, context: Context) -> Logical:
    """The SELECT list over rows."""
    attachments, ranking = Attachments(context, rows.scope), Ranking(select)
    binder = row_binder(rows.scope, "this SELECT list", attachments.value, ranking.over)
    named = bind_items(items, rows.scope, binder.bind, lambda bound, _: bound)
    ranking.bind(items, named, binder)
    parts = [(part, part) for part in needed(rows.correlated)]
    around = (rows.correlated, context.outer, is_distinct(select))
    return ranking.output(attachments.over(rows.node), named, parts, *around)


def _grouped(select: exp.Select, items: Sequence[exp.Expr], rows: Rows, context: Context) -> Logical:
    """GROUP BY, HAVING and the SELECT list over groups."""
    grouping = bind_grouping(select, items, rows.scope)
    grouping.rows = rows.node
    if rows.correlated and not grouping.keys:
        return _one_group(select, items, rows, context)
    below = Attachments(context, rows.scope)
    grouping.subquery, grouping.attach = below.value, below.over
    parts = key_parts(grouping, rows.correlated, select)
    having = Attachments(context, rows.scope, grouping)
    filters = _having(select, items, grouping, having)
    attachments, ranking = Attachments(context, rows.scope, grouping), Ranking(select, grouping)
    binder = grouping.binder(attachments.value, ranking.over)
    named = bind_items(items, rows.scope, binder.bind, grouping.over_groups)
    ranking.bind(items, named, binder)
    node = attachments.over(_selected(having.over(grouping.over(rows.node)), filters))
    around = (rows.correlated, context.outer, is_distinct(select))
    return ranking.output(node, named, parts, *around)


def _having(
    select: exp.Select, items: Sequence[exp.Expr], grouping: Grouping, attachments: Attachments
) -> list[Expression]:
    having = select.args.get("having")
    if having is None:
        return []
    condition = with_items(having.this, items, grouping.scope)
    bound = _conjuncts(condition, grouping.binder(attachments.value), attachments, "HAVING")
    return [grouping.over_groups(c, condition) for c in bound]


def _one_group(select: exp.Select, items: Sequence[exp.Expr], rows: Rows, context: Context) -> Logical:
    """A correlated aggregate without GROUP BY: one value for each row of the enclosing query, always."""
    if context.outer is None or not context.outer.takes_value:
        raise unsupported(
            "EXISTS or IN with a correlated aggregate and no GROUP BY", select, "compare its value"
        )
    if select.args.get("qualify") or FirstRows.of(select) or is_distinct(select):
        raise unsupported(
            "QUALIFY, LIMIT or DISTINCT beside a correlated aggregate", select, "it has one row"
        )
    if len(items) != 1:
        raise error(f"a scalar subquery returns one column, not {len(items)}", select)
    grouping = Grouping(rows.scope)
    binder = grouping.binder(row_binder(rows.scope, "a correlated aggregate").subquery)
    value = grouping.over_groups(binder.bind(items[0].unalias()), items[0])
    having = select.args.get("having")
    if having is not None:
        condition = grouping.over_groups(binder.condition(having.this, "HAVING"), having)
        value = Call("case", (condition, value, Literal(None, value.type)), value.type)
    return value_above(rows.node, grouping, value, rows.correlated, context.outer, select)


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
    """The columns of the items, each bound over the rows and adapted to the input of the SELECT list."""
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
    for arg, words in (("replace", "* REPLACE"), ("rename", "* RENAME")):
        if star.args.get(arg):
            raise unsupported(words, item)
    columns = scope.star(item)
    for left_out in star.args.get("except_") or ():
        rest = [(n, e) for n, e in columns if n.casefold() != left_out.name.casefold()]
        if len(rest) == len(columns):
            hint = did_you_mean(left_out.name, [n for n, _ in columns], scope.columns_hint())
            raise error(f"* has no column '{left_out.name}' to leave out", left_out, hint)
        columns = rest
    if not columns:
        raise error("* EXCEPT leaves no column", item)
    return columns
