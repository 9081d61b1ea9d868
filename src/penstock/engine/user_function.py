"""Calls of registered functions: what they return is checked, and what they raise is reported with its place.

A vectorised function gets an Arrow array per argument and returns a value per row. One that was written for
single values fails, or returns a single value; if it works on the values of the first row, the error says so.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import CatalogError, DataError
from penstock.expression import PythonCall, RowByRow
from penstock.schema import sql_name

_FOR_VALUES = (
    "it works on single values but gets Arrow arrays, with a value per row: use pyarrow.compute in it, or "
    "register it with scalar=True, in evaluate (function, 'INT', True)"
)

_ARRAYS = (
    "a function gets Arrow arrays and returns a value per row: use pyarrow.compute in it, or register it "
    "with scalar=True to get single values"
)
_OF_ARRAYS = (TypeError, AttributeError, pa.ArrowNotImplementedError)
"""What code that was written for single values raises where it gets arrays."""


def call_user_function(call: PythonCall, args: Sequence[pa.Array], length: int) -> pa.Array:
    """The checked result of a user's function.

    An exception in it may be due to a row that another predicate drops; a wrong number of values is an error
    of the function itself.
    """
    try:
        answer = call.implementation(*args)
        answer = list(answer) if isinstance(answer, Iterator) else answer
        one = isinstance(answer, str | bytes) or not hasattr(answer, "__len__")
        given = None if one else len(answer)
        array = None
        if given == length:
            array = answer if isinstance(answer, pa.Array) else pa.array(answer, from_pandas=True)
    except Exception as error:
        raise _failure(call, args, error) from error
    if array is not None:
        return _as_declared(call, array)
    shape = repr(answer)[:40] if given is None else "1 value" if given == 1 else f"{given} values"
    rows = "1 row" if length == 1 else f"{length} rows"
    message = f"function {call.function} returned {shape} for {rows}; it must return one per row"
    raise CatalogError(f"{message}; {_FOR_VALUES}" if one and _is_for_values(call, args) else message)


def _as_declared(call: PythonCall, array: pa.Array) -> pa.Array:
    """What a function returned, as values of the type that it was registered with."""
    try:
        return array if array.type == call.type else array.cast(call.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        first = next((repr(v.as_py()) for v in array if v.is_valid), "NULL")
        found = f"values such as {first[:40]}, and it was registered to return {sql_name(call.type)}"
        raise DataError(f"function {call.function} returned {found}; register it with their type") from None


def _failure(call: PythonCall, args: Sequence[pa.Array], error: Exception) -> Exception:
    """An exception of the function with its place; about its data unless it was written for single values."""
    said = " ".join(str(error).split())  # an error of an engine is one line
    sentence = f"function {call.function} failed{_place(call, error)}: {type(error).__name__}: {said}"
    if _is_for_values(call, args):
        return CatalogError(f"{sentence}; {_FOR_VALUES}")
    alone = "." not in call.function  # a part of an aggregate is named after it, and always gets arrays
    by_arrays = alone and not isinstance(call.implementation, RowByRow) and isinstance(error, _OF_ARRAYS)
    return DataError(f"{sentence}; {_ARRAYS}" if by_arrays else sentence)


def _place(call: PythonCall, error: Exception) -> str:
    """Where it was raised: the last line of the function's own file, which a notebook's cell is too."""
    own = call.implementation.function if isinstance(call.implementation, RowByRow) else call.implementation
    code = getattr(own, "__code__", None) or getattr(type(own).__call__, "__code__", None)
    lines = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    return f" at {lines[-1].filename}, line {lines[-1].lineno}" if lines else ""


def _is_for_values(call: PythonCall, args: Sequence[pa.Array]) -> bool:
    """Whether the function returns a single value for the values of the first row."""
    if isinstance(call.implementation, RowByRow) or not args or not len(args[0]):
        return False
    try:
        answer: Any = call.implementation(*(arg[0].as_py() for arg in args))
    except Exception:
        return False
    return answer is not None and (isinstance(answer, str | bytes) or not hasattr(answer, "__len__"))
