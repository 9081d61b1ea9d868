"""More functions of dates and timestamps, by Spark's names, all in UTC."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.functions import Datum, Function, _by_row, _time_field
from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal

MICROS = {"unix_seconds": 1_000_000, "unix_millis": 1_000, "unix_micros": 1}


def _unix(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Whole units since 1970, downward before it."""
    micros = args[0].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    whole = pa.array(np.floor_divide(micros, MICROS[call.function]))
    return pc.if_else(args[0].is_valid(), whole, pa.scalar(None, pa.int64()))


def _timestamp(per_unit: int) -> Function:
    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        return pc.multiply_checked(args[0], per_unit).cast(call.type)

    return apply


def _date_trunc(call: Call, args: Sequence[Datum]) -> pa.Array:
    return _floor(args[1], _constant(call.args[0]))


def _trunc(call: Call, args: Sequence[Datum]) -> pa.Array:
    return _floor(args[0], _constant(call.args[1]))


def _constant(unit: Expression) -> str:
    if not isinstance(unit, Literal):
        raise DataError(f"the unit {unit} is not constant")
    return str(unit.value).lower()


def _floor(value: Datum, unit: str) -> Datum:
    if unit in ("year", "quarter", "month"):
        return _floor_months(value, {"year": 12, "quarter": 3, "month": 1}[unit])
    naive = value.cast(pa.timestamp("us"))
    return pc.floor_temporal(naive, unit=unit, week_starts_monday=True).cast(value.type)


def _floor_months(value: Datum, months: int) -> Datum:
    naive = value.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).astype("datetime64[M]")
    number = naive.astype(np.int64)
    floored = (number - number % months).astype("datetime64[M]").astype("datetime64[us]")
    known = value.is_valid()
    return pc.if_else(known, pa.array(floored), pa.scalar(None, pa.timestamp("us"))).cast(value.type)


def _date_add(call: Call, args: Sequence[Datum]) -> pa.Array:
    days = args[0].cast(pa.int32())
    return pc.add_checked(days, args[1]).cast(pa.date32())


def _datediff(call: Call, args: Sequence[Datum]) -> pa.Array:
    end, start = (arg.cast(pa.int32()) for arg in args)
    return pc.subtract_checked(end, start)


def _add_months(date: dt.date, months: int) -> dt.date:
    number = date.year * 12 + date.month - 1 + months
    year, month = divmod(number, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise DataError(f"{date} and {months} months is out of bounds")
    return dt.date(year, month + 1, min(date.day, calendar.monthrange(year, month + 1)[1]))


def _last_day(date: dt.date) -> dt.date:
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


def _make_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except ValueError:
        raise DataError(f"MAKE_DATE({year}, {month}, {day}) is no date") from None


def _shifted(kernel: Callable[..., pa.Array], by: int, **options: object) -> Function:
    """A field that Spark counts from another number."""
    return lambda call, args: pc.add(_time_field(lambda v: kernel(v, **options))(call, args), by)


TIME: dict[str, Function] = {
    "quarter": _time_field(pc.quarter),
    "weekofyear": _time_field(pc.iso_week),
    "dayofyear": _time_field(pc.day_of_year),
    "dayofweek": _shifted(pc.day_of_week, 1, count_from_zero=True, week_start=7),
    "weekday": _shifted(pc.day_of_week, 0, count_from_zero=True, week_start=1),
    "unix_seconds": _unix,
    "unix_millis": _unix,
    "unix_micros": _unix,
    "timestamp_seconds": _timestamp(1_000_000),
    "timestamp_millis": _timestamp(1_000),
    "timestamp_micros": _timestamp(1),
    "unix_date": lambda call, args: args[0].cast(pa.int32()),
    "date_from_unix_date": lambda call, args: args[0].cast(pa.date32()),
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_add": _date_add,
    "datediff": _datediff,
    "add_months": _by_row(_add_months),
    "last_day": _by_row(_last_day),
    "make_date": _by_row(_make_date),
}
