"""SELECT: from its clauses to windows, join, selection, aggregation and projection, in that order.

Nothing is pushed down here: the plan says what the query says, and the rules in ``plan`` do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.cql.errors import error, unsupported
from penstock.cql.from_clause import Context, FromClause, bind_from, check_linked
from penstock.cql.grouping import Grouping, bind_grouping, is_grouped, row_binder
from penstock.cql.names import text_of, unique
from penstock.cql.nodes import RelationToStream
from penstock.cql.scope import Scope
from penstock.expression import Column, Expression, conjuncts
from penstock.plan.logical import Join, Logical, Project, Select

Named = tuple[str, Expression]

UNSUPPORTED_CLAUSES = {
    "with_": "WITH",
    "distinct": "SELECT DISTINCT",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "a WINDOW clause",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "into": "SELECT INTO",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS STRUCT",
    "hint": "a hint",
}
_REASONS = {"order": "a continuous result has no end to sort at", "limit": "use a [ROWS n] window"}


def bind_select(select: exp.Select, context: Context) -> Logical:
    """The plan of a SELECT, without its relation-to-stream operator."""
    _refuse_clauses(select)
    items = select_items(select)
    clause = bind_from(select, context, _bind_condition)
    node = _joined(clause, _where(select, clause.scope), select)
    if is_grouped(select, items):
        grouping = bind_grouping(select, items, clause.scope)
        named = _grouped_columns(items, grouping)
        return _project(grouping.over(node), named)
    return _project(node, _columns(items, clause.scope))


def select_items(select: exp.Select) -> list[exp.Expr]:
    """The items of the SELECT list, whether or not ISTREAM( ) is around them."""
    around = operator_of(select)
    return around.expressions if around else select.expressions


def operator_of(select: exp.Select) -> RelationToStream | None:
    """The relation-to-stream operator around a SELECT list."""
    first = select.expressions[0] if select.expressions else None
    return first if isinstance(first, RelationToStream) else None


def _refuse_clauses(select: exp.Select) -> None:
    for arg, construct in UNSUPPORTED_CLAUSES.items():
        value = select.args.get(arg)
        if value:
            at = value[0] if isinstance(value, list) else value
            raise unsupported(construct, at if isinstance(at, exp.Expr) else select, _REASONS.get(arg))
    if not select.expressions:
        raise error("SELECT needs at least one item", select)


def _bind_condition(scope: Scope, node: exp.Expr, where: str) -> list[Expression]:
    return conjuncts(row_binder(scope, where).condition(node, where))


def _where(select: exp.Select, scope: Scope) -> list[Expression]:
    where = select.args.get("where")
    return _bind_condition(scope, where.this, "WHERE") if where else []


def _joined(clause: FromClause, where: Sequence[Expression], select: exp.Select) -> Logical:
    every = (*clause.conjuncts, *where)
    nodes = tuple(item.node for item in clause.scope.items)
    if len(nodes) == 1:
        return Select(nodes[0], every) if every else nodes[0]
    check_linked(clause, every, select)
    return Join(nodes, every, cross=bool(clause.crossed))


def _project(node: Logical, named: Sequence[Named]) -> Project:
    names = unique(name for name, _ in named)
    return Project(node, tuple(zip(names, (e for _, e in named), strict=True)))


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _name(item: exp.Expr, scope: Scope) -> str:
    if isinstance(item, exp.Alias):
        return item.alias
    return scope.own_name(item) if isinstance(item, exp.Column) else text_of(item)


def _columns(items: Sequence[exp.Expr], scope: Scope) -> list[Named]:
    binder, named = row_binder(scope, "this SELECT list"), list[Named]()
    for item in items:
        if _is_star(item):
            named += _star(item, scope)
        else:
            named.append((_name(item, scope), binder.bind(item.unalias())))
    return named


def _grouped_columns(items: Sequence[exp.Expr], grouping: Grouping) -> list[Named]:
    named = list[Named]()
    for item in items:
        if _is_star(item):
            named += [(n, grouping.over_groups(c, item)) for n, c in _star(item, grouping.scope)]
        else:
            named.append((_name(item, grouping.scope), grouping.bind(item.unalias())))
    return named


def _star(item: exp.Expr, scope: Scope) -> list[tuple[str, Column]]:
    star = item.this if isinstance(item, exp.Column) else item
    for arg, words in (("except_", "* EXCEPT"), ("replace", "* REPLACE"), ("rename", "* RENAME")):
        if star.args.get(arg):
            raise unsupported(words, item)
    return scope.star(item)
