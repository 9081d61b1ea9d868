"""CAST with Spark's ANSI rules and Spark's string forms.

Every conversion is found by the *families* of its two types. Numbers and times use Arrow kernels; strings
that Arrow does not parse are parsed once per distinct value. A value that cannot be converted raises
:class:`~penstock.errors.DataError` with the value. Times of day are in UTC.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call
from penstock.functions.intervals import MICROSECOND, to_text
from penstock.functions.kernels import Datum
from penstock.functions.registry import Theme
from penstock.schema import sql_name

CASTS = Theme("Casts", "As ANSI SQL has them: what cannot be converted is an error.")

WIDE = Context(prec=80, rounding=ROUND_HALF_UP)
"""Decimal arithmetic wide enough that nothing is rounded before the result is."""


def family(type_: pa.DataType) -> str:
    """The kind of type that decides how a cast is computed."""
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_floating(type_):
        return "float"
    if pa.types.is_decimal(type_):
        return "decimal"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    return "timestamp" if pa.types.is_timestamp(type_) else sql_name(type_).lower()


def cannot_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of ``source`` has a value of ``target``."""
    kinds = family(source), family(target)
    if source == target or kinds[1] == "string" or kinds[0] in ("boolean", "null"):
        return True
    if kinds == ("integer", "integer"):
        return bool(source.bit_width <= target.bit_width)
    return kinds in {
        ("integer", "float"), ("decimal", "float"), ("float", "float"), ("timestamp", "timestamp"),
        ("date", "timestamp"), ("timestamp", "date"),
    }  # fmt: skip


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array's values as ``target``.

    >>> cast(pa.array([1.0, 1e7, None]), pa.string()).to_pylist()
    ['1.0', '1.0E7', None]
    """
    if array.type == target:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    kinds = family(array.type), family(target)
    convert = _CASTS.get(kinds)
    if convert is None:
        raise DataError(f"cannot cast {sql_name(array.type)} to {sql_name(target)}")
    return convert(array, target)


def _fail(value: Any, target: pa.DataType) -> DataError:
    shown = repr(value) if isinstance(value, str) else value
    return DataError(f"cannot cast {shown} to {sql_name(target)}: it is not a value of that type")


def _each(function: Callable[[Any], Any]) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    """A cast that applies a Python function to each value."""

    def convert(array: pa.Array, target: pa.DataType) -> pa.Array:
        return pa.array([None if v is None else function(v) for v in array.to_pylist()], target)

    return convert


def _each_distinct(
    function: Callable[[Any, pa.DataType], Any],
) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    """A cast that applies a Python function of value and target once per distinct value."""

    def convert(array: pa.Array, target: pa.DataType) -> pa.Array:
        encoded = array.dictionary_encode()
        values = [None if v is None else one(v, target) for v in encoded.dictionary.to_pylist()]
        return pa.array(values, target).take(encoded.indices)

    def one(value: Any, target: pa.DataType) -> Any:
        try:
            return function(value, target)
        except ArithmeticError:
            raise _fail(value, target) from None

    return convert


def _plain(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target, safe=False)


def _exactly(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast that Arrow checks; on failure the first value that does not fit is named."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        for value in array.drop_null():
            try:
                value.cast(target)
            except pa.ArrowInvalid:
                raise _fail(value.as_py(), target) from None
        raise


# From numbers.


def _float_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    whole = pc.trunc(array)
    values = whole.drop_null().to_numpy(zero_copy_only=False)
    top = 2.0 ** (target.bit_width - 1)
    bad = values[~((values >= -top) & (values < top))]
    if len(bad):
        raise _fail(bad[0], target)
    return whole.cast(target)


def to_decimal(value: Decimal, target: pa.DataType) -> Decimal:
    """The value rounded half up to the target's scale, or an error if it needs more digits."""
    rounded = WIDE.quantize(value, Decimal(1).scaleb(-target.scale))
    if len(rounded.as_tuple().digits) > target.precision and rounded != 0:
        raise _fail(value, target)
    return rounded


def _number_to_decimal(value: Any, target: pa.DataType) -> Decimal | None:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return to_decimal(number, target) if number.is_finite() else None


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target.precision - target.scale >= len(str(1 << (array.type.bit_width - 1))):
        return array.cast(target)
    return _each_distinct(_number_to_decimal)(array, target)


def _decimal_to_integer(value: Decimal, target: pa.DataType) -> int:
    whole = int(value.to_integral_value(ROUND_DOWN))
    if not -(1 << (target.bit_width - 1)) <= whole < 1 << (target.bit_width - 1):
        raise _fail(value, target)
    return whole


_EXACT: dict[pa.DataType, tuple[Any, int, int]] = {
    pa.float32(): (np.float32, 24, 10),
    pa.float64(): (np.float64, 53, 22),
}
"""NumPy's type, and below which power of two, and up to which power of ten, every whole number is exact."""


