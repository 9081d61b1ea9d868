"""Time in expressions: INTERVAL added to and taken from dates and timestamps, differences, EXTRACT.

``ts + INTERVAL 5 MINUTES`` is a shift of ``ts``, and in ``a - b < INTERVAL 5 MINUTES`` microseconds are
compared, which Catalyst and joins by bands understand; elsewhere an interval is a value
(:mod:`penstock.functions.intervals`). Months and years shift the date and keep the time of day; they are no
values, since their lengths differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.cql.expressions import functions
from penstock.cql.syntax.duration import ALIASES
from penstock.cql.syntax.errors import did_you_mean, error, text_of_node, unsupported
from penstock.expression import Call, Expression, Literal
from penstock.functions import FUNCTIONS, intervals, types
from penstock.functions.times import DISTANCE_UNITS, seconds_and_fraction
from penstock.functions.types import BIGINT, DATE, INT, STRING, coerce
from penstock.schema import INTERVAL, SECONDS, TIMESTAMP, TIMESTAMP_NTZ, sql_name

if TYPE_CHECKING:
    from penstock.cql.expressions.binder import ExpressionBinder

MONTHS = {"month": 1, "quarter": 3, "year": 12}
DAY = 86_400 * 1_000_000
FIELDS = {
    "dow": "dayofweek",
    "doy": "dayofyear",
    "week": "weekofyear",
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "months": "month",
    "years": "year",
}


@dataclass(frozen=True)
class Interval:
    """A length of time in months and microseconds; both only in text such as '1 month 2 days'."""

    months: int = 0
    micros: int = 0


def is_time_arithmetic(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether a sum or difference has a constant interval in it."""
    return any(isinstance(side.unnest(), exp.Interval) for side in (left, right))


def shifted(binder: ExpressionBinder, node: exp.Binary) -> Expression:
    """``time + INTERVAL ...``, ``INTERVAL ... + time``, ``time - INTERVAL ...``; also of intervals."""
    left, right = node.left.unnest(), node.right.unnest()
    swapped = isinstance(left, exp.Interval) and isinstance(node, exp.Add)
    time, by = (right, left) if swapped else (left, right)
    bound = binder.bind(time)
    if not types.is_temporal(bound.type) or not isinstance(by, exp.Interval):
        operator = "-" if isinstance(node, exp.Sub) else "+"
        sides = (bound, binder.bind(by))
        moved = intervals.arithmetic(operator, *sides)
        if moved is None:
            given = " and ".join(sql_name(s.type) for s in sides)
            hint = "an INTERVAL is added to a DATE, a TIMESTAMP or an INTERVAL"
            raise error(f"type mismatch: '{operator}' of {given}", node, hint)
        return moved
    interval = read(by)
    sign = -1 if isinstance(node, exp.Sub) else 1
    return _plus_micros(_plus_months(bound, sign * interval.months), sign * interval.micros)


def _plus_months(time: Expression, months: int) -> Expression:
    if months == 0:
        return time
    date = coerce(time, DATE)
    moved = Call("add_months", (date, Literal(months, INT)), DATE)
    if time.type == DATE:
        return moved
    of_day = Call("-", (micros(time), micros(date)), BIGINT)
    return _from_micros(Call("+", (micros(moved), of_day), BIGINT), time)


