"""Functions of dates and timestamps, with Spark's names and results.

There are no interval values: a timestamp is converted to microseconds and back with ``unix_micros`` and
``timestamp_micros``.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions import types
from penstock.functions.kernels import Datum, Kernel, where_known
from penstock.functions.registry import Theme
from penstock.functions.types import BIGINT, DATE, INT, STRING, coerce
from penstock.schema import TIMESTAMP

TIMES = Theme("Dates and times", "All are in UTC. `EXTRACT(field FROM t)` is the function of that name.")

# Fields.


def _field(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    """A field of a date or timestamp, read in UTC."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        (value,) = args
        if pa.types.is_timestamp(value.type) and value.type.tz is not None:
            value = value.cast(pa.timestamp(value.type.unit, "UTC")).cast(pa.timestamp(value.type.unit))
        return kernel(value, **options)

    return apply


def _day_of_week(value: Datum) -> pa.Array:
    return pc.add(pc.day_of_week(value, count_from_zero=True, week_start=7), 1)


def _clock_field(name: str) -> Callable[[Expression], Expression]:
    """A field of the time of day; a date is its midnight."""
    return lambda time: Call(name, (coerce(time, TIMESTAMP) if time.type == DATE else time,), INT)


for _name, _doc, _example, _kernel in (
    ("year", "year", "YEAR(DATE '2024-02-29') -> 2024", _field(pc.year)),
    ("quarter", "quarter, 1 to 4", "QUARTER(DATE '2024-02-29') -> 1", _field(pc.quarter)),
    ("month", "month, 1 to 12", "MONTH(DATE '2024-02-29') -> 2", _field(pc.month)),
    ("weekofyear", "week of ISO 8601", "WEEKOFYEAR(DATE '2024-02-29') -> 9", _field(pc.iso_week)),
    ("dayofweek", "1 is Sunday", "DAYOFWEEK(DATE '2024-02-29') -> 5", _field(_day_of_week)),
    ("weekday", "0 is Monday", "WEEKDAY(DATE '2024-02-29') -> 3",
     _field(pc.day_of_week, count_from_zero=True, week_start=1)),
    ("dayofyear", "day of the year", "DAYOFYEAR(DATE '2024-02-29') -> 60", _field(pc.day_of_year)),
):  # fmt: skip
    TIMES.define(_name, "time -> INT", _doc, _example, _kernel)
TIMES.define("day", "time -> INT", "day of the month", "DAY(DATE '2024-02-29') -> 29", _field(pc.day),
             aliases=("dayofmonth",))  # fmt: skip
TIMES.define("hour", "time -> INT", "hour", "HOUR(TIMESTAMP '2024-02-29 10:30:05') -> 10", _field(pc.hour),
             rule=_clock_field("hour"))  # fmt: skip
TIMES.define("minute", "time -> INT", "minute", "MINUTE(TIMESTAMP '2024-02-29 10:30:05') -> 30",
             _field(pc.minute), rule=_clock_field("minute"))  # fmt: skip
TIMES.define("second", "time -> INT", "whole second; `EXTRACT(SECOND FROM t)` has the fraction too",
             "SECOND(TIMESTAMP '2024-02-29 10:30:05') -> 5",
             _field(pc.second), rule=_clock_field("second"))  # fmt: skip


def seconds_and_fraction(moment: Expression) -> Expression:
    """EXTRACT(SECOND FROM ts): with microseconds, DECIMAL(8, 6)."""
    minute, million = Literal(60_000_000, BIGINT), Literal(1_000_000, BIGINT)
    micros = Call("pmod", (Call("unix_micros", (moment,), BIGINT), minute), BIGINT)
    digits = pa.decimal128(8, 0)
    quotient = types.decimal_arithmetic("/", digits, digits)
    ratio = Call("/", (coerce(micros, digits), coerce(million, digits)), quotient)
    return Call("cast", (ratio,), pa.decimal128(8, 6))


# Rounding down to a unit, which must be constant.

_DATE_UNITS = {"year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter"}
_DATE_UNITS |= {"month": "month", "mon": "month", "mm": "month", "week": "week"}
_CLOCK_UNITS = ("day", "hour", "minute", "second", "millisecond", "microsecond")
_TIME_UNITS = _DATE_UNITS | {unit: unit for unit in _CLOCK_UNITS} | {"dd": "day"}


