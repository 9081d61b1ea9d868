"""Operators: comparison, logic, LIKE and arithmetic.

NaN equals NaN and is greater than every number. Integers never wrap; decimals have Spark's precision and
scale, rounded half up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal, shown
from penstock.functions import types
from penstock.functions.casts import WIDE, to_decimal
from penstock.functions.intervals import negated, of_intervals, scaled
from penstock.functions.kernels import (
    Datum,
    Kernel,
    any_true,
    arrow,
    by_row,
    constants,
    has_nan,
    to_numpy,
    where_known,
)
from penstock.functions.registry import Theme
from penstock.functions.types import DOUBLE, INT, coerce
from penstock.schema import INTERVAL

COMPARISONS = Theme("Comparison and logic", "A comparison with NULL is NULL, except by `<=>`.")
ARITHMETIC = Theme(
    "Arithmetic",
    "The result has the wider type of both, a DECIMAL as many digits as Spark's. Overflow is an error.",
)


def equal(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Whether two values are equal; NaN equals NaN."""
    same = pc.equal(*args)
    return pc.or_(same, pc.and_(*map(pc.is_nan, args))) if has_nan(args) else same


def less(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Whether the first is less than the second; NaN is the greatest."""
    left, right = args
    below = pc.less(left, right)
    if not has_nan(args):
        return below
    return pc.or_(below, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _not(kernel: Kernel) -> Kernel:
    return lambda call, args: pc.invert(kernel(call, args))


def _swapped(kernel: Kernel) -> Kernel:
    return lambda call, args: kernel(call, args[::-1])


def _null_safe_equal(call: Call, args: Sequence[Datum]) -> pa.Array:
    both_null = pc.and_(*map(pc.is_null, args))
    return pc.or_(pc.fill_null(equal(call, args), False), both_null)


for _name, _doc, _example, _kernel in (
    ("=", "equal", "1 = 1.0 -> TRUE", equal),
    ("<>", "not equal; also written `!=`", "1 <> 2 -> TRUE", _not(equal)),
    ("<", "less", "'a' < 'b' -> TRUE", less),
    ("<=", "less or equal", "2 <= 1 -> FALSE", _not(_swapped(less))),
    (">", "greater", "2 > 1 -> TRUE", _swapped(less)),
    (">=", "greater or equal", "1 >= 2 -> FALSE", _not(less)),
    ("<=>", "equal, or both NULL; also `IS NOT DISTINCT FROM`", "NULL <=> NULL -> TRUE", _null_safe_equal),
):
    COMPARISONS.define(_name, "T, T -> BOOLEAN", _doc, _example, _kernel, operator=True)


@COMPARISONS.by_column("in", "T, T, ... -> BOOLEAN", "`x IN (a, b, ...)`: whether it equals one of them",
                       "2 IN (1, 2, NULL) -> TRUE", operator=True,
                       spark=lambda call, args: f"({args[0]} IN ({', '.join(args[1:])}))")  # fmt: skip
def _in(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, *choices = args
    if pa.types.is_floating(value.type) or not all(isinstance(c, pa.Scalar) for c in choices):
        return reduce(pc.or_kleene, (equal(call, (value, choice)) for choice in choices))
    known = [choice.as_py() for choice in choices if choice.is_valid]
    found = pc.is_in(value, value_set=pa.array(known, value.type))
    unknown = pc.is_null(value) if len(known) == len(choices) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


COMPARISONS.define("and", "BOOLEAN, BOOLEAN -> BOOLEAN", "false if one is false, whatever the other is",
                   "NULL AND FALSE -> FALSE", operator=True)  # fmt: skip
COMPARISONS.define("or", "BOOLEAN, BOOLEAN -> BOOLEAN", "true if one is true, whatever the other is",
                   "NULL OR TRUE -> TRUE", operator=True)  # fmt: skip
COMPARISONS.define("not", "BOOLEAN -> BOOLEAN", "true if it is false", "NOT FALSE -> TRUE",
                   arrow(pc.invert), operator=True, spark="(NOT {0})")  # fmt: skip


@COMPARISONS.by_column("like", "STRING, STRING -> BOOLEAN",
                       "the pattern matches the whole text: `%` is any text, `_` a character, `\\` escapes."
                       " `ILIKE` ignores case",
                       "'abc' LIKE 'a%' -> TRUE", operator=True,
                       raises=lambda call: not isinstance(call.args[1], Literal))  # fmt: skip
def _like(call: Call, args: Sequence[Datum]) -> pa.Array:
    value, pattern = args
    if isinstance(value, pa.Array) and (known := constants([pattern])):
        _like_regex(known[0])
        return pc.match_like(value, known[0])
    return by_row(lambda text, like: _like_regex(like).fullmatch(text) is not None)(call, args)


@lru_cache(maxsize=256)
def _like_regex(pattern: str) -> re.Pattern[str]:
    r"""A LIKE pattern as a regular expression; ``\`` may stand before ``%``, ``_`` and itself only."""
    parts = re.findall(r"\\[%_\\]|[^\\]", pattern, re.DOTALL)
    if sum(map(len, parts)) != len(pattern):
        raise DataError(rf"LIKE pattern {pattern!r} has a \ that is not before %, _ or \; write \\ instead")
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL)


# Arithmetic.


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right`` for two numbers, typed by Spark's rules."""
    decimals = types.is_decimal(left.type) or types.is_decimal(right.type)
    if decimals and not any(types.is_fractional(e.type) or e.type == types.NULL for e in (left, right)):
        left, right = types.decimal_operand(left), types.decimal_operand(right)
        return Call(operator, (left, right), types.decimal_arithmetic(operator, left.type, right.type))
    type_ = DOUBLE if operator == "/" else types.common((left.type, right.type)) or DOUBLE
    type_ = INT if type_ == types.NULL else type_
    return Call(operator, (coerce(left, type_), coerce(right, type_)), type_)


def overflows(call: Call) -> bool:
    """Whether a result may not fit its type: floating-point numbers become infinite instead."""
    return not pa.types.is_floating(call.type)


def _checked(kernel: Callable[..., pa.Array], exact: Callable[..., Decimal]) -> Kernel:
    """An operator that Arrow checks for integers and floats, and that ``exact`` does for decimals."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        if not pa.types.is_decimal(call.type):
            return kernel(*args)
        if sum(arg.type.precision for arg in args) < 38 and (result := kernel(*args)).type == call.type:
            return result
        return by_row(lambda *row: to_decimal(exact(*row), call.type))(call, args)

    return apply


def refuse_zero(call: Call, left: Datum, right: Datum) -> None:
    """Raises if a number that is not NULL is divided by zero."""
    zero = pc.equal(right, pa.scalar(0, right.type))
    if any_true(zero) and any_true(pc.and_kleene(zero, pc.is_valid(left))):
        raise DataError(f"division by zero in {shown(call)}; guard it with NULLIF(..., 0) or CASE")


def _divide(call: Call, args: Sequence[Datum]) -> pa.Array:
    refuse_zero(call, *args)
    if call.type == INTERVAL:
        return scaled(call, args)
    if pa.types.is_decimal(call.type):
        return by_row(lambda a, b: to_decimal(WIDE.divide(a, b), call.type))(call, args)
    return pc.divide(*(pc.cast(arg, pa.float64()) for arg in args))


def remainder(call: Call, args: Sequence[Datum], positive: bool = False) -> pa.Array:
    """The remainder with the dividend's sign, or with ``positive`` in the divisor's range."""
    refuse_zero(call, *args)
    if pa.types.is_decimal(call.type):
        return by_row(partial(_decimal_remainder, call))(call, args)
    left, right = (pc.fill_null(arg, pa.scalar(1, arg.type)) for arg in args)
    a, n = to_numpy(left), to_numpy(right)
    with np.errstate(all="ignore"):
        values = np.fmod(a, n)
        if positive:
            values = np.where(values < 0, np.fmod(values + n, n), values)
    return where_known(args, pa.array(values, call.type))


def _decimal_remainder(call: Call, left: Decimal, right: Decimal) -> Decimal:
    whole = (WIDE.divide(left, right)).to_integral_value(ROUND_DOWN)
    return to_decimal(WIDE.subtract(left, WIDE.multiply(right, whole)), call.type)


def _whole_division(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Division toward zero."""
    refuse_zero(call, *args)
    least, minus_one = pa.scalar(-(2**63), pa.int64()), pa.scalar(-1, pa.int64())
    if any_true(pc.and_(pc.equal(args[0], least), pc.equal(args[1], minus_one))):
        raise DataError(f"{shown(call)} cannot be computed: overflow")
    safe = pc.if_else(pc.equal(args[1], 0), pa.scalar(1, pa.int64()), args[1])
    return pc.divide(args[0], safe)


def _numbers(name: str, doc: str, example: str, kernel: Kernel, **more: Any) -> None:
    rule = partial(arithmetic, name)
    signature = "number, number -> number"
    ARITHMETIC.define(name, signature, doc, example, kernel, rule=rule, operator=True, **more)


_numbers("+", "sum; of a DATE and an INT, days later; of a time and an interval, a time", "1 + 2.5 -> 3.5",
         _checked(pc.add_checked, WIDE.add), raises=overflows)  # fmt: skip
_numbers("-", "difference; of a DATE and an INT, days earlier; of two times, an interval", "3 - 1 -> 2",
         _checked(pc.subtract_checked, WIDE.subtract), raises=overflows)  # fmt: skip
_numbers("*", "product", "1.5 * 1.5 -> 2.25",
         of_intervals(_checked(pc.multiply_checked, WIDE.multiply), scaled), raises=overflows)  # fmt: skip
_numbers("/", "quotient, DOUBLE or DECIMAL; division by zero is an error", "7 / 2 -> 3.5e0", _divide,
         raises=True)  # fmt: skip
_numbers("%", "remainder with the sign of the first", "-7 % 3 -> -1", remainder, raises=True)
ARITHMETIC.define("div", "BIGINT, BIGINT -> BIGINT", "whole quotient, toward zero", "-7 DIV 2 -> -3L",
                  _whole_division, raises=True, operator=True)  # fmt: skip
ARITHMETIC.define("negative", "number or interval -> number or interval", "negated", "-(2 + 3) -> -5",
                  of_intervals(arrow(pc.negate_checked), negated),
                  raises=overflows, operator=True, spark="(- {0})")  # fmt: skip
for _sign, _word, _example, _bits in (
    ("&", "and", "6 & 3 -> 2", pc.bit_wise_and),
    ("|", "or", "6 | 3 -> 7", pc.bit_wise_or),
    ("^", "exclusive or", "6 ^ 3 -> 5", pc.bit_wise_xor),
):
    ARITHMETIC.define(_sign, "integer, integer -> integer", f"bitwise {_word}", _example, arrow(_bits),
                      operator=True)  # fmt: skip