def _plus_micros(time: Expression, by: int) -> Expression:
    if by == 0:
        return time
    if time.type == DATE and by % DAY == 0:
        return Call("date_add", (time, Literal(by // DAY, INT)), DATE)
    return _from_micros(Call("+", (micros(time), Literal(by, BIGINT)), BIGINT), time)


def micros(time: Expression) -> Expression:
    """Microseconds since 1970 of a date or timestamp."""
    return Call("unix_micros", (coerce(time, TIMESTAMP),), BIGINT)


def _from_micros(value: Expression, like: Expression) -> Expression:
    moment = Call("timestamp_micros", (value,), TIMESTAMP)
    return moment if like.type == DATE else coerce(moment, like.type)


def lengths(binder: ExpressionBinder, sides: Sequence[exp.Expr]) -> list[Expression] | None:
    """The sides of a comparison of a difference with a constant interval, in microseconds; or None."""
    if not any(isinstance(s.unnest(), exp.Interval) for s in sides):
        return None
    found = [length for s in sides if (length := _length(binder, s.unnest())) is not None]
    return found if len(found) == len(sides) else None


def _length(binder: ExpressionBinder, node: exp.Expr) -> Expression | None:
    """The microseconds of a constant interval or a difference of two times; None of others."""
    if isinstance(node, exp.Interval):
        interval = read(node)
        if interval.months:
            raise unsupported("a comparison with months or years", node, "their lengths differ; write days")
        return Literal(interval.micros, BIGINT)
    if isinstance(node, exp.Sub) and not is_time_arithmetic(node.left, node.right):
        sides = [binder.bind(s) for s in (node.left, node.right)]
        if all(types.is_temporal(s.type) for s in sides):
            return Call("-", (micros(sides[0]), micros(sides[1])), BIGINT)
    return None


def constant(binder: ExpressionBinder, node: exp.Interval) -> Expression:
    """A constant interval as a value."""
    found = read(node)
    if found.months:
        raise unsupported("INTERVAL of months or years as a value", node, "their lengths differ; write days")
    return intervals.interval(found.micros)


def read(node: exp.Interval) -> Interval:
    """An interval as written: ``5 MINUTES``, ``'1' DAY`` or ``'1 hour 5 minutes'``."""
    value, unit = node.this, node.args.get("unit")
    if isinstance(value, exp.Literal) and isinstance(unit, exp.IntervalSpan):
        return _span(value.name, unit, node)
    if not isinstance(value, exp.Literal) or not isinstance(unit, exp.Var | None):
        raise unsupported("an INTERVAL that is not constant and of one unit", node)
    if unit is not None:
        return _of(value.name, unit.name, node)
    parts = re.findall(r"([-+]?[\d.]+)\s*([A-Za-z]+)", value.name)
    if not parts or re.sub(r"([-+]?[\d.]+)\s*([A-Za-z]+)", "", value.name).strip():
        raise error(f"'{value.name}' is not an interval", node, "write e.g. INTERVAL '1 hour 5 minutes'")
    every = [_of(number, word, node) for number, word in parts]
    return Interval(sum(i.months for i in every), sum(i.micros for i in every))


_FIELDS = ("day", "hour", "minute", "second")


def _span(text: str, unit: exp.IntervalSpan, node: exp.Expr) -> Interval:
    """``'1 02:03:04.5' DAY TO SECOND``: the fields from one unit to another, all with one sign."""
    first, last = (name.lower().removesuffix("s") for name in (unit.this.name, unit.expression.name))
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        raise unsupported(f"INTERVAL {unit.sql('spark')}", node, "write e.g. DAY TO SECOND")
    units = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    numbers = re.split(r"[ :]", text.strip().lstrip("+-"))
    if len(numbers) != len(units) or not all(re.fullmatch(r"\d+(\.\d+)?", n) for n in numbers):
        raise error(f"'{text}' is not {unit.sql('spark')}", node, "write e.g. '1 02:03:04.5' DAY TO SECOND")
    micros = sum(_of(n, u, node).micros for n, u in zip(numbers, units, strict=True))
    return Interval(micros=-micros if text.strip().startswith("-") else micros)


def _of(number: str, unit: str, node: exp.Expr) -> Interval:
    name = unit.lower()
    name = ALIASES.get(name, name.removesuffix("s"))
    if name not in MONTHS and name not in SECONDS:
        known = [f"{u}s".upper() for u in (*SECONDS, *MONTHS)]
        raise error(f"unknown unit of time '{unit}'", node, did_you_mean(unit, known))
    try:
        amount = Fraction(number) * (MONTHS[name] if name in MONTHS else SECONDS[name] * 1_000_000)
    except ValueError:
        raise error(f"'{number}' is not a number", node) from None
    if amount.denominator != 1:
        raise error(f"INTERVAL {number} {unit} is not whole", node, "one tick is one microsecond")
    return Interval(months=int(amount)) if name in MONTHS else Interval(micros=int(amount))


def extract(binder: ExpressionBinder, node: exp.Extract) -> Expression:
    """EXTRACT(field FROM time)."""
    return field_of(node.name, binder.bind(node.expression), node)


def field_of(name: str, time: Expression, node: exp.Expr) -> Expression:
    """A field of a date or timestamp by its name."""
    known = FIELDS.get(name.lower(), name.lower())
    if time.type == INTERVAL and known.removesuffix("s") in intervals.FIELDS:
        return intervals.field(known.removesuffix("s"), time)
    if known in ("second", "seconds") and types.is_temporal(time.type):
        return seconds_and_fraction(coerce(time, TIMESTAMP))
    fields = [f.name.upper() for f in FUNCTIONS.values() if f.signature == "time -> INT"]
    if known.upper() not in fields:
        raise error(
            f"unknown field '{name}' of a time", node, did_you_mean(name, fields, f"use {', '.join(fields)}")
        )
    return functions.call(known, [time], node)


WITH_UNIT = {
    "timestampdiff": "timestampdiff", "datediff": "timestampdiff", "date_diff": "timestampdiff",
    "timestampadd": "timestampadd", "dateadd": "timestampadd", "date_add": "timestampadd",
}  # fmt: skip
"""Functions that with three arguments take a unit first, as a word."""


def with_unit(binder: ExpressionBinder, node: exp.Anonymous) -> Expression:
    """``TIMESTAMPDIFF(HOUR, a, b)`` and its like."""
    unit, *others = node.expressions
    word = unit.name.lower().removesuffix("s")
    if word not in DISTANCE_UNITS:
        units = [u.upper() for u in DISTANCE_UNITS]
        hint = did_you_mean(unit.name, units, f"use one of {', '.join(units)}")
        raise error(f"unknown unit of time '{unit.name or text_of_node(unit)}'", unit, hint)
    function = WITH_UNIT[node.name.lower()]
    return functions.call(function, [Literal(word, STRING), *(binder.bind(o) for o in others)], node)


def at_time_zone(binder: ExpressionBinder, node: exp.AtTimeZone) -> Expression:
    """``t AT TIME ZONE z``: of a TIMESTAMP what clocks there show, of a TIMESTAMP_NTZ when they show it."""
    time, zone = binder.bind(node.this), binder.bind(node.args["zone"])
    if time.type == TIMESTAMP:
        return coerce(functions.call("from_utc_timestamp", [time, zone], node), TIMESTAMP_NTZ)
    return functions.call("to_utc_timestamp", [time, zone], node)