def _unit(unit: Expression, units: dict[str, str]) -> Literal | None:
    known = isinstance(unit, Literal) and isinstance(unit.value, str) and units.get(unit.value.lower())
    return Literal(known, STRING) if known else None


def _floor(unit_at: int, value_at: int) -> Kernel:
    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        unit, value = call.args[unit_at], args[value_at]
        if not isinstance(unit, Literal):
            raise DataError(f"the unit {unit} is not constant")
        if unit.value in ("year", "quarter", "month"):
            return _floor_months(value, {"year": 12, "quarter": 3, "month": 1}[unit.value])
        naive = value.cast(pa.timestamp("us"))
        return pc.floor_temporal(naive, unit=unit.value, week_starts_monday=True).cast(value.type)

    return apply


def _floor_months(value: Datum, months: int) -> Datum:
    naive = value.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).astype("datetime64[M]")
    number = naive.astype(np.int64)
    floored = (number - number % months).astype("datetime64[M]").astype("datetime64[us]")
    return where_known([value], pa.array(floored)).cast(value.type)


@TIMES.by_rule("date_trunc", "unit, TIMESTAMP -> TIMESTAMP",
               "the start of the unit, such as 'hour' or 'month'",
               "DATE_TRUNC('hour', '2024-02-29 10:30:05') -> TIMESTAMP '2024-02-29 10:00:00'",
               kernel=_floor(0, 1))  # fmt: skip
def _date_trunc(unit: Expression, moment: Expression) -> Expression | None:
    known = _unit(unit, _TIME_UNITS)
    return known and Call("date_trunc", (known, moment), TIMESTAMP)


@TIMES.by_rule("trunc", "DATE, unit -> DATE",
               "the first day of the unit: 'week', 'month', 'quarter' or 'year'",
               "TRUNC(DATE '2024-02-29', 'month') -> DATE '2024-02-01'", kernel=_floor(1, 0))  # fmt: skip
def _trunc(date: Expression, unit: Expression) -> Expression | None:
    known = _unit(unit, _DATE_UNITS)
    return known and Call("trunc", (date, known), DATE)


# Dates.


@TIMES.by_column("date_add", "DATE, INT -> DATE", "days later; also written `date + n`",
                 "DATE_ADD(DATE '2024-02-29', 1) -> DATE '2024-03-01'",
                 aliases=("dateadd",), raises=True)  # fmt: skip
