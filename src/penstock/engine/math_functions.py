"""More functions of numbers, by Spark's names; those with operators are in ``functions``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.cast import cast
from penstock.engine.functions import Datum, Function, _kernel, _logarithm, _numpy, _refuse_zero
from penstock.errors import DataError
from penstock.expression import Call, shown


def _ufunc(function: np.ufunc) -> Function:
    """A function of numbers that NumPy has; NULL if an argument is."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        filled = [pc.fill_null(arg, pa.scalar(0, arg.type)) for arg in args]
        with np.errstate(all="ignore"):
            values = pa.array(function(*map(_numpy, filled)))
        return pc.if_else(_known(args), values, pa.scalar(None, values.type))

    return apply


def _known(args: Sequence[Datum]) -> Datum:
    known = pc.is_valid(args[0])
    for arg in args[1:]:
        known = pc.and_(known, pc.is_valid(arg))
    return known


def _div(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Whole division toward zero."""
    _refuse_zero(call, *args)
    least, minus_one = pa.scalar(-(2**63), pa.int64()), pa.scalar(-1, pa.int64())
    over = pc.and_(pc.equal(args[0], least), pc.equal(args[1], minus_one))
    if pc.any(over).as_py():
        raise DataError(f"{shown(call)} cannot be computed: overflow")
    safe = pc.if_else(pc.equal(args[1], 0), pa.scalar(1, pa.int64()), args[1])
    return pc.divide(args[0], safe)


def _pmod(call: Call, args: Sequence[Datum]) -> pa.Array:
    """The remainder with the divisor's range: never negative for a positive divisor."""
    _refuse_zero(call, *args)
    left, right = (pc.fill_null(arg, pa.scalar(1, arg.type)) for arg in args)
    a, n = np.broadcast_arrays(_numpy(left), _numpy(right))
    with np.errstate(all="ignore"):
        remainder = np.fmod(a, n)
        values = np.where(remainder < 0, np.fmod(remainder + n, n), remainder)
    return pc.if_else(_known(args), pa.array(values, call.type), pa.scalar(None, call.type))


def _log(call: Call, args: Sequence[Datum]) -> pa.Array:
    base, value = (pc.if_else(pc.less_equal(a, 0.0), pa.scalar(None, pa.float64()), a) for a in args)
    return pc.divide(pc.ln(value), pc.ln(base))


def _log1p(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.log1p(pc.if_else(pc.less_equal(args[0], -1.0), pa.scalar(None, pa.float64()), args[0]))


def _isnan(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.fill_null(pc.is_nan(args[0]), False)


def _nanvl(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pc.if_else(pc.is_nan(args[0]), args[1], args[0])


def _rint(call: Call, args: Sequence[Datum]) -> pa.Array:
    return cast(pc.round(args[0], round_mode="half_to_even"), call.type)


MATH: dict[str, Function] = {
    "div": _div,
    "pmod": _pmod,
    "&": _kernel(pc.bit_wise_and),
    "|": _kernel(pc.bit_wise_or),
    "^": _kernel(pc.bit_wise_xor),
    "isnan": _isnan,
    "nanvl": _nanvl,
    "log": _log,
    "log1p": _log1p,
    "log2": _logarithm(pc.log2),
    "rint": _rint,
    "cbrt": _ufunc(np.cbrt),
    "expm1": _ufunc(np.expm1),
    "sin": _kernel(pc.sin),
    "cos": _kernel(pc.cos),
    "tan": _kernel(pc.tan),
    "asin": _kernel(pc.asin),
    "acos": _kernel(pc.acos),
    "atan": _kernel(pc.atan),
    "atan2": _kernel(pc.atan2),
    "sinh": _ufunc(np.sinh),
    "cosh": _ufunc(np.cosh),
    "tanh": _ufunc(np.tanh),
    "degrees": _ufunc(np.degrees),
    "radians": _ufunc(np.radians),
    "hypot": _ufunc(np.hypot),
}
