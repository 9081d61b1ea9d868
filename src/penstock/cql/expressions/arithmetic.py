"""Arithmetic: operators on numbers by Spark's rules, and on dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from penstock.cql.expressions import functions, times, types
from penstock.cql.expressions.coercion import coerce, decimal_operand, mismatch
from penstock.cql.expressions.types import BIGINT, DOUBLE, INT
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Call, Expression, Literal

if TYPE_CHECKING:
    from penstock.cql.expressions.binder import ExpressionBinder

BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
Bind = Callable[["ExpressionBinder", Any], Expression]


def number(text: str) -> Literal:
    """A numeric constant with Spark's type: INT, BIGINT or DECIMAL as it fits, DOUBLE with an exponent."""
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    value = Decimal(text)
    scale = max(-int(value.as_tuple().exponent), 0)
    if scale == 0 and "." not in text:
        for type_ in (INT, BIGINT):
            if -(2 ** (type_.bit_width - 1)) <= int(value) < 2 ** (type_.bit_width - 1):
                return Literal(int(value), type_)
    precision = max(len(value.as_tuple().digits), scale)
    if precision > types.MAX_PRECISION:
        return Literal(float(text), DOUBLE)
    return Literal(value, pa.decimal128(precision, scale))


def numbers(operator: str) -> Bind:
    """``+``, ``-``, ``*``, ``/`` and ``%``; the first two also move a date or timestamp."""

    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        if operator in ("+", "-") and times.is_time_arithmetic(node.left, node.right):
            return times.shifted(binder, node)
        left, right = binder.bind(node.left), binder.bind(node.right)
        if operator == "-" and all(types.is_temporal(e.type) for e in (left, right)):
            hint = "compare it with an INTERVAL, or write DATEDIFF or UNIX_MICROS"
            raise unsupported("a difference of two times as a value", node, hint)
        if operator in ("+", "-") and left.type == types.DATE and types.is_integer(right.type):
            return functions.call("date_add" if operator == "+" else "date_sub", [left, right], node)
        if not all(types.is_numeric(e.type) or e.type == types.NULL for e in (left, right)):
            raise mismatch((left, right), node, f"'{operator}' takes numbers, not")
        return arithmetic(operator, left, right)

    return bind


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right`` for two numbers, by Spark's rules."""
    decimals = types.is_decimal(left.type) or types.is_decimal(right.type)
    if decimals and not any(types.is_fractional(e.type) or e.type == types.NULL for e in (left, right)):
        left, right = decimal_operand(left), decimal_operand(right)
        return Call(operator, (left, right), types.decimal_arithmetic(operator, left.type, right.type))
    type_ = DOUBLE if operator == "/" else types.common((left.type, right.type)) or DOUBLE
    type_ = INT if type_ == types.NULL else type_
    return Call(operator, (coerce(left, type_), coerce(right, type_)), type_)


def whole_division(binder: ExpressionBinder, node: exp.IntDiv) -> Expression:
    """``a DIV b``."""
    sides = [binder.bind(node.left), binder.bind(node.right)]
    if not all(types.is_integer(e.type) or e.type == types.NULL for e in sides):
        raise mismatch(sides, node, "DIV takes whole numbers, not")
    return Call("div", tuple(coerce(e, BIGINT) for e in sides), BIGINT)


def bitwise(operator: str) -> Bind:
    """``&``, ``|`` and ``^``."""

    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        if any(isinstance(s, BITWISE) and type(s) is not type(node) for s in (node.left, node.right)):
            raise error("&, | and ^ side by side need parentheses", node)
        sides = [binder.bind(node.left), binder.bind(node.right)]
        if not all(types.is_integer(e.type) for e in sides):
            raise mismatch(sides, node, f"'{operator}' takes whole numbers, not")
        type_ = types.common(e.type for e in sides) or BIGINT
        return Call(operator, tuple(coerce(e, type_) for e in sides), type_)

    return bind


def negative(binder: ExpressionBinder, node: exp.Neg) -> Expression:
    """``-x``."""
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return number(f"-{inner.name}")
    bound = binder.bind(inner)
    if not types.is_numeric(bound.type):
        message = f"type mismatch: '-' takes a number, not {types.sql_name(bound.type)}"
        raise error(message, node, "write CAST to convert it")
    return Call("negative", (bound,), bound.type)
