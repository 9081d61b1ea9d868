"""Bits, whole numbers and arithmetic that is NULL where it fails, with Spark's names and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression
from penstock.functions.kernels import Datum, Kernel, by_row, ufunc
from penstock.functions.numbers import NUMBERS
from penstock.functions.operators import ARITHMETIC
from penstock.functions.registry import FUNCTIONS
from penstock.functions.types import BIGINT, INT, coerce

# Functions of doubles that NumPy has, or is near to.

for _name, _doc, _example, _kernel in (
    ("cot", "cotangent", "ROUND(COT(1), 6) -> 0.642093e0", lambda x: 1.0 / np.tan(x)),
    ("sec", "secant", "SEC(0) -> 1e0", lambda x: 1.0 / np.cos(x)),
    ("csc", "cosecant", "ROUND(CSC(1), 6) -> 1.188395e0", lambda x: 1.0 / np.sin(x)),
    ("asinh", "inverse hyperbolic sine", "ASINH(0) -> 0e0", np.arcsinh),
    ("acosh", "inverse hyperbolic cosine", "ACOSH(1) -> 0e0", np.arccosh),
    ("atanh", "inverse hyperbolic tangent", "ATANH(0) -> 0e0", np.arctanh),
):  # fmt: skip
    NUMBERS.define(_name, "DOUBLE -> DOUBLE", _doc, _example, ufunc(_kernel))  # type: ignore[arg-type]

# Bits.


def _whole(value: Expression) -> Expression:
    """An INT, or a BIGINT as it is."""
    return value if value.type == BIGINT else coerce(value, INT)


def _shift(left: bool, unsigned: bool = False) -> Kernel:
    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        bits = call.type.bit_width

        def shift(value: int, by: int) -> int:
            by %= bits
            if left:
                return _wrapped(value << by, bits)
            return _wrapped((value % (1 << bits)) >> by, bits) if unsigned else value >> by

        return by_row(shift)(call, args)

    return apply


def _wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _shifted(name: str) -> Callable[[Expression, Expression], Expression | None]:
    def rule(value: Expression, by: Expression) -> Expression | None:
        return Call(name, (_whole(value), by), _whole(value).type)

    return rule


for _name, _sign, _doc, _example, _moved in (
    ("shiftleft", "<<", "bits moved to the left", "SHIFTLEFT(2, 1) -> 4", _shift(left=True)),
    ("shiftright", ">>", "bits moved to the right, the sign kept", "SHIFTRIGHT(-4, 1) -> -2",
     _shift(left=False)),
    ("shiftrightunsigned", ">>>", "bits moved to the right, zeros before them",
     "SHIFTRIGHTUNSIGNED(-1, 31) -> 1", _shift(left=False, unsigned=True)),
):  # fmt: skip
    ARITHMETIC.define(_name, "integer, INT -> integer", f"{_doc}; also written `a {_sign} n`",
                      _example, _moved,
                      rule=_shifted(_name))  # fmt: skip

ARITHMETIC.define("~", "integer -> integer", "bitwise not", "~0 -> -1",
                  lambda call, args: pc.bit_wise_not(args[0]), operator=True, spark="(~{0})")  # fmt: skip


@ARITHMETIC.by_row(
    "bit_count", "BIGINT -> INT", "how many bits are 1, in two's complement", "BIT_COUNT(7) -> 3"
)
def _bit_count(value: int) -> int:
    return (value % (1 << 64)).bit_count()


@ARITHMETIC.by_row("getbit", "BIGINT, INT -> TINYINT", "the bit at a place, 0 the lowest",
                   "GETBIT(4, 2) -> CAST(1 AS TINYINT)", aliases=("bit_get",), raises=True)  # fmt: skip
def _getbit(value: int, place: int) -> int:
    if not 0 <= place < 64:
        raise DataError(f"GETBIT: a BIGINT has no bit {place}, only 0 to 63")
    return value >> place & 1


@ARITHMETIC.by_rule("mod", "number, number -> number", "remainder with the sign of the first, as `a % b`",
                    "MOD(-7, 3) -> -1")  # fmt: skip
def _mod(left: Expression, right: Expression) -> Expression | None:
    return FUNCTIONS["%"].bind((left, right))


# Whole numbers.


@NUMBERS.by_row("factorial", "INT -> BIGINT", "product of the numbers up to it; NULL unless it is 0 to 20",
                "FACTORIAL(5) -> 120L")  # fmt: skip
def _factorial(value: int) -> int | None:
    return math.factorial(value) if 0 <= value <= 20 else None


@NUMBERS.by_row(
    "bin", "BIGINT -> STRING", "in binary, a negative number in two's complement", "BIN(13) -> '1101'"
)
def _bin(value: int) -> str:
    return f"{value % (1 << 64):b}"


@NUMBERS.by_row("width_bucket", "DOUBLE, DOUBLE, DOUBLE, BIGINT -> BIGINT",
                "which of so many equal parts from the second to the third it is in, from 1; 0 before them",
                "WIDTH_BUCKET(5.3, 0.2, 10.6, 5) -> 3L", raises=True)  # fmt: skip
def _width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    bounds = math.isfinite(low) and math.isfinite(high) and low != high
    if not 0 < count < 2**63 - 1 or not bounds or math.isnan(value):
        return None
    below, above = (value < low, value >= high) if low < high else (value > low, value <= high)
    if below:
        return 0
    if above:
        return count + 1
    return int(count * (value - low) / (high - low)) + 1


# Arithmetic that does not fail.


def _tried(operator: str) -> Kernel:
    """The operator, NULL in the rows where it fails."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        kernel = FUNCTIONS[operator].kernel
        assert kernel is not None
        inner = Call(operator, call.args, call.type)
        try:
            return kernel(inner, args)
        except (DataError, pa.ArrowInvalid):
            length = next(len(a) for a in args if isinstance(a, pa.Array))
            return pa.concat_arrays([_one(kernel, inner, _row(args, n)) for n in range(length)])

    return apply


def _row(args: Sequence[Datum], number: int) -> list[Datum]:
    return [a.slice(number, 1) if isinstance(a, pa.Array) else a for a in args]


def _one(kernel: Kernel, call: Call, args: Sequence[Datum]) -> pa.Array:
    try:
        return kernel(call, args).cast(call.type)
    except (DataError, pa.ArrowInvalid):
        return pa.nulls(1, call.type)


def _try_rule(name: str, operator: str) -> Callable[[Expression, Expression], Expression | None]:
    def rule(left: Expression, right: Expression) -> Expression | None:
        bound = FUNCTIONS[operator].bind((left, right))
        return Call(name, bound.args, bound.type) if isinstance(bound, Call) else None

    return rule


for _name, _operator, _doc, _example in (
    ("try_add", "+", "sum", "TRY_ADD(2147483647, 1) IS NULL -> TRUE"),
    ("try_subtract", "-", "difference", "TRY_SUBTRACT(5, 2) -> 3"),
    ("try_multiply", "*", "product", "TRY_MULTIPLY(2147483647, 2) IS NULL -> TRUE"),
    ("try_divide", "/", "quotient", "TRY_DIVIDE(1, 0) IS NULL -> TRUE"),
    ("try_mod", "%", "remainder", "TRY_MOD(7, 4) -> 3"),
):
    ARITHMETIC.define(_name, "number, number -> number",
                      f"{_doc}, NULL where it overflows or divides by zero", _example,
                      _tried(_operator), rule=_try_rule(_name, _operator))  # fmt: skip
