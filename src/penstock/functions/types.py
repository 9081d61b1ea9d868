"""SQL's types: Spark's ANSI rules for the common type of two types, and for coercions.

A coercion is explicit: a constant is converted while the query is bound, the rest becomes a ``cast`` call.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from penstock.expression import Call, Expression, Literal
from penstock.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

NULL, BOOLEAN, STRING, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()

MAX_PRECISION = 38
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_NUMERIC_ORDER = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)


def is_integer(type_: pa.DataType) -> bool:
    """TINYINT to BIGINT."""
    return pa.types.is_signed_integer(type_)


def is_fractional(type_: pa.DataType) -> bool:
    """FLOAT or DOUBLE."""
    return pa.types.is_float32(type_) or pa.types.is_float64(type_)


def is_decimal(type_: pa.DataType) -> bool:
    """DECIMAL of any precision."""
    return pa.types.is_decimal(type_)


def is_numeric(type_: pa.DataType) -> bool:
    """Any number."""
    return is_integer(type_) or is_fractional(type_) or is_decimal(type_)


def is_string(type_: pa.DataType) -> bool:
    """STRING."""
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def is_timestamp(type_: pa.DataType) -> bool:
    """TIMESTAMP or TIMESTAMP_NTZ."""
    return pa.types.is_timestamp(type_)


def is_temporal(type_: pa.DataType) -> bool:
    """DATE or a timestamp."""
    return pa.types.is_date(type_) or is_timestamp(type_)


def is_amount(type_: pa.DataType) -> bool:
    """A number or an interval."""
    return is_numeric(type_) or type_ == INTERVAL


def is_ordered(type_: pa.DataType) -> bool:
    """Whether values of the type can be compared with less-than."""
    return not pa.types.is_nested(type_)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether ANSI Spark can cast between the types, whatever the values; no array is cast."""
    if source != target and (pa.types.is_nested(source) or pa.types.is_nested(target)):
        return source == NULL
    if source != target and INTERVAL in (source, target):
        return source == NULL or is_string(target)
    if source == target or source == NULL or is_string(source) or is_string(target):
        return True
    if is_temporal(source) or is_temporal(target):
        return is_temporal(source) and is_temporal(target)
    simple = (is_numeric, pa.types.is_boolean)
    return any(t(source) for t in simple) and any(t(target) for t in simple)


# The common type.


def common(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The common type of all of these, or None if a CAST is required."""
    result: pa.DataType = NULL
    for type_ in types:
        met = _meet(result, type_)
        if met is None:
            return None
        result = met
    return result


def _meet(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if is_numeric(left) and is_numeric(right):
        return _meet_numbers(left, right)
    if is_temporal(left) and is_temporal(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    if is_string(left) and is_string(right):
        return STRING
    return None


def _meet_numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_decimal(left) or is_decimal(right):
        if is_fractional(left) or is_fractional(right):
            return DOUBLE
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    wider = max(left, right, key=_NUMERIC_ORDER.index)
    mixed = is_integer(left) != is_integer(right)
    return DOUBLE if mixed and wider == FLOAT else wider


# DECIMAL.


def decimal(precision: int, scale: int) -> pa.DataType:
    """DECIMAL as Spark bounds it: whole digits are kept, the scale is reduced, down to 6."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The DECIMAL that holds every value of an integer type; a DECIMAL as it is."""
    return type_ if is_decimal(type_) else pa.decimal128(INTEGER_DIGITS[type_], 0)


def decimal_operand(operand: Expression) -> Expression:
    """An integer operand as a DECIMAL; a constant takes only the digits it has."""
    if isinstance(operand, Literal) and isinstance(operand.value, int):
        return coerce(operand, pa.decimal128(len(str(abs(operand.value))), 0))
    return coerce(operand, as_decimal(operand.type))


def decimal_arithmetic(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Spark's result type of ``left operator right`` for two DECIMALs."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = max(s1, s2)
    if operator in ("+", "-"):
        return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    return decimal(min(p1 - s1, p2 - s2) + scale, scale)


# Coercion.


def coerce(expression: Expression, type_: pa.DataType) -> Expression:
    """The expression as the type, with an explicit ``cast`` unless it has it already."""
    if expression.type == type_:
        return expression
    folded = _fold(expression, type_) if isinstance(expression, Literal) else None
    return folded or Call("cast", (expression,), type_)


def _fold(literal: Literal, type_: pa.DataType) -> Literal | None:
    """A constant converted without loss, or None to cast at run time."""
    value: Any = literal.value
    if value is None:
        return Literal(None, type_)
    if isinstance(value, bool) or not is_numeric(literal.type):
        return None
    if is_fractional(type_):
        # A value that no DOUBLE is must not be rounded twice on its way to a FLOAT.
        return Literal(float(value), type_) if type_ == DOUBLE or float(value) == value else None
    if is_decimal(type_) and not isinstance(value, float):
        return _fold_decimal(Decimal(value), type_)
    if is_integer(type_) and isinstance(value, int) and abs(value) < 2 ** (type_.bit_width - 1):
        return Literal(value, type_)
    return None


def _fold_decimal(value: Decimal, type_: pa.DataType) -> Literal | None:
    try:
        exact = value.quantize(Decimal(1).scaleb(-type_.scale))
    except InvalidOperation:
        return None
    fits = exact == value and len(exact.as_tuple().digits) <= type_.precision
    return Literal(exact, type_) if fits else None


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
    if precision > MAX_PRECISION:
        return Literal(float(text), DOUBLE)
    return Literal(value, pa.decimal128(precision, scale))


def read_time(text: str, type_: pa.DataType) -> dt.date | dt.datetime | None:
    """A date or timestamp as text; None if it is not one. Without a zone it is UTC."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if type_ == DATE:
        return moment.date()
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    utc = zoned.astimezone(dt.UTC)
    return utc if type_.tz else utc.replace(tzinfo=None)


def as_time(expression: Expression, type_: pa.DataType) -> Expression | None:
    """A date, timestamp, text or NULL as a DATE or TIMESTAMP; None if it is neither."""
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        read = read_time(expression.value, type_)
        return None if read is None else Literal(read, type_)
    given = expression.type
    return coerce(expression, type_) if given == NULL or is_string(given) or is_temporal(given) else None
