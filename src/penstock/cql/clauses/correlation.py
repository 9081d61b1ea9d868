"""Correlation: the conditions of a subquery that refer to the enclosing query.

They cannot be tested inside the subquery. So the subquery returns, beside its own columns, what they need
of it, and they become conditions of the join with the enclosing query:
``EXISTS (SELECT 1 FROM T WHERE T.a = S.A)`` is a semijoin with ``SELECT 1, T.a FROM T`` on ``S.A = T.a``.
Below an aggregation that works for equality only: the subquery then has its groups for each value of ``T.a``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from penstock.cql.clauses.grouping import Grouping
from penstock.cql.names.results import unique
from penstock.cql.names.scope import Named, Outer, inner_columns, outer_columns
from penstock.cql.syntax.errors import unsupported
from penstock.expression import Call, Column, Expression, Literal, transform
from penstock.functions.types import BIGINT
from penstock.plan.facts import equal_sides
from penstock.plan.logical import Logical, Project

Part = tuple[Expression, Expression]
"""What a correlated condition needs of a subquery's rows, and that same over what is projected."""


def equality(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """The sides of an equality between the enclosing query and the subquery, in that order."""
    return equal_sides(conjunct, _of_outer, _of_inner)


def _of_outer(e: Expression) -> bool:
    return bool(outer_columns(e)) and not inner_columns(e)


def _of_inner(e: Expression) -> bool:
    return bool(inner_columns(e)) and not outer_columns(e)


def needed(correlated: Sequence[Expression]) -> list[Expression]:
    """What correlated conditions need of the subquery's rows."""
    parts = list[Expression]()
    for conjunct in correlated:
        pair = equality(conjunct)
        parts += [pair[1]] if pair else inner_columns(conjunct)
    return list(dict.fromkeys(parts))


def _keys(correlated: Sequence[Expression], at: exp.Expr) -> list[Expression]:
    """The same below an aggregation, where each condition must be an equality."""
    if not all(equality(c) for c in correlated):
        raise unsupported(
            "an aggregate in a subquery that is correlated by anything but equality",
            at,
            "write its WHERE as inner = outer AND ...",
        )
    return needed(correlated)


def project(
    node: Logical,
    named: Sequence[Named],
    parts: Sequence[Part],
    correlated: Sequence[Expression],
    outer: Outer | None,
) -> Project:
    """The projection of a SELECT list and of the ``parts`` that correlated conditions need.

    The conditions go to ``outer`` in terms of the projection's columns.
    """
    names = unique([*(name for name, _ in named), *(str(part) for part, _ in parts)])
    expressions = [*(e for _, e in named), *(e for _, e in parts)]
    if outer is not None and correlated:
        own = names[len(named) :]
        columns = {part: Column(name, part.type) for (part, _), name in zip(parts, own, strict=True)}
        outer.conjuncts.extend(_replaced(c, columns) for c in correlated)
        outer.extras.extend(own)
    return Project(node, tuple(zip(names, expressions, strict=True)))


def key_parts(grouping: Grouping, correlated: Sequence[Expression], at: exp.Expr) -> list[Part]:
    """What correlated conditions need of groups: keys, added to those of the grouping."""
    return [(key, grouping.key(key)) for key in _keys(correlated, at)]


def value_above(
    node: Logical,
    grouping: Grouping,
    value: Expression,
    correlated: Sequence[Expression],
    outer: Outer,
    at: exp.Expr,
) -> Project:
    """An aggregate for each value of what ``correlated`` needs, its SELECT item left to the enclosing query.

    There a left outer join finds the group. Where there is none, every aggregate is NULL but COUNT is 0.
    """
    parts = key_parts(grouping, correlated, at)
    columns: list[Named] = [(name, Column(name, call.type)) for name, call in grouping.calls.items()]
    counts = {c: _or_zero(c) for name, c in columns if grouping.calls[name].function == "count"}
    outer.values.append(_replaced(value, counts))
    return project(grouping.over(node), columns, parts, correlated, outer)


def _or_zero(count: Expression) -> Expression:
    return Call("coalesce", (count, Literal(0, BIGINT)), BIGINT)


def _replaced(expression: Expression, new: Mapping[Expression, Expression]) -> Expression:
    return transform(expression, lambda e: new.get(e))
