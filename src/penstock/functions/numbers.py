"""Functions of numbers, by Spark's names and with Spark's results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expression import Call, Expression, Literal
from penstock.functions import types
from penstock.functions.casts import WIDE, cast, to_decimal
from penstock.functions.intervals import negated, of_intervals
from penstock.functions.kernels import Datum, Kernel, arrow, by_row, has_nan, ufunc
from penstock.functions.operators import overflows, remainder
from penstock.functions.registry import Theme
from penstock.functions.types import BIGINT, DOUBLE, INT, coerce

NUMBERS = Theme("Numbers", "A DOUBLE may be any number. Outside its domain a function is NaN or NULL.")
ZERO = Literal(0, INT)


def _above(bound: float, value: Datum) -> Datum:
    """The value, NULL unless it is greater than the bound: the domain of a logarithm."""
    return pc.if_else(pc.less_equal(value, bound), pa.scalar(None, pa.float64()), value)


def _logarithm(kernel: Callable[..., pa.Array], bound: float = 0.0) -> Kernel:
    return lambda call, args: kernel(_above(bound, args[0]))


def _log(call: Call, args: Sequence[Datum]) -> pa.Array:
    base, value = (pc.ln(_above(0.0, arg)) for arg in args)
    return pc.divide(value, base)


def _sign(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.if_else(pc.equal(args[0], 0.0), args[0], pc.sign(args[0]))


def _power(call: Call, args: Sequence[Datum]) -> pa.Array:
    """As in Java, where C has 1: 1 to the power of NaN, and 1 or -1 to that of an infinity, are NaN."""
    base, exponent = args
    odd = pc.and_(pc.equal(pc.abs(base), 1.0), pc.invert(pc.is_finite(exponent)))
    return pc.if_else(odd, float("nan"), pc.power(base, exponent))


def _atan2(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Without -0.0, whose angle would be another."""
    y, x = args
    return pc.atan2(pc.add(y, 0.0), pc.add(x, 0.0))


for _name, _doc, _example, _kernel in (
    ("sqrt", "square root", "SQRT(2.25) -> 1.5e0", arrow(pc.sqrt)),
    ("cbrt", "cube root", "CBRT(27) -> 3e0", ufunc(np.cbrt)),
    ("exp", "e to the power", "EXP(0) -> 1e0", arrow(pc.exp)),
    ("expm1", "EXP(x) - 1, exact near 0", "EXPM1(0) -> 0e0", ufunc(np.expm1)),
    ("ln", "natural logarithm", "LN(1) -> 0e0", _logarithm(pc.ln)),
    ("log10", "logarithm to base 10", "LOG10(1000) -> 3e0", _logarithm(pc.log10)),
    ("log2", "logarithm to base 2", "LOG2(8) -> 3e0", _logarithm(pc.log2)),
    ("log1p", "LN(1 + x), exact near 0", "LOG1P(0) -> 0e0", _logarithm(pc.log1p, -1.0)),
    ("sin", "sine of radians", "SIN(0) -> 0e0", arrow(pc.sin)),
    ("cos", "cosine of radians", "COS(0) -> 1e0", arrow(pc.cos)),
    ("tan", "tangent of radians", "TAN(0) -> 0e0", arrow(pc.tan)),
    ("asin", "arc sine", "2 * ASIN(1) -> PI()", arrow(pc.asin)),
    ("acos", "arc cosine", "ACOS(1) -> 0e0", arrow(pc.acos)),
    ("atan", "arc tangent", "4 * ATAN(1) -> PI()", arrow(pc.atan)),
    ("sinh", "hyperbolic sine", "SINH(0) -> 0e0", ufunc(np.sinh)),
    ("cosh", "hyperbolic cosine", "COSH(0) -> 1e0", ufunc(np.cosh)),
    ("tanh", "hyperbolic tangent", "TANH(0) -> 0e0", ufunc(np.tanh)),
    ("degrees", "radians in degrees", "DEGREES(PI()) -> 180e0", ufunc(np.degrees)),
    ("radians", "degrees in radians", "RADIANS(180) -> PI()", ufunc(np.radians)),
    ("rint", "rounded to a whole number, half to even", "RINT(2.5) -> 2e0",
     arrow(pc.round, round_mode="half_to_even")),
):  # fmt: skip
    NUMBERS.define(_name, "DOUBLE -> DOUBLE", _doc, _example, _kernel)

NUMBERS.define("sign", "DOUBLE -> DOUBLE", "-1, 0 or 1", "SIGN(-5) -> -1e0", _sign,
               aliases=("signum",))  # fmt: skip
NUMBERS.define("abs", "number or interval -> number or interval", "without its sign", "ABS(-7) -> 7",
               of_intervals(arrow(pc.abs_checked), negated),
               raises=overflows)  # fmt: skip
NUMBERS.define("power", "DOUBLE, DOUBLE -> DOUBLE", "the first to the power of the second",
               "POWER(2, 10) -> 1024e0",
               _power, aliases=("pow",))  # fmt: skip
NUMBERS.define("atan2", "DOUBLE, DOUBLE -> DOUBLE", "the angle of the point (second, first)",
               "ATAN2(0, 1) -> 0e0",
               _atan2)  # fmt: skip
NUMBERS.define("hypot", "DOUBLE, DOUBLE -> DOUBLE", "the square root of the sum of squares",
               "HYPOT(3, 4) -> 5e0",
               ufunc(np.hypot))  # fmt: skip
NUMBERS.define("pi", "-> DOUBLE", "π", "PI() > 3.14 -> TRUE", rule=lambda: Literal(math.pi, DOUBLE))
NUMBERS.define("e", "-> DOUBLE", "Euler's number", "LN(E()) -> 1e0", rule=lambda: Literal(math.e, DOUBLE))


