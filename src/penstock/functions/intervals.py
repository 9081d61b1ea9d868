"""INTERVAL DAY TO SECOND as a value: a whole number of microseconds, Arrow's ``duration``.

Days have 24 hours, since all times are in UTC. What Spark computes in the time zone of its session (a sum or
difference of times) and what it rounds is never left to Catalyst; comparisons are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal, shown
from penstock.functions import types
from penstock.functions.kernels import Datum, by_row, to_numpy, where_known
from penstock.functions.registry import Theme
from penstock.functions.types import BIGINT, DATE, DOUBLE, INT, coerce
from penstock.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

INTERVALS = Theme(
    "Intervals",
    "An INTERVAL DAY TO SECOND is a difference of two times, or a constant such as `INTERVAL 5 MINUTES`. "
    "It is added to and subtracted from times and intervals, multiplied and divided by numbers, negated and "
    "compared; MIN, MAX, SUM and AVG take it. A day has 24 hours.",
)
MICROSECOND = dt.timedelta(microseconds=1)
_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}


def interval(micros: int) -> Literal:
    """A constant interval."""
    return Literal(dt.timedelta(microseconds=micros), INTERVAL)


def micros_of(length: Expression) -> Expression:
    """The microseconds of an interval, as BIGINT."""
    if isinstance(length, Literal):
        return Literal(None if length.value is None else length.value // MICROSECOND, BIGINT)
    return Call("cast", (length,), BIGINT)


def difference(micros: Expression) -> Expression | None:
    """The difference of two times whose microseconds these are, as a comparison with a constant has them."""
    match micros:
        case Call("-", (Call("unix_micros", (left,)), Call("unix_micros", (right,)))):
            return arithmetic("-", left, right)
    return None


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression | None:
    """An operation on times and intervals, or None if it is none."""
    sides = left.type, right.type
    if operator == "-" and all(map(types.is_temporal, sides)):
        type_ = TIMESTAMP if TIMESTAMP in sides else TIMESTAMP_NTZ
        return Call("-", (coerce(left, type_), coerce(right, type_)), INTERVAL)
    if INTERVAL not in sides:
        return None
    if operator == "+" and types.is_temporal(right.type):
        left, right = right, left
    if operator in ("+", "-"):
        return _moved(operator, left, right)
    if operator == "*" and types.is_numeric(left.type):
        left, right = right, left
    if operator in ("*", "/") and left.type == INTERVAL and types.is_numeric(right.type):
        return Call(operator, (left, coerce(right, _factor(right.type))), INTERVAL)
    return None


def _moved(operator: str, left: Expression, right: Expression) -> Expression | None:
    if right.type not in (INTERVAL, types.NULL):
        return None
    if left.type == types.NULL or right.type == types.NULL:
        known = right if left.type == types.NULL else left
        return Literal(None, known.type)
    left = coerce(left, TIMESTAMP) if left.type == DATE else left
    fits = left.type == INTERVAL or types.is_timestamp(left.type)
    return Call(operator, (left, right), left.type) if fits else None


def _factor(type_: pa.DataType) -> pa.DataType:
    if types.is_integer(type_):
        return BIGINT
    return type_ if types.is_decimal(type_) else DOUBLE


def scaled(call: Call, args: Sequence[Datum]) -> pa.Array:
    """An interval times or divided by a number, rounded half up as Spark rounds it."""
    length, factor = args[0].cast(BIGINT), args[1]
    if pa.types.is_decimal(factor.type):
        whole = by_row(partial(_scaled_by_decimal, call.function))
        return whole(Call(call.function, (), BIGINT), (length, factor)).cast(INTERVAL)
    if pa.types.is_integer(factor.type):
        micros = pc.multiply_checked(length, factor) if call.function == "*" else _quotient(length, factor)
        return micros.cast(INTERVAL)
    a, b = (to_numpy(pc.fill_null(arg, pa.scalar(1, arg.type))) for arg in (length, factor))
    with np.errstate(all="ignore"):
        exact = a * b if call.function == "*" else a / b
        whole = np.trunc(exact)
        rounded = whole + np.copysign(np.abs(exact - whole) >= 0.5, exact)
    if not (np.isfinite(rounded) & (np.abs(rounded) < 2.0**63)).all():
        raise DataError(f"{shown(call)} cannot be computed: it is out of range")
    return where_known(args, pa.array(rounded.astype(np.int64))).cast(INTERVAL)


def _quotient(length: Datum, by: Datum) -> pa.Array:
    """Whole numbers divided, rounded half up."""
    a, b = np.broadcast_arrays(*(to_numpy(pc.fill_null(x, pa.scalar(1, BIGINT))) for x in (length, by)))
    quotient = pc.divide_checked(pa.array(a), pa.array(b)).to_numpy(zero_copy_only=False)
    rest = np.abs(np.fmod(a, b)).view(np.uint64)
    away = rest >= np.abs(b).view(np.uint64) - rest
    sign = np.where((a < 0) == (b < 0), 1, -1)
    return where_known((length, by), pa.array(quotient + np.where(away, sign, 0)))


def _scaled_by_decimal(operator: str, micros: int, factor: Decimal) -> int:
    exact = micros * factor if operator == "*" else Decimal(micros) / factor
    whole = int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    if not -(1 << 63) <= whole < 1 << 63:
        raise OverflowError
    return whole


def negated(call: Call, args: Sequence[Datum]) -> pa.Array:
    """An interval the other way, or without its sign."""
    kernel = pc.abs_checked if call.function == "abs" else pc.negate_checked
    return kernel(args[0].cast(BIGINT)).cast(INTERVAL)


def of_intervals(kernel: Callable[..., pa.Array], other: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """A kernel that has another for intervals."""
    return lambda call, args: (other if call.type == INTERVAL else kernel)(call, args)


def to_text(micros: int) -> str:
    """As Spark shows it: ``INTERVAL '1 02:03:04.5' DAY TO SECOND``."""
    sign, whole = "-" if micros < 0 else "", abs(micros)
    days, rest = divmod(whole, _MICROS["day"])
    hours, rest = divmod(rest, _MICROS["hour"])
    minutes, rest = divmod(rest, _MICROS["minute"])
    seconds, part = divmod(rest, _MICROS["second"])
    fraction = f".{part:06}".rstrip("0").rstrip(".")
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}{fraction}' DAY TO SECOND"


FIELDS = {"day": None, "hour": "day", "minute": "hour", "second": "minute"}
"""The fields of an interval, and the next larger one."""


def field(name: str, length: Expression) -> Expression:
    """A field of an interval; all have its sign, and seconds their fraction."""
    micros, larger = micros_of(length), FIELDS[name]
    if larger is not None:
        micros = Call("%", (micros, Literal(_MICROS[larger], BIGINT)), BIGINT)
    if name == "second":
        exact = coerce(micros, pa.decimal128(20, 0))
        million = Literal(Decimal("0.000001"), pa.decimal128(6, 6))
        product = Call("*", (exact, million), types.decimal_arithmetic("*", exact.type, million.type))
        return coerce(product, pa.decimal128(8, 6))
    return coerce(Call("div", (micros, Literal(_MICROS[name], BIGINT)), BIGINT), INT)


@INTERVALS.by_rule("make_dt_interval", "[BIGINT, BIGINT, BIGINT, DECIMAL] -> INTERVAL DAY TO SECOND",
                   "an interval of days, hours, minutes and seconds, of which the last may be left out",
                   "MAKE_DT_INTERVAL(0, 1, 30, 2.5) -> INTERVAL '1 hour 30 minutes 2.5 seconds'",
                   spark=None)  # fmt: skip
def _make(*parts: Expression) -> Expression | None:
    total: Expression = Literal(0, BIGINT)
    for part, unit in zip(parts, _MICROS.values(), strict=False):
        if not types.is_numeric(part.type) and part.type != types.NULL:
            return None
        if unit == _MICROS["second"] and not types.is_integer(part.type):
            exact = coerce(part, pa.decimal128(18, 6))
            million = Literal(Decimal(unit), pa.decimal128(7, 0))
            product = Call("*", (exact, million), types.decimal_arithmetic("*", exact.type, million.type))
            amount = coerce(product, BIGINT)
        else:
            amount = Call("*", (coerce(part, BIGINT), Literal(unit, BIGINT)), BIGINT)
        total = Call("+", (total, amount), BIGINT)
    return Call("cast", (total,), INTERVAL)