def _decimal_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The nearest number; Arrow's own cast is off by a bit for some."""
    if not len(array):
        return pa.array([], target)
    kind, bits, powers = _EXACT[target]
    known, wide = (
        array.is_valid().to_numpy(zero_copy_only=False),
        array.cast(pa.decimal128(38, array.type.scale)),
    )
    words = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[wide.offset : wide.offset + len(wide)].T
    found = low.astype(kind) / kind(10.0 ** min(array.type.scale, powers))  # one rounding of exact numbers
    hard = known & ((high != low >> 63) | (np.abs(low) >= 1 << bits) | (array.type.scale > powers))
    for row in np.flatnonzero(hard):
        found[row] = _nearest(array[row].as_py(), kind)
    return pa.array(found, target, mask=~known)


def _nearest(value: Decimal, kind: type[np.floating[Any]]) -> np.floating[Any]:
    double = float(value)
    rest = WIDE.subtract(value, Decimal(double)) if kind is np.float32 else Decimal(0)
    if rest and not np.float64(double).view(np.int64) & 1:
        # Rounded to odd first, so that a value beside the middle of two FLOATs is not taken for it.
        double = math.nextafter(double, math.copysign(math.inf, rest))
    return kind(double)


def _to_boolean(array: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.not_equal(array, pa.scalar(0, array.type))


def _boolean_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    return cast(array.cast(pa.int32()), target)


def double_text(value: float) -> str:
    """A double as Java writes it: ``1.0``, ``1.0E10``, ``NaN``, ``-Infinity``."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f")
    two = f"{value:.1e}"  # where one digit would do, Java takes the nearest number of two: 4.9E-324
    number = Decimal(two if float(two) == value else repr(value))
    sign, digits, exponent = number.normalize().as_tuple()
    text = "".join(map(str, digits))
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _shortest(value: np.float32) -> float:
    two = f"{value:.1e}"
    return float(two if np.float32(two) == value else str(value))


def _float_to_string(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == pa.float32():
        shortest = [None if v is None else _shortest(np.float32(v)) for v in array.to_pylist()]
        array = pa.array(shortest, pa.float64())
    return _each(double_text)(array, target)


# From and to times.

_SECOND = 1_000_000


def _microseconds(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())


def _timestamp_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.divide(_microseconds(array).cast(pa.float64()), float(_SECOND)).cast(target)


def _timestamp_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    micros = _microseconds(array)
    values = micros.fill_null(0).to_numpy() // _SECOND
    return _exactly(pa.array(values, mask=micros.is_null().to_numpy(zero_copy_only=False)), target)


def _integer_to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    return (
        pc.multiply_checked(array.cast(pa.int64()), _SECOND).cast(pa.timestamp("us", target.tz)).cast(target)
    )


def _float_to_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    micros = pc.multiply(array.cast(pa.float64()), float(_SECOND))
    return cast(micros, pa.int64()).cast(pa.timestamp("us", target.tz)).cast(target)


def _timestamp_to_string(array: pa.Array, target: pa.DataType) -> pa.Array:
    naive = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.timestamp("us"))
    text = pc.strftime(naive, format="%Y-%m-%d %H:%M:%S")
    return pc.replace_substring_regex(text, r"\.?0*$", "").cast(target) if len(text) else text


_ZONE = r"(?:\s*(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?))?"
_DATE = re.compile(r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<rest>[ T].*)?)?)?$")
_TIME = re.compile(r"(?P<h>\d{1,2}):(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d{0,9}))?)?" + _ZONE + "$")


def _parse_date(text: str, target: pa.DataType) -> dt.date:
    found = _DATE.match(text.strip())
    try:
        if found is None:
            raise ValueError
        return dt.date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    except ValueError:
        raise _fail(text, target) from None


def _parse_timestamp(text: str, target: pa.DataType) -> dt.datetime:
    found = _DATE.match(text.strip())
    day = _parse_date(text, target)
    rest = (found["rest"] or "").strip(" T") if found else ""
    moment = dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
    try:
        moment += _time_of_day(rest, keep_zone=target.tz is not None)
    except ValueError:
        raise _fail(text, target) from None
    return moment if target.tz is not None else moment.replace(tzinfo=None)


def _time_of_day(text: str, keep_zone: bool) -> dt.timedelta:
    """The time since midnight UTC of the text's time of day."""
    if not text:
        return dt.timedelta(0)
    found = _TIME.match(text)
    if found is None:
        raise ValueError
    clock = dt.time(int(found["h"]), int(found["m"]), int(found["s"] or 0))
    micros = int((found["f"] or "").ljust(6, "0")[:6])
    offset = _offset(found["zone"]) if keep_zone else dt.timedelta(0)
    return dt.timedelta(0, clock.hour * 3600 + clock.minute * 60 + clock.second, micros) - offset


def _offset(zone: str | None) -> dt.timedelta:
    if zone is None or zone in ("Z", "UTC", "GMT"):
        return dt.timedelta(0)
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    size = dt.timedelta(hours=int(hours), minutes=int(minutes))
    return -size if zone[0] == "-" else size


# From strings.

_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}
_BLANKS = "".join(map(chr, range(33))) + "\x7f"
_INTEGER = r"^[+-]?[0-9]+$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = {"nan": "nan", "inf": "inf", "infinity": "inf"}


