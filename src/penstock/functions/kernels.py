"""Building blocks of kernels: a kernel computes a function over Arrow columns.

A kernel takes its call (for the type and for messages) and its arguments, at least one of them an array and
the others arrays or scalars, and returns an array. :mod:`penstock.engine.evaluate` reports Arrow's errors
as :class:`~penstock.errors.DataError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expression import Call
from penstock.functions.settings import REPEATS_FROM

Datum: TypeAlias = pa.Array | pa.Scalar
Kernel: TypeAlias = Callable[[Call, Sequence[Datum]], pa.Array]


def arrow(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    """One of Arrow's kernels."""
    return lambda call, args: kernel(*args, **options)


def by_row(function: Callable[..., Any]) -> Kernel:
    """A Python function applied row by row, NULL if an argument is: slow, for rarely used functions.

    Where one argument varies and has equal values, it is applied once to each different value.
    """

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        varying = [n for n, arg in enumerate(args) if isinstance(arg, pa.Array)]
        if len(varying) == 1 and _repeats(args[varying[0]]):
            coded = args[varying[0]].dictionary_encode()
            different = [coded.dictionary if n == varying[0] else arg for n, arg in enumerate(args)]
            return every(call, different).take(coded.indices)
        return every(call, args)

    def every(call: Call, args: Sequence[Datum]) -> pa.Array:
        return pa.array([None if None in row else function(*row) for row in rows(args)], call.type)

    return apply


def _repeats(values: pa.Array) -> bool:
    """Whether few of many values are different, by a sample of them."""
    # Of floating numbers equal ones may differ: 0.0 and -0.0.
    if len(values) < REPEATS_FROM or pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return False
    some = values.take(pa.array(np.arange(0, len(values), max(1, len(values) // REPEATS_FROM))))
    return bool(pc.count_distinct(some).as_py() < len(some) // 2)


def ufunc(function: np.ufunc) -> Kernel:
    """A function of numbers that NumPy has; NULL if an argument is."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        filled = [pc.fill_null(arg, pa.scalar(0, arg.type)) for arg in args]
        with np.errstate(all="ignore"):
            values = pa.array(function(*map(to_numpy, filled)))
        return where_known(args, values)

    return apply


def rows(args: Sequence[Datum]) -> list[tuple[Any, ...]]:
    """The arguments row by row, as Python values."""
    length = next(len(arg) for arg in args if isinstance(arg, pa.Array))
    lists = [[arg.as_py()] * length if isinstance(arg, pa.Scalar) else arg.to_pylist() for arg in args]
    return list(zip(*lists, strict=True))


def constants(args: Sequence[Datum]) -> list[Any] | None:
    """The values of arguments that are all constant and not NULL, otherwise None."""
    known = all(isinstance(arg, pa.Scalar) and arg.is_valid for arg in args)
    return [arg.as_py() for arg in args] if known else None


def where_known(args: Sequence[Datum], values: pa.Array) -> pa.Array:
    """The values, NULL where an argument is."""
    if not any(arg.null_count if isinstance(arg, pa.Array) else not arg.is_valid for arg in args):
        return values
    known = reduce(pc.and_, map(pc.is_valid, args))
    return pc.if_else(known, values, pa.scalar(None, values.type))


def any_true(mask: Datum) -> bool:
    """Whether a mask is true anywhere."""
    return bool(mask.as_py() if isinstance(mask, pa.Scalar) else pc.any(mask).as_py())


def has_nan(args: Sequence[Datum]) -> bool:
    """Whether floating-point arguments have a NaN."""
    return pa.types.is_floating(args[0].type) and any(any_true(pc.is_nan(arg)) for arg in args)


def to_numpy(datum: Datum) -> np.ndarray:
    """An argument as a NumPy array, a scalar as one without dimension."""
    if isinstance(datum, pa.Scalar):
        return np.asarray(datum.as_py(), datum.type.to_pandas_dtype())
    return datum.to_numpy(zero_copy_only=False)
