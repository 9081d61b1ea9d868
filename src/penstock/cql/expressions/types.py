"""SQL's types as Arrow types, and Spark's ANSI rules for which type two become when they meet."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from sqlglot import exp

from penstock.cql.syntax.errors import error
from penstock.schema import TIMESTAMP, TIMESTAMP_NTZ

NULL, BOOLEAN, STRING, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()

MAX_PRECISION = 38
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_NUMERIC_ORDER = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)

_T = exp.DType
_FROM_SQL = {
    _T.BOOLEAN: BOOLEAN,
    _T.TINYINT: TINYINT,
    _T.SMALLINT: SMALLINT,
    _T.INT: INT,
    _T.BIGINT: BIGINT,
    _T.FLOAT: FLOAT,
    _T.DOUBLE: DOUBLE,
    _T.TEXT: STRING,
    _T.VARCHAR: STRING,
    _T.CHAR: STRING,
    _T.BINARY: BINARY,
    _T.DATE: DATE,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPTZ: TIMESTAMP,
    _T.TIMESTAMPLTZ: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}
_TO_SQL = {
    NULL: "NULL",
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INT",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    STRING: "STRING",
    BINARY: "BINARY",
    DATE: "DATE",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}


def from_sql(node: exp.Expr) -> pa.DataType:
    """The Arrow type of a type as written in CAST or in a column definition."""
    kind = node.this
    if kind == _T.DECIMAL:
        precision, scale = (
            ([int(p.name) for p in node.expressions] + [10, 0])[:2] if node.expressions else (10, 0)
        )
        if len(node.expressions) == 1:
            scale = 0
        if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
            raise error(f"DECIMAL({precision}, {scale}) is out of bounds", node, "at most DECIMAL(38, 38)")
        return pa.decimal128(precision, scale)
    if kind not in _FROM_SQL:
        raise error(f"unknown type '{node.sql('spark')}'", node, "types are Spark's, e.g. BIGINT or STRING")
    return _FROM_SQL[kind]


def sql_name(type_: pa.DataType) -> str:
    """A type as SQL writes it, e.g. ``BIGINT``."""
    if is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    if is_string(type_):
        return "STRING"
    return _TO_SQL.get(type_, str(type_).upper())


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


def is_ordered(type_: pa.DataType) -> bool:
    """Whether values of the type can be compared with less-than."""
    return not pa.types.is_nested(type_)


def decimal(precision: int, scale: int) -> pa.DataType:
    """DECIMAL as Spark bounds it: whole digits are kept, the scale gives way, down to 6."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The DECIMAL that holds every value of an integer type; a DECIMAL as it is."""
    return type_ if is_decimal(type_) else pa.decimal128(INTEGER_DIGITS[type_], 0)


def common(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that all of these become when they meet, or None where a CAST must say it."""
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
        return _meet_decimals(as_decimal(left), as_decimal(right))
    wider = max(left, right, key=_NUMERIC_ORDER.index)
    mixed = is_integer(left) != is_integer(right)
    return DOUBLE if mixed and wider == FLOAT else wider


def _meet_decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(whole + scale, scale)


def decimal_arithmetic(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Spark's result type of ``left operator right`` for two DECIMALs."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if operator in ("+", "-"):
        scale = max(s1, s2)
        return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return decimal(min(p1 - s1, p2 - s2) + scale, scale)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether ANSI Spark can cast at all, whatever the values."""
    if source == target or source == NULL or is_string(source) or is_string(target):
        return True
    if is_temporal(source) or is_temporal(target):
        return is_temporal(source) and is_temporal(target)
    simple = (is_numeric, pa.types.is_boolean)
    return any(t(source) for t in simple) and any(t(target) for t in simple)