def _parse_boolean(text: str, target: pa.DataType) -> bool:
    word = text.strip(_BLANKS).lower()
    if word not in _TRUE | _FALSE:
        raise _fail(text, target)
    return word in _TRUE


def _parse_decimal(text: str, target: pa.DataType) -> Decimal:
    word = text.strip(_BLANKS)
    if not re.match(_FLOAT, word):
        raise _fail(text, target)
    return to_decimal(Decimal(word), target)


def _first_unlike(array: pa.Array, trimmed: pa.Array, pattern: str) -> str | None:
    """The first text that does not match the pattern, if any."""
    wrong = pc.invert(pc.match_substring_regex(trimmed, pattern))
    return array.filter(wrong)[0].as_py() if pc.any(wrong).as_py() else None


def _string_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(array, characters=_BLANKS)
    wrong = _first_unlike(array, trimmed, _INTEGER)
    if wrong is not None:
        raise _fail(wrong, target)
    return _exactly(pc.utf8_ltrim(trimmed, characters="+"), target)


def _string_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(array, characters=_BLANKS)
    if _first_unlike(array, trimmed, _FLOAT) is None:
        return pc.utf8_ltrim(trimmed, characters="+").cast(target)
    return _each_distinct(_parse_float)(array, target)


def _parse_float(text: str, target: pa.DataType) -> float:
    word = text.strip(_BLANKS).lower()
    sign, body = (word[0], word[1:]) if word[:1] in ("+", "-") else ("", word)
    if body in _SPECIAL and not (body == "nan" and sign):
        return float(sign + _SPECIAL[body])
    number = word[:-1] if word[-1:] in ("d", "f") else word
    if not re.match(_FLOAT, number):
        raise _fail(text, target)
    return float(number)


_CASTS: dict[tuple[str, str], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    ("integer", "integer"): _exactly,
    ("integer", "float"): _plain,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "string"): _plain,
    ("integer", "boolean"): _to_boolean,
    ("integer", "timestamp"): _integer_to_timestamp,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _plain,
    ("float", "decimal"): _each_distinct(_number_to_decimal),
    ("float", "string"): _float_to_string,
    ("float", "boolean"): _to_boolean,
    ("float", "timestamp"): _float_to_timestamp,
    ("decimal", "integer"): _each_distinct(_decimal_to_integer),
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _each_distinct(_number_to_decimal),
    ("decimal", "string"): _each(lambda value: format(value, "f")),
    ("decimal", "boolean"): _to_boolean,
    ("boolean", "integer"): _plain,
    ("boolean", "float"): lambda array, target: array.cast(pa.int8()).cast(target),
    ("boolean", "decimal"): _boolean_to_decimal,
    ("boolean", "string"): _plain,
    ("string", "integer"): _string_to_integer,
    ("string", "float"): _string_to_float,
    ("string", "decimal"): _each_distinct(_parse_decimal),
    ("string", "string"): _plain,
    ("string", "binary"): _plain,
    ("binary", "string"): _each(lambda value: value.decode("utf-8", "replace")),
    ("string", "boolean"): _each_distinct(_parse_boolean),
    ("string", "date"): _each_distinct(_parse_date),
    ("string", "timestamp"): _each_distinct(_parse_timestamp),
    ("date", "string"): _plain,
    ("date", "timestamp"): _plain,
    ("interval day to second", "string"): _each(lambda value: to_text(value // MICROSECOND)),
    ("interval day to second", "integer"): _plain,
    ("integer", "interval day to second"): _plain,
    ("timestamp", "string"): _timestamp_to_string,
    ("timestamp", "date"): _plain,
    ("timestamp", "timestamp"): _plain,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "float"): _timestamp_to_float,
}


def _try_cast(call: Call, args: Sequence[Datum]) -> pa.Array:
    """NULL for each value that cannot be cast: halves are tried until a failing part is one value."""
    try:
        return cast(args[0], call.type)
    except (DataError, pa.ArrowInvalid):
        if len(args[0]) == 1:
            return pa.nulls(1, call.type)
    half = len(args[0]) // 2
    return pa.concat_arrays([_try_cast(call, (part,)) for part in (args[0][:half], args[0][half:])])


def _spark_cast(call: Call, args: list[str]) -> str:
    return f"{call.function.upper()}({args[0]} AS {spark_name(call.type)})"


def spark_name(type_: pa.DataType) -> str:
    """A type's name in Spark SQL; that of NULL is VOID."""
    return "VOID" if pa.types.is_null(type_) else sql_name(type_)


CASTS.define("cast", "any -> type",
             "`CAST(x AS type)`, `x::type` or `INT(x)`: as another type, an error if that cannot be",
             "CAST(' 12' AS INT) -> 12", lambda call, args: cast(args[0], call.type), operator=True,
             raises=lambda call: not cannot_fail(call.args[0].type, call.type),
             spark=_spark_cast)  # fmt: skip
CASTS.define("try_cast", "any -> type", "`TRY_CAST(x AS type)`: NULL if it cannot be",
             "TRY_CAST('12a' AS INT) -> CAST(NULL AS INT)", _try_cast, operator=True,
             spark=_spark_cast)  # fmt: skip
