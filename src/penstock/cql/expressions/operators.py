"""Arithmetic on numbers, dates and timestamps; LIKE, ILIKE and RLIKE, with and without NOT and ESCAPE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.cql.expressions import functions, times
from penstock.cql.syntax.errors import error, unsupported
from penstock.cql.syntax.nodes import Positive
from penstock.expression import Call, Expression, connected
from penstock.functions import intervals, types
from penstock.functions.types import BOOLEAN, coerce
from penstock.schema import INTERVAL, sql_name

if TYPE_CHECKING:
    from penstock.cql.expressions.binder import ExpressionBinder

Bind = Callable[["ExpressionBinder", Any], Expression]


def binary(operator: str) -> Bind:
    """An operator between two expressions."""

    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        left, right = binder.bind(node.left), binder.bind(node.right)
        scaled = intervals.arithmetic(operator, left, right)
        return scaled or functions.operator(operator, [left, right], node)

    return bind


def additive(operator: str) -> Bind:
    """``+`` and ``-``, which also move a date or timestamp."""

    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        if times.is_time_arithmetic(node.left, node.right):
            return times.shifted(binder, node)
        left, right = binder.bind(node.left), binder.bind(node.right)
        moved = intervals.arithmetic(operator, left, right)
        if moved is not None:
            return moved
        if left.type == types.DATE and types.is_integer(right.type):
            return functions.call("date_add" if operator == "+" else "date_sub", [left, right], node)
        if types.is_temporal(left.type) and types.is_numeric(right.type):
            given, hint = (sql_name(left.type), sql_name(right.type)), f"write {operator} INTERVAL 5 SECONDS"
            raise error(f"type mismatch: '{operator}' of {' and '.join(given)}", node, hint)
        return functions.operator(operator, [left, right], node)

    return bind


def negative(binder: ExpressionBinder, node: exp.Neg) -> Expression:
    """``-x``."""
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return types.number(f"-{inner.name}")
    return functions.operator("negative", [binder.bind(inner)], node)


def positive(binder: ExpressionBinder, node: Positive) -> Expression:
    """``+x``: a number or an interval as it is, text as a number."""
    bound = binder.bind(node.this)
    if types.is_string(bound.type):
        return coerce(bound, types.DOUBLE)
    if types.is_numeric(bound.type) or bound.type in (types.NULL, INTERVAL):
        return bound
    raise error(f"type mismatch: '+' takes a number or an interval, not ({sql_name(bound.type)})", node)


def like(binder: ExpressionBinder, node: exp.Like) -> Expression:
    """``x LIKE pattern``."""
    return _of_several(binder, node) or _negated(binary("like")(binder, node), node)


def _of_several(binder: ExpressionBinder, node: exp.Binary) -> Expression | None:
    """``x LIKE ANY (a, b)`` and ``x LIKE ALL (a, b)``: each pattern by itself, combined by OR or AND."""
    quantified = node.expression
    if not isinstance(quantified, exp.Any | exp.All):
        return None
    inner = quantified.this
    if not isinstance(inner, exp.Tuple | exp.Paren):
        raise unsupported("LIKE with ANY or ALL of a subquery", node, "write a list of patterns")
    matches = list[Expression]()
    for pattern in inner.expressions or [inner.this]:
        one = node.copy()
        one.set("expression", pattern.copy())
        matches.append(binder.bind(one))
    return connected("or" if isinstance(quantified, exp.Any) else "and", matches)


def ilike(binder: ExpressionBinder, node: exp.ILike) -> Expression:
    """``x ILIKE pattern``: LIKE in lower case."""
    several = _of_several(binder, node)
    if several is not None:
        return several
    sides = [functions.call("lower", [binder.bind(side)], node) for side in (node.this, node.expression)]
    return _negated(functions.operator("like", sides, node), node)


def rlike(binder: ExpressionBinder, node: exp.RegexpLike) -> Expression:
    """``x RLIKE regex``."""
    return functions.call("rlike", [binder.bind(node.this), binder.bind(node.expression)], node)


def escape(binder: ExpressionBinder, node: exp.Escape) -> Expression:
    """``x LIKE pattern ESCAPE 'c'``, with a constant pattern: rewritten with a backslash for c."""
    match, mark = node.this, node.expression
    pattern = match.expression if isinstance(match, exp.Like | exp.ILike) else None
    if not isinstance(pattern, exp.Literal) or not isinstance(mark, exp.Literal) or len(mark.name) != 1:
        raise unsupported("ESCAPE other than a character for a constant pattern", node)
    rewritten = match.copy()
    rewritten.set("expression", exp.Literal.string(_with_backslash(pattern.name, mark.name, node)))
    return binder.bind(rewritten)


def _with_backslash(pattern: str, mark: str, node: exp.Expr) -> str:
    parts, chars = list[str](), iter(pattern)
    for char in chars:
        if char != mark:
            parts.append("\\\\" if char == "\\" else char)
            continue
        char = next(chars, "")
        if char not in ("%", "_", mark):
            raise error(f"in a LIKE pattern {mark} must precede %, _ or {mark}", node)
        parts.append(f"\\{char}" if char in ("%", "_", "\\") else char)
    return "".join(parts)


def _negated(match: Expression, node: exp.Expr) -> Expression:
    return Call("not", (match,), BOOLEAN) if node.args.get("negate") else match
