"""Making a bound expression one of another type: a constant is converted here and now, the rest casts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.cql.expressions import types
from penstock.cql.syntax.errors import error
from penstock.errors import CQLError
from penstock.expression import Call, Expression, Literal, shown


def coerce(expression: Expression, type_: pa.DataType) -> Expression:
    """The expression as the type, through an explicit ``cast`` unless it has it already."""
    if expression.type == type_:
        return expression
    if isinstance(expression, Literal):
        folded = _fold(expression, type_)
        if folded is not None:
            return folded
    return Call("cast", (expression,), type_)


def unify(
    expressions: Sequence[Expression], node: exp.Expr, what: str, hint: str | None = None
) -> list[Expression]:
    """Expressions that meet (``what`` says where), each as their common type."""
    read = [_read_as_neighbour(e, expressions, node) for e in expressions]
    type_ = types.common(e.type for e in read)
    if type_ is None:
        raise mismatch(read, node, what, hint)
    return [coerce(e, type_) for e in read]


def comparands(expressions: Sequence[Expression], node: exp.Expr) -> list[Expression]:
    """The sides of a comparison as their common type; beside a DECIMAL a constant has only its own digits."""
    if any(types.is_decimal(e.type) for e in expressions):
        expressions = [decimal_operand(e) if types.is_integer(e.type) else e for e in expressions]
    return unify(expressions, node, "cannot compare")


def decimal_operand(operand: Expression) -> Expression:
    """An integer beside a DECIMAL; a constant takes only the digits it has."""
    if isinstance(operand, Literal) and isinstance(operand.value, int):
        return coerce(operand, pa.decimal128(len(str(abs(operand.value))), 0))
    return coerce(operand, types.as_decimal(operand.type))


def mismatch(
    expressions: Sequence[Expression], node: exp.Expr, what: str, hint: str | None = None
) -> CQLError:
    """The error for types that do not meet; unless a hint is given, with the CAST of the string."""
    names = list(dict.fromkeys(types.sql_name(e.type) for e in expressions))
    text = next((e for e in expressions if types.is_string(e.type)), None)
    target = next((types.sql_name(e.type) for e in expressions if not types.is_string(e.type)), None)
    if hint is None:
        cast = f"write CAST({shown(text)} AS {target})" if text and target else None
        hint = cast or "write CAST to say which type is meant"
    return error(f"type mismatch: {what} {' and '.join(names)}", node, hint)


def _read_as_neighbour(expression: Expression, others: Sequence[Expression], node: exp.Expr) -> Expression:
    """A string constant beside a date or timestamp is read as one, at once, so that a bad one shows."""
    if (
        not isinstance(expression, Literal)
        or not types.is_string(expression.type)
        or expression.value is None
    ):
        return expression
    temporal = next((o.type for o in others if types.is_temporal(o.type)), None)
    if temporal is None:
        return expression
    value = read_time(expression.value, temporal)
    if value is None:
        raise error(
            f"'{expression.value}' is not a {types.sql_name(temporal)}",
            node,
            time_hint(temporal),
        )
    return Literal(value, temporal)


def time_hint(type_: pa.DataType) -> str:
    """How a date or timestamp is written."""
    return "write it as '2024-01-31'" + ("" if type_ == types.DATE else " or '2024-01-31 23:59:59'")


def read_time(text: str, type_: pa.DataType) -> dt.date | dt.datetime | None:
    """A date or timestamp as text; None if it is not one. Without a zone it is UTC."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if type_ == types.DATE:
        return moment.date()
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    utc = zoned.astimezone(dt.UTC)
    return utc if type_.tz else utc.replace(tzinfo=None)


def _fold(literal: Literal, type_: pa.DataType) -> Literal | None:
    """A constant converted, where that loses nothing; None leaves it to a cast at run time."""
    value: Any = literal.value
    if value is None:
        return Literal(None, type_)
    if isinstance(value, bool) or not types.is_numeric(literal.type):
        return None
    if types.is_fractional(type_):
        return Literal(float(value), type_)
    if types.is_decimal(type_) and not isinstance(value, float):
        return _fold_decimal(Decimal(value), type_)
    if types.is_integer(type_) and isinstance(value, int) and abs(value) < 2 ** (type_.bit_width - 1):
        return Literal(value, type_)
    return None


def _fold_decimal(value: Decimal, type_: pa.DataType) -> Literal | None:
    try:
        exact = value.quantize(Decimal(1).scaleb(-type_.scale))
    except InvalidOperation:
        return None
    fits = exact == value and len(exact.as_tuple().digits) <= type_.precision
    return Literal(exact, type_) if fits else None
