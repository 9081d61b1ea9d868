"""Types as a query writes them, and expressions that must have one type, with errors that name the place."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from penstock.cql.syntax.errors import error, unsupported
from penstock.errors import CQLError
from penstock.expression import Expression, Literal, shown
from penstock.functions import types
from penstock.functions.types import coerce, decimal_operand, read_time
from penstock.schema import INTERVAL, SQL_TYPES, a_value_of, sql_name

_PARSED_AS = {
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "STRING"),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMPLTZ"), "TIMESTAMP"),
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
}
"""SQL's names of the types that sqlglot names otherwise."""


NESTED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "JSON")
FLATTEN = "select its parts as columns of their own before the stream or table is registered"


def from_sql(node: exp.Expr) -> pa.DataType:
    """The Arrow type of a type as written in CAST or in a column definition."""
    kind = node.this.value if isinstance(node.this, exp.DType) else ""
    if kind == "DECIMAL":
        written = [int(p.name) for p in node.expressions]
        precision, scale = written if len(written) == 2 else ((written or [10])[0], 0)
        if not (1 <= precision <= types.MAX_PRECISION and 0 <= scale <= precision):
            raise error(f"DECIMAL({precision}, {scale}) is out of range", node, "at most DECIMAL(38, 38)")
        return pa.decimal128(precision, scale)
    if isinstance(node.this, exp.Interval):
        return _interval(node)
    type_ = SQL_TYPES.get(_PARSED_AS.get(kind, kind), types.NULL)
    if type_ == types.NULL:
        if kind in NESTED:
            raise unsupported(f"the type {node.sql('spark')}", node, FLATTEN)
        raise error(f"unknown type '{node.sql('spark')}'", node, "types are Spark's, e.g. BIGINT or STRING")
    return type_


def _interval(node: exp.Expr) -> pa.DataType:
    unit = node.this.args.get("unit")
    words = unit.sql("spark").upper().split() if unit is not None else []
    if not {"YEAR", "MONTH"} & set(words):
        return INTERVAL
    raise unsupported(f"the type {node.sql('spark')}", node, "an interval is INTERVAL DAY TO SECOND")


def unify(
    expressions: Sequence[Expression], node: exp.Expr, what: str, hint: str | None = None
) -> list[Expression]:
    """Expressions coerced to their common type; ``what`` names the construct in errors."""
    temporal = next((e.type for e in expressions if types.is_temporal(e.type)), None)
    read = expressions if temporal is None else [_read_as(e, temporal, node) for e in expressions]
    type_ = types.common(e.type for e in read)
    if type_ is None:
        raise mismatch(read, node, what, hint)
    return [coerce(e, type_) for e in read]


def comparands(expressions: Sequence[Expression], node: exp.Expr) -> list[Expression]:
    """The sides of a comparison as their common type; beside a DECIMAL a constant keeps only its digits."""
    if any(types.is_decimal(e.type) for e in expressions):
        expressions = [decimal_operand(e) if types.is_integer(e.type) else e for e in expressions]
    return unify(expressions, node, "cannot compare")


def mismatch(
    expressions: Sequence[Expression], node: exp.Expr, what: str, hint: str | None = None
) -> CQLError:
    """The error for expressions that have no common type."""
    names = dict.fromkeys(sql_name(e.type) for e in expressions)
    return error(f"type mismatch: {what} {' and '.join(names)}", node, hint or cast_hint(expressions))


def cast_hint(expressions: Sequence[Expression]) -> str:
    """The CAST of the string among expressions to the type of another."""
    text = next((e for e in expressions if types.is_string(e.type)), None)
    target = next((sql_name(e.type) for e in expressions if not types.is_string(e.type)), None)
    return f"write CAST({shown(text)} AS {target})" if text and target else "write CAST to convert it"


def _read_as(expression: Expression, temporal: pa.DataType, node: exp.Expr) -> Expression:
    """A string constant beside a date or timestamp is converted now, so that a bad one is an error."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        return expression
    return constant_time(expression.value, temporal, node)


def constant_time(text: str, type_: pa.DataType, node: exp.Expr) -> Literal:
    """A DATE or TIMESTAMP written as text."""
    value = read_time(text, type_)
    if value is None:
        hint = "write it as '2024-01-31'" + ("" if type_ == types.DATE else " or '2024-01-31 23:59:59'")
        raise error(f"'{text}' is not {a_value_of(sql_name(type_))}", node, hint)
    return Literal(value, type_)
