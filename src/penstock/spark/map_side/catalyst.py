"""Bound expressions as Spark SQL text, for the filters and columns that Catalyst evaluates.

The text means in Spark (ANSI mode, session time zone UTC) what :mod:`penstock.engine.evaluate` computes;
one test compares the two for every function. Every literal carries its type, so Spark
coerces nothing on its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.expression import Column, Expression, Literal
from penstock.functions import FUNCTIONS
from penstock.functions.casts import spark_name
from penstock.functions.intervals import MICROSECOND, to_text

_SUFFIX = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}


def to_spark_sql(expression: Expression, name: Callable[[str], str] = str) -> str:
    """The expression as Spark SQL; ``name`` maps qualified names of columns to those in Spark.

    >>> from penstock.expression import Call
    >>> size = Column("C.size", pa.int64())
    >>> to_spark_sql(Call(">", (size, Literal(5, pa.int64())), pa.bool_()), lambda n: n.split(".")[1])
    '(`size` > 5L)'
    """
    if isinstance(expression, Column):
        return quote(name(expression.name))
    if isinstance(expression, Literal):
        return _literal(expression.value, expression.type)
    arguments = [to_spark_sql(arg, name) for arg in expression.args]
    return FUNCTIONS[expression.function].spark_sql(expression, arguments)


def quote(name: str) -> str:
    """A name in backticks, so that a dot in it is part of it."""
    return f"`{name.replace('`', '``')}`"


def _literal(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {spark_name(type_)})"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dt.timedelta):
        return to_text(value // MICROSECOND)
    if pa.types.is_integer(type_) and type_ in _SUFFIX:
        return f"{value}{_SUFFIX[type_]}"
    return f"CAST({_text(_plain_text(value, type_))} AS {spark_name(type_)})"


def _plain_text(value: Any, type_: pa.DataType) -> str:
    """A number, date or time in a form that Spark's own cast from STRING reads back."""
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC) if value.tzinfo else value
        return moment.replace(tzinfo=None).isoformat(" ") + ("Z" if type_.tz else "")
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, dt.date) else repr(value)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