def _date_add(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.add_checked(args[0].cast(pa.int32()), args[1]).cast(pa.date32())


@TIMES.by_rule("date_sub", "DATE, INT -> DATE", "days earlier; also written `date - n`",
               "DATE_SUB(DATE '2024-03-01', 1) -> DATE '2024-02-29'")  # fmt: skip
def _date_sub(date: Expression, days: Expression) -> Expression:
    return Call("date_add", (date, Call("negative", (days,), INT)), DATE)


@TIMES.by_column("datediff", "DATE, DATE -> INT", "days from the second to the first",
                 "DATEDIFF('2024-03-01', '2024-02-01') -> 29", aliases=("date_diff",))  # fmt: skip
def _datediff(call: Call, args: Sequence[Datum]) -> pa.Array:
    end, start = (arg.cast(pa.int32()) for arg in args)
    return pc.subtract_checked(end, start)


@TIMES.by_row("add_months", "DATE, INT -> DATE", "months later, at most at the month's end",
              "ADD_MONTHS(DATE '2024-01-31', 1) -> DATE '2024-02-29'", raises=True)  # fmt: skip
def _add_months(date: dt.date, months: int) -> dt.date:
    number = date.year * 12 + date.month - 1 + months
    year, month = divmod(number, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise DataError(f"ADD_MONTHS({date}, {months}) is out of range; years are 1 to 9999")
    return dt.date(year, month + 1, min(date.day, calendar.monthrange(year, month + 1)[1]))


@TIMES.by_row("last_day", "DATE -> DATE", "the last day of the month",
              "LAST_DAY('2024-02-10') -> DATE '2024-02-29'")  # fmt: skip
def _last_day(date: dt.date) -> dt.date:
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


@TIMES.by_row("make_date", "INT, INT, INT -> DATE", "the date of a year, month and day",
              "MAKE_DATE(2024, 1, 31) -> DATE '2024-01-31'", raises=True)  # fmt: skip
def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except ValueError:
        raise DataError(f"MAKE_DATE({year}, {month}, {day}) is not a date") from None


TIMES.define("unix_date", "DATE -> INT", "days since 1970-01-01", "UNIX_DATE('1970-01-03') -> 2",
             lambda call, args: args[0].cast(pa.int32()))  # fmt: skip
TIMES.define("date_from_unix_date", "INT -> DATE", "the date that many days after 1970-01-01",
             "DATE_FROM_UNIX_DATE(2) -> DATE '1970-01-03'",
             lambda call, args: args[0].cast(pa.date32()))  # fmt: skip

# Timestamps and their distance from 1970.


def _since_1970(micros_per_unit: int) -> Kernel:
    """Whole units since 1970, rounded down."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        micros = args[0].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return where_known(args, pa.array(np.floor_divide(micros, micros_per_unit)))

    return apply


def _after_1970(micros_per_unit: int) -> Kernel:
    return lambda call, args: pc.multiply_checked(args[0], micros_per_unit).cast(call.type)


for _unit_name, _micros, _text in (
    ("seconds", 1_000_000, "1970-01-01 00:00:01"),
    ("millis", 1_000, "1970-01-01 00:00:00.001"),
    ("micros", 1, "1970-01-01 00:00:00.000001"),
):
    TIMES.define(f"unix_{_unit_name}", "TIMESTAMP -> BIGINT", f"{_unit_name} since 1970",
                 f"UNIX_{_unit_name.upper()}('{_text}') -> 1L", _since_1970(_micros))  # fmt: skip
    TIMES.define(f"timestamp_{_unit_name}", "BIGINT -> TIMESTAMP",
                 f"the time that many {_unit_name} after 1970",
                 f"TIMESTAMP_{_unit_name.upper()}(1) -> TIMESTAMP '{_text}'", _after_1970(_micros),
                 raises=True)  # fmt: skip


@TIMES.by_row("make_timestamp", "INT, INT, INT, INT, INT, number -> TIMESTAMP",
              "the time of a year, month, day, hour, minute and second",
              "MAKE_TIMESTAMP(2024, 1, 31, 10, 0, 5.25) -> TIMESTAMP '2024-01-31 10:00:05.25'",
              raises=True)  # fmt: skip
def _make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: Any
) -> dt.datetime | None:
    if not math.isfinite(second):
        return None  # as in Spark, where a DECIMAL of it is NULL
    whole, micros = divmod(int(Decimal(str(second)) * 1_000_000), 1_000_000)
    # A second of 60 is the first of the next minute.
    late = whole == 60 and not micros
    try:
        moment = dt.datetime(year, month, day, hour, minute, 0 if late else whole, micros, dt.UTC)
    except ValueError:
        given = f"{year}, {month}, {day}, {hour}, {minute}, {second}"
        raise DataError(f"MAKE_TIMESTAMP({given}) is not a time") from None
    return moment + dt.timedelta(minutes=1) if late else moment


# Distances in a unit. CQL writes the unit as a word: TIMESTAMPDIFF(HOUR, a, b).

_UNIT_MICROS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000}
_UNIT_MICROS |= {"hour": 3_600_000_000, "day": 86_400_000_000, "week": 7 * 86_400_000_000}
_UNIT_MICROS["dayofyear"] = _UNIT_MICROS["day"]
_UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12}
DISTANCE_UNITS = {unit: unit for unit in (*_UNIT_MICROS, *_UNIT_MONTHS)}


def _difference(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Whole units from the first time to the second, towards 0; months are those of the calendar."""
    unit, times = call.args[0], args[1:]
    assert isinstance(unit, Literal)
    length = next(len(t) for t in times if isinstance(t, pa.Array))
    columns = [t if isinstance(t, pa.Array) else pa.repeat(t, length) for t in times]
    start, end = (t.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) for t in columns)
    per_unit = _UNIT_MICROS.get(unit.value)
    if per_unit is None:
        distance, per_unit = _months(start, end), _UNIT_MONTHS[unit.value]
    else:
        distance = end - start
    units = np.abs(distance) // per_unit * np.sign(distance)
    return where_known(columns, pa.array(units))


def _months(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whole months of the calendar: the last one counts if its day and time of day are reached."""
    months, rest = [], []
    for micros in (start, end):
        moment = micros.astype("datetime64[us]")
        month = moment.astype("datetime64[M]")
        months.append(month.astype(np.int64))
        rest.append((moment - month.astype("datetime64[us]")).astype(np.int64))
    whole = months[1] - months[0]
    whole -= (whole > 0) & (rest[1] < rest[0])
    return whole + ((whole < 0) & (rest[1] > rest[0]))


def _spark_difference(call: Call, args: list[str]) -> str:
    unit, start, end = args
    return f"timestampdiff({unit.strip(chr(39))}, {start}, {end})"


@TIMES.by_rule("timestampdiff", "unit, TIMESTAMP, TIMESTAMP -> BIGINT",
               "whole units from the first time to the second, written with a word for the unit; also "
               "`DATEDIFF(unit, a, b)`",
               "TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-01-31 10:00:00', '2024-03-31 09:00:00') -> 1L",
               kernel=_difference, spark=_spark_difference)  # fmt: skip
def _timestampdiff(unit: Expression, start: Expression, end: Expression) -> Expression | None:
    known = _unit(unit, DISTANCE_UNITS)
    return known and Call("timestampdiff", (known, start, end), BIGINT)


@TIMES.by_rule("timestampadd", "unit, INT, TIMESTAMP -> TIMESTAMP",
               "so many units later, written with a word for the unit; also `DATEADD(unit, n, t)`",
               "TIMESTAMPADD(HOUR, 2, TIMESTAMP '2024-01-31 23:00:00') -> TIMESTAMP '2024-02-01 01:00:00'",
               )  # fmt: skip
def _timestampadd(unit: Expression, count: Expression, moment: Expression) -> Expression | None:
    known = _unit(unit, DISTANCE_UNITS)
    if known is None:
        return None
    since = Call("unix_micros", (moment,), BIGINT)
    if known.value in _UNIT_MICROS:
        by = Call("*", (coerce(count, BIGINT), Literal(_UNIT_MICROS[known.value], BIGINT)), BIGINT)
        return Call("timestamp_micros", (Call("+", (since, by), BIGINT),), TIMESTAMP)
    months = Call("*", (count, Literal(_UNIT_MONTHS[known.value], INT)), INT)
    day = coerce(moment, DATE)
    moved = Call("add_months", (day, months), DATE)
    new, old = (Call("unix_micros", (coerce(d, TIMESTAMP),), BIGINT) for d in (moved, day))
    of_day = Call("-", (since, old), BIGINT)
    return Call("timestamp_micros", (Call("+", (new, of_day), BIGINT),), TIMESTAMP)


# Time zones.


def zone_of(name: str) -> ZoneInfo:
    """The time zone of a name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DataError(f"unknown time zone {name!r}; write e.g. 'Europe/Berlin'") from None


@TIMES.by_row("from_utc_timestamp", "TIMESTAMP, STRING -> TIMESTAMP",
              "what clocks of a time zone show at a time; also `t AT TIME ZONE z`, a TIMESTAMP_NTZ",
              "FROM_UTC_TIMESTAMP('2024-07-01 10:00:00', 'Europe/Berlin') -> TIMESTAMP '2024-07-01 12:00:00'",
              raises=True)  # fmt: skip
def _from_utc_timestamp(moment: dt.datetime, zone: str) -> dt.datetime:
    return moment.astimezone(zone_of(zone)).replace(tzinfo=dt.UTC)


@TIMES.by_row("to_utc_timestamp", "TIMESTAMP, STRING -> TIMESTAMP",
              "the time at which clocks of a time zone show this, the earlier of two; also "
              "`t AT TIME ZONE z` of a TIMESTAMP_NTZ",
              "TO_UTC_TIMESTAMP('2024-07-01 12:00:00', 'Europe/Berlin') -> TIMESTAMP '2024-07-01 10:00:00'",
              raises=True)  # fmt: skip
def _to_utc_timestamp(shown: dt.datetime, zone: str) -> dt.datetime:
    return shown.replace(tzinfo=zone_of(zone)).astimezone(dt.UTC)
