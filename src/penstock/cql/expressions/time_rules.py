"""Rules for functions of dates and timestamps, all in UTC.

A timestamp is taken apart into microseconds and put together again with ``unix_micros`` and
``timestamp_micros``, so that the engine needs no intervals.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.cql.expressions import types
from penstock.cql.expressions.coercion import coerce, read_time
from penstock.cql.expressions.function_rules import Args, Rule
from penstock.cql.expressions.types import BIGINT, DATE, INT, STRING
from penstock.expression import Call, Expression, Literal
from penstock.schema import TIMESTAMP

DATE_UNITS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mon": "month",
}
DATE_UNITS |= {"mm": "month", "week": "week"}
TIME_UNITS = DATE_UNITS | {"day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second"}
TIME_UNITS |= {"millisecond": "millisecond", "microsecond": "microsecond"}


def as_date(expression: Expression) -> Expression | None:
    """A date, timestamp, text or NULL as a DATE."""
    return _as(expression, DATE)


def as_timestamp(expression: Expression) -> Expression | None:
    """A date, timestamp, text or NULL as a TIMESTAMP."""
    return _as(expression, TIMESTAMP)


def _as(expression: Expression, type_: pa.DataType) -> Expression | None:
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        read = read_time(expression.value, type_)
        return None if read is None else Literal(read, type_)
    given = expression.type
    return (
        coerce(expression, type_)
        if given == types.NULL or types.is_string(given) or types.is_temporal(given)
        else None
    )


def of_date(result: pa.DataType) -> Rule:
    """A function of a date (a timestamp's, if it is one)."""

    def rule(name: str, args: Args) -> Expression | None:
        date = as_date(args[0])
        return None if date is None else Call(name, (date,), result)

    return rule


def of_timestamp(result: pa.DataType) -> Rule:
    """A function of a timestamp (a date's midnight, if it is one)."""

    def rule(name: str, args: Args) -> Expression | None:
        moment = as_timestamp(args[0])
        return None if moment is None else Call(name, (moment,), result)

    return rule


def date_and_days(name: str, args: Args) -> Expression | None:
    """DATE_ADD(date, days) and the like."""
    date = as_date(args[0])
    if date is None or types.common((args[1].type, INT)) != INT:
        return None
    days = coerce(args[1], INT)
    if name == "date_sub":
        return Call("date_add", (date, Call("negative", (days,), INT)), DATE)
    return Call(name, (date, days), DATE)


def datediff(name: str, args: Args) -> Expression | None:
    """DATEDIFF(end, start) in days."""
    dates = [as_date(a) for a in args]
    return None if None in dates else Call("datediff", tuple(d for d in dates if d), INT)


def unix_seconds(name: str, args: Args) -> Expression | None:
    """UNIX_TIMESTAMP(ts): whole seconds since 1970."""
    return of_timestamp(BIGINT)("unix_seconds", args)


def whole(result: pa.DataType) -> Rule:
    """A function of a whole number."""

    def rule(name: str, args: Args) -> Expression | None:
        if args[0].type != types.NULL and not types.is_integer(args[0].type):
            return None
        return Call(name, (coerce(args[0], BIGINT),), result)

    return rule


def from_unixtime(name: str, args: Args) -> Expression | None:
    """FROM_UNIXTIME(seconds): the time as text."""
    moment = whole(TIMESTAMP)("timestamp_seconds", args)
    return None if moment is None else Call("cast", (moment,), STRING)


def cast_to(type_: pa.DataType) -> Rule:
    """TO_DATE(x), TO_TIMESTAMP(x): a cast."""

    def rule(name: str, args: Args) -> Expression | None:
        return coerce(args[0], type_) if types.castable(args[0].type, type_) else None

    return rule


def date_trunc(name: str, args: Args) -> Expression | None:
    """DATE_TRUNC(unit, ts), the unit a constant."""
    unit, moment = _unit(args[0], TIME_UNITS), as_timestamp(args[1])
    return None if unit is None or moment is None else Call(name, (unit, moment), TIMESTAMP)


def trunc(name: str, args: Args) -> Expression | None:
    """TRUNC(date, unit), the unit a constant."""
    date, unit = as_date(args[0]), _unit(args[1], DATE_UNITS)
    return None if unit is None or date is None else Call(name, (date, unit), DATE)


def _unit(unit: Expression, units: dict[str, str]) -> Literal | None:
    known = isinstance(unit, Literal) and isinstance(unit.value, str) and units.get(unit.value.lower())
    return Literal(known, STRING) if known else None


def seconds_and_fraction(moment: Expression) -> Expression:
    """EXTRACT(SECOND FROM ts): with microseconds, DECIMAL(8, 6)."""
    minute, million = Literal(60_000_000, BIGINT), Literal(1_000_000, BIGINT)
    micros = Call("pmod", (Call("unix_micros", (moment,), BIGINT), minute), BIGINT)
    digits = pa.decimal128(8, 0)
    quotient = types.decimal_arithmetic("/", digits, digits)
    ratio = Call("/", (coerce(micros, digits), coerce(million, digits)), quotient)
    return Call("cast", (ratio,), pa.decimal128(8, 6))


def date_field(name: str, args: Args) -> Expression | None:
    """YEAR, MONTH or DAY of a date or timestamp."""
    return Call(name, tuple(args), INT) if types.is_temporal(args[0].type) else None


def clock_field(name: str, args: Args) -> Expression | None:
    """HOUR, MINUTE or SECOND of a timestamp; a date is its midnight."""
    if not types.is_temporal(args[0].type):
        return None
    value = coerce(args[0], TIMESTAMP) if args[0].type == types.DATE else args[0]
    return Call(name, (value,), INT)