@NUMBERS.by_rule("log", "DOUBLE [, DOUBLE] -> DOUBLE",
                 "natural logarithm; with two, of the second to the base first",
                 "LOG(2, 8) -> 3e0", kernel=_log)  # fmt: skip
def _ln_or_log(*args: Expression) -> Expression:
    return Call("ln" if len(args) == 1 else "log", args, DOUBLE)


def _positive_remainder(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Of TINYINT and SMALLINT computed as INT, as in Java: the sum within it may not fit them."""
    if pa.types.is_integer(call.type) and call.type.bit_width < 32:
        args = [a.cast(pa.int32()) for a in args]
    return remainder(call, args, positive=True).cast(call.type)


@NUMBERS.by_rule("pmod", "number, number -> number",
                 "remainder, not negative for a positive divisor; not of DECIMALs",
                 "PMOD(-7, 3) -> 2", kernel=_positive_remainder, raises=True)  # fmt: skip
def _pmod(left: Expression, right: Expression) -> Expression | None:
    type_ = types.common((left.type, right.type))
    if type_ is None or types.is_decimal(left.type) or types.is_decimal(right.type):
        return None
    return Call("pmod", (coerce(left, type_), coerce(right, type_)), type_)


# Rounding.


def _to_whole(name: str) -> Callable[[Expression], Expression]:
    """FLOOR and CEIL: BIGINT, or a DECIMAL without a scale."""

    def rule(value: Expression) -> Expression:
        if types.is_decimal(value.type):
            return Call(name, (value,), types.decimal(value.type.precision - value.type.scale + 1, 0))
        if types.is_fractional(value.type):
            return Call(name, (coerce(value, DOUBLE),), BIGINT)
        return coerce(value, BIGINT)

    return rule


def _rounded(kernel: Callable[..., pa.Array]) -> Kernel:
    """NaN becomes 0, as in Java; a value that the result's type does not hold is an error."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        (value,) = args
        if pa.types.is_decimal(value.type):
            wide = kernel(value.cast(pa.decimal256(76, value.type.scale)))
            return wide.cast(pa.decimal256(76, 0)).cast(call.type)
        if has_nan(args):
            value = pc.if_else(pc.is_nan(value), 0.0, value)
        return cast(kernel(value), call.type)

    return apply


NUMBERS.define("floor", "number -> number", "the largest whole number not above",
               "FLOOR(-1.5) -> -2.",
               _rounded(pc.floor), rule=_to_whole("floor"), raises=True)  # fmt: skip
NUMBERS.define("ceil", "number -> number", "the smallest whole number not below", "CEIL(1.2e0) -> 2L",
               _rounded(pc.ceil), rule=_to_whole("ceil"), aliases=("ceiling",), raises=True)  # fmt: skip


_WIDEST = Context(prec=800, rounding=ROUND_HALF_UP)
"""Room for all digits of a double."""


def _round(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, digits = args[0], call.args[1].value if isinstance(call.args[1], Literal) else None
    if digits is None:
        return pa.nulls(len(value), call.type)
    if pa.types.is_floating(value.type):
        return _round_floats(value, digits)
    if pa.types.is_integer(value.type) and digits >= 0:
        return value
    step = Decimal(1).scaleb(-digits)
    return by_row(lambda v: _number(WIDE.quantize(Decimal(v), step), call.type))(call, (value,))


def _number(value: Decimal, type_: pa.DataType) -> Any:
    return to_decimal(value, type_) if pa.types.is_decimal(type_) else int(value)


_DIGITS, _EXACT_DIGITS = 400, 15
"""The most digits that matter; how many a double has."""


def _round_floats(value: pa.Array, digits: int) -> pa.Array:
    """Half up in decimal: values near a tie, and very large ones, are rounded by their decimal text."""
    values = value.to_numpy(zero_copy_only=False).astype(np.float64)
    result, by_text = values.copy(), np.isfinite(values)
    if abs(digits) <= _EXACT_DIGITS:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.abs(values) * 10.0**digits
            whole = np.floor(scaled + 0.5)
            near_tie = np.abs(scaled - np.floor(scaled) - 0.5) <= 1e-6
            rounded = np.copysign(whole / 10.0**digits if digits >= 0 else whole * 10.0**-digits, values)
        result[by_text] = rounded[by_text]
        by_text &= near_tie | (scaled >= 2.0**50)
    for i in np.flatnonzero(by_text):
        number = Decimal(repr(float(values[i])))
        exponent = int(number.as_tuple().exponent)
        result[i] = _WIDEST.quantize(number, Decimal(1).scaleb(-digits)) if -exponent > digits else number
    result += 0.0  # no -0.0
    return pa.array(result, mask=value.is_null().to_numpy(zero_copy_only=False)).cast(value.type)


@NUMBERS.by_rule("round", "number [, digits] -> number",
                 "rounded half up to a constant number of digits after the point, 0 if not given",
                 "ROUND(2.675, 2) -> 2.68", kernel=_round,
                 raises=overflows)  # fmt: skip
def _round_rule(value: Expression, digits: Expression = ZERO) -> Expression | None:
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        return None
    # Digits beyond these are all zero.
    digits = Literal(max(-_DIGITS, min(_DIGITS, digits.value)), INT)
    type_ = value.type
    if types.is_decimal(type_):
        scale = min(type_.scale, max(digits.value, 0))
        whole = max(type_.precision - type_.scale + 1, 1 - digits.value)
        type_ = types.decimal(whole + scale, scale)
    return Call("round", (value, coerce(digits, INT)), type_)
