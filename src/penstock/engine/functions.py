"""Scalar functions and operators by name: Spark's names, Spark's results.

A function takes its call (for the type and for messages) and its arguments, at least one of them an
array and the others arrays or scalars, and gives an array. The caller turns Arrow's complaints into
:class:`~penstock.errors.DataError`. To add a function, add one entry to :data:`FUNCTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.cast import WIDE, cast, to_decimal
from penstock.errors import DataError
from penstock.expression import Call, shown

Datum: TypeAlias = pa.Array | pa.Scalar
Function: TypeAlias = Callable[[Call, Sequence[Datum]], pa.Array]


def _kernel(kernel: Callable[..., pa.Array], **options: Any) -> Function:
    """A function that is one Arrow kernel."""
    return lambda call, args: kernel(*args, **options)


def _rows(args: Sequence[Datum]) -> list[tuple[Any, ...]]:
    """The arguments row by row, as Python values."""
    length = next(len(arg) for arg in args if isinstance(arg, pa.Array))
    lists = [[arg.as_py()] * length if isinstance(arg, pa.Scalar) else arg.to_pylist() for arg in args]
    return list(zip(*lists, strict=True))


def _by_row(function: Callable[..., Any]) -> Function:
    """A function computed in Python row by row, NULL if an argument is: slow, for the rare."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        return pa.array([None if None in row else function(*row) for row in _rows(args)], call.type)

    return apply


# Comparison. NaN = NaN, and NaN is greater than every number.


def _has_nan(args: Sequence[Datum]) -> bool:
    return pa.types.is_floating(args[0].type) and any(_any(pc.is_nan(arg)) for arg in args)


def _any(mask: Datum) -> bool:
    return bool(mask.as_py() if isinstance(mask, pa.Scalar) else pc.any(mask).as_py())


def _equal(call: Call, args: Sequence[Datum]) -> pa.Array:
    same = pc.equal(*args)
    return pc.or_(same, pc.and_(*map(pc.is_nan, args))) if _has_nan(args) else same


def _less(call: Call, args: Sequence[Datum]) -> pa.Array:
    left, right = args
    below = pc.less(left, right)
    if not _has_nan(args):
        return below
    return pc.or_(below, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _not(function: Function) -> Function:
    return lambda call, args: pc.invert(function(call, args))


def _swapped(function: Function) -> Function:
    return lambda call, args: function(call, args[::-1])


def _null_safe_equal(call: Call, args: Sequence[Datum]) -> pa.Array:
    both_null = pc.and_(*map(pc.is_null, args))
    return pc.or_(pc.fill_null(_equal(call, args), False), both_null)


def _in(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, *choices = args
    if pa.types.is_floating(value.type) or not all(isinstance(c, pa.Scalar) for c in choices):
        return reduce(pc.or_kleene, (_equal(call, (value, choice)) for choice in choices))
    known = [choice.as_py() for choice in choices if choice.is_valid]
    found = pc.is_in(value, value_set=pa.array(known, value.type))
    unknown = pc.is_null(value) if len(known) == len(choices) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _extreme(call: Call, args: Sequence[Datum], greatest: bool) -> pa.Array:
    """The least or greatest argument that is not NULL."""
    result, *others = args
    for other in others:
        ahead = _less(call, (result, other) if greatest else (other, result))
        takes_other = pc.or_(pc.fill_null(ahead, False), pc.is_null(result))
        result = pc.if_else(pc.and_(takes_other, pc.is_valid(other)), other, result)
    return result


def _nullif(call: Call, args: Sequence[Datum]) -> pa.Array:
    equal = pc.fill_null(_equal(call, args), False)
    return pc.if_else(equal, pa.scalar(None, args[0].type), args[0])


# Arithmetic. Integers never wrap; decimals have Spark's precision and scale, rounded half up.


def _arithmetic(checked: Callable[..., pa.Array], exact: Callable[..., Decimal]) -> Function:
    """An operator that Arrow checks for integers and floats, and that ``exact`` does for decimals."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        if not pa.types.is_decimal(call.type):
            return checked(*args)
        if sum(arg.type.precision for arg in args) < 38 and (result := checked(*args)).type == call.type:
            return result
        return _by_row(lambda *row: to_decimal(exact(*row), call.type))(call, args)

    return apply


def _refuse_zero(call: Call, left: Datum, right: Datum) -> None:
    zero = pc.equal(right, pa.scalar(0, right.type))
    if _any(pc.and_kleene(zero, pc.is_valid(left))):
        raise DataError(f"division by zero in {shown(call)}; guard it with NULLIF(..., 0) or CASE")


def _divide(call: Call, args: Sequence[Datum]) -> pa.Array:
    _refuse_zero(call, *args)
    if pa.types.is_decimal(call.type):
        return _by_row(lambda a, b: to_decimal(WIDE.divide(a, b), call.type))(call, args)
    return pc.divide(*(pc.cast(arg, pa.float64()) for arg in args))


def _decimal_remainder(call: Call, left: Decimal, right: Decimal) -> Decimal:
    whole = (WIDE.divide(left, right)).to_integral_value(ROUND_DOWN)
    return to_decimal(WIDE.subtract(left, WIDE.multiply(right, whole)), call.type)


def _remainder(call: Call, args: Sequence[Datum]) -> pa.Array:
    _refuse_zero(call, *args)
    if pa.types.is_decimal(call.type):
        return _by_row(partial(_decimal_remainder, call))(call, args)
    left, right = (pc.fill_null(arg, pa.scalar(1, arg.type)) for arg in args)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.fmod(_numpy(left), _numpy(right))
    return pc.if_else(pc.and_(*map(pc.is_valid, args)), pa.array(values), pa.scalar(None, call.type))


def _numpy(datum: Datum) -> np.ndarray:
    if isinstance(datum, pa.Scalar):
        return np.asarray(datum.as_py(), datum.type.to_pandas_dtype())
    return datum.to_numpy(zero_copy_only=False)


def _round(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, digits = args[0], (args[1].as_py() if len(args) > 1 and isinstance(args[1], pa.Scalar) else 0)
    if len(args) > 1 and not isinstance(args[1], pa.Scalar):
        return _round_by_rows(call, args)
    if digits is None:
        return pa.nulls(len(value), call.type)
    if pa.types.is_floating(value.type):
        return _round_floats(value, digits)
    if pa.types.is_integer(value.type) and digits >= 0:
        return value
    step = Decimal(1).scaleb(-digits)
    return _by_row(lambda v: _number(WIDE.quantize(Decimal(v), step), call.type))(call, (value,))


def _round_by_rows(call: Call, args: Sequence[Datum]) -> pa.Array:
    def one(value: Any, digits: int) -> Any:
        return _round(call, (pa.array([value], args[0].type), pa.scalar(digits)))[0].as_py()

    return _by_row(one)(call, args)


def _number(value: Decimal, type_: pa.DataType) -> Decimal | int:
    return to_decimal(value, type_) if pa.types.is_decimal(type_) else int(value)


def _round_floats(value: pa.Array, digits: int) -> pa.Array:
    """Half up in decimal: what is near a tie, or too large to tell, is done on its decimal text."""
    values = value.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(values) * 10.0**digits
        whole = np.floor(scaled + 0.5)
        near_tie = np.abs(scaled - np.floor(scaled) - 0.5) <= 1e-6
        result = np.copysign(whole / 10.0**digits if digits >= 0 else whole * 10.0**-digits, values)
    result[~np.isfinite(values)] = values[~np.isfinite(values)]
    for i in np.flatnonzero((near_tie | (scaled >= 2.0**50) | (abs(digits) > 15)) & np.isfinite(values)):
        step = Decimal(1).scaleb(-digits)
        number = Decimal(repr(float(values[i])))
        exponent = int(number.as_tuple().exponent)
        result[i] = WIDE.quantize(number, step) if -exponent > digits else number
    return pa.array(result, mask=value.is_null().to_numpy(zero_copy_only=False)).cast(value.type)


def _to_whole(kernel: Callable[..., pa.Array]) -> Function:
    """FLOOR and CEIL: NaN is 0, as in Java; what the result's type does not hold is refused."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        (value,) = args
        if pa.types.is_decimal(value.type):
            value = value.cast(pa.decimal128(38, value.type.scale))
        elif _has_nan(args):
            value = pc.if_else(pc.is_nan(value), 0.0, value)
        return cast(kernel(value), call.type)

    return apply


def _logarithm(kernel: Callable[..., pa.Array]) -> Function:
    """NULL where there is no logarithm."""
    return lambda call, args: kernel(
        pc.if_else(pc.less_equal(args[0], 0.0), pa.scalar(None, pa.float64()), args[0])
    )


def _sign(call: Call, args: Sequence[Datum]) -> pa.Array:
    return cast(pc.sign(args[0]), call.type)


def _try_cast(call: Call, args: Sequence[Datum]) -> pa.Array:
    """A cast, NULL where it cannot be done."""
    try:
        return cast(args[0], call.type)
    except (DataError, pa.ArrowInvalid):
        if len(args[0]) == 1:
            return pa.nulls(1, call.type)
    half = len(args[0]) // 2
    parts = (args[0][:half], args[0][half:])
    return pa.concat_arrays([_try_cast(call, (part,)) for part in parts])


# Strings.


def _case_mapped(kernel: Callable[..., pa.Array], full: Callable[[str], str]) -> Function:
    """Upper or lower case, by Unicode's full mapping where there are characters that need it."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        if pc.all(pc.string_is_ascii(args[0])).as_py() is not False:
            return kernel(args[0])
        return _by_row(full)(call, args)

    return apply


def _concat(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.binary_join_element_wise(*args, "")


def _substring(call: Call, args: Sequence[Datum]) -> pa.Array:
    text, *bounds = args
    if isinstance(text, pa.Array) and all(isinstance(b, pa.Scalar) and b.is_valid for b in bounds):
        return pc.utf8_slice_codeunits(text, *_slice(*(b.as_py() for b in bounds)))
    return _by_row(lambda s, *where: s[slice(*_slice(*where))])(call, args)


def _slice(position: int, length: int = 1 << 31) -> tuple[int, int | None]:
    """SQL's position (1-based, negative from the end, 0 as 1) and length as start and stop."""
    if length <= 0:
        return 0, 0
    start = position - 1 if position > 0 else position
    stop = start + length
    return start, None if start < 0 <= stop else stop


def _trim(kernel: Callable[..., pa.Array]) -> Function:
    return lambda call, args: kernel(args[0], characters=" ")


def _replace(call: Call, args: Sequence[Datum]) -> pa.Array:
    text, search, *rest = args
    new = rest[0] if rest else pa.scalar("")
    if isinstance(text, pa.Array) and all(isinstance(a, pa.Scalar) and a.is_valid for a in (search, new)):
        old = search.as_py()
        return pc.replace_substring(text, pattern=old, replacement=new.as_py()) if old else text
    return _by_row(lambda s, old, by: s.replace(old, by) if old else s)(call, (text, search, new))


def _affix(kernel: Callable[..., pa.Array], one: Callable[[str, str], bool]) -> Function:
    """Whether a text has another at a place, by kernel if the other is constant."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        text, part = args
        if isinstance(text, pa.Array) and isinstance(part, pa.Scalar) and part.is_valid:
            return kernel(text, pattern=part.as_py())
        return _by_row(one)(call, args)

    return apply


def _like(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, pattern = args
    if isinstance(value, pa.Array) and isinstance(pattern, pa.Scalar) and pattern.is_valid:
        like_regex(pattern.as_py())
        return pc.match_like(value, pattern.as_py())
    regexes: dict[str, re.Pattern[str]] = {}

    def matches(text: str, like: str) -> bool:
        if like not in regexes:
            regexes[like] = like_regex(like)
        return regexes[like].fullmatch(text) is not None

    return _by_row(matches)(call, args)


def like_regex(pattern: str) -> re.Pattern[str]:
    r"""A LIKE pattern as a regular expression; ``\`` may stand before ``%``, ``_`` and itself only."""
    parts = re.findall(r"\\[%_\\]|[^\\]", pattern, re.DOTALL)
    if sum(map(len, parts)) != len(pattern):
        raise DataError(
            rf"the LIKE pattern {pattern!r} has a \ that is not before %, _ or \; write \\ instead"
        )
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL)


def _time_field(kernel: Callable[..., pa.Array]) -> Function:
    """A field of a date or timestamp, read in UTC."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        (value,) = args
        if pa.types.is_timestamp(value.type) and value.type.tz is not None:
            value = value.cast(pa.timestamp(value.type.unit, "UTC")).cast(pa.timestamp(value.type.unit))
        return kernel(value)

    return apply


FUNCTIONS: dict[str, Function] = {
    "=": _equal,
    "<>": _not(_equal),
    "<": _less,
    ">": _swapped(_less),
    "<=": _not(_swapped(_less)),
    ">=": _not(_less),
    "<=>": _null_safe_equal,
    "in": _in,
    "not": _kernel(pc.invert),
    "isnull": _kernel(pc.is_null),
    "isnotnull": _kernel(pc.is_valid),
    "+": _arithmetic(pc.add_checked, WIDE.add),
    "-": _arithmetic(pc.subtract_checked, WIDE.subtract),
    "*": _arithmetic(pc.multiply_checked, WIDE.multiply),
    "/": _divide,
    "%": _remainder,
    "negative": _kernel(pc.negate_checked),
    "abs": _kernel(pc.abs_checked),
    "round": _round,
    "floor": _to_whole(pc.floor),
    "ceil": _to_whole(pc.ceil),
    "sqrt": _kernel(pc.sqrt),
    "power": _kernel(pc.power),
    "exp": _kernel(pc.exp),
    "ln": _logarithm(pc.ln),
    "log10": _logarithm(pc.log10),
    "sign": _sign,
    "least": lambda call, args: _extreme(call, args, greatest=False),
    "greatest": lambda call, args: _extreme(call, args, greatest=True),
    "nullif": _nullif,
    "cast": lambda call, args: cast(args[0], call.type),
    "try_cast": _try_cast,
    "upper": _case_mapped(pc.utf8_upper, str.upper),
    "lower": _case_mapped(pc.utf8_lower, str.lower),
    "length": _kernel(pc.utf8_length),
    "concat": _concat,
    "substring": _substring,
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "reverse": _kernel(pc.utf8_reverse),
    "replace": _replace,
    "startswith": _affix(pc.starts_with, str.startswith),
    "endswith": _affix(pc.ends_with, str.endswith),
    "contains": _affix(pc.match_substring, str.__contains__),
    "like": _like,
    "year": _time_field(pc.year),
    "month": _time_field(pc.month),
    "day": _time_field(pc.day),
    "hour": _time_field(pc.hour),
    "minute": _time_field(pc.minute),
    "second": _time_field(pc.second),
}
