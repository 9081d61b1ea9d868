"""Vectorised evaluation of bound expressions over Arrow columns, with Spark 4's (ANSI) meaning.

The result is the value that Spark SQL returns for the same expression on the same row. NULL is unknown
(Kleene AND/OR), NaN equals NaN and is the largest number, integers never wrap: overflow, division by zero and
an impossible cast raise :class:`~penstock.errors.DataError`, as in Spark.

Every call is one or a few ``pyarrow.compute`` kernels over whole columns. Literals stay Arrow scalars, and a
call of scalars alone is computed once. A *form* (CASE, COALESCE, AND, OR) decides which rows reach which
argument: an argument that could raise is evaluated on those rows only and scattered back, so ``CASE WHEN b <>
0 THEN a / b END`` is safe; one that cannot raise is evaluated whole, which is faster. Kernels are in
:mod:`penstock.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.user_function import call_user_function
from penstock.errors import DataError, EngineError
from penstock.expression import Call, Column, Expression, Literal, PythonCall, shown
from penstock.expression import columns as columns_of
from penstock.functions import FUNCTIONS, may_raise
from penstock.functions.kernels import Datum

Columns = Mapping[str, pa.Array]


def evaluate(expression: Expression, columns: Columns, length: int) -> pa.Array:
    """The expression's value for each of ``length`` rows.

    >>> from penstock.expression import Call, Column, Literal
    >>> a = Column("S.a", pa.int64())
    >>> twice = Call("*", (a, Literal(2, pa.int64())), pa.int64())
    >>> evaluate(twice, {"S.a": pa.array([1, None, 3])}, 3).to_pylist()
    [2, None, 6]
    """
    if length == 0:
        return pa.array([], expression.type)
    return _broadcast(_value(expression, columns, length), length)


def true_mask(expression: Expression, columns: Columns, length: int) -> np.ndarray:
    """For each row whether the expression is true; NULL is not.

    >>> from penstock.expression import Call, Column, Literal
    >>> big = Call(">", (Column("S.a", pa.int64()), Literal(1, pa.int64())), pa.bool_())
    >>> true_mask(big, {"S.a": pa.array([1, None, 3])}, 3).tolist()
    [False, False, True]
    """
    return _is_true(evaluate(expression, columns, length))


def _value(expression: Expression, columns: Columns, length: int) -> Datum:
    if isinstance(expression, Column):
        return _column(expression, columns)
    if isinstance(expression, Literal):
        return pa.scalar(expression.value, expression.type)
    if isinstance(expression, PythonCall):
        args = [evaluate(arg, columns, length) for arg in expression.args]
        return call_user_function(expression, args, length)
    form = FORMS.get(expression.function)
    if form is not None:
        return _typed(form(expression, columns, length), expression.type)
    return _call(expression, [_value(arg, columns, length) for arg in expression.args])


def _column(column: Column, columns: Columns) -> pa.Array:
    try:
        array = columns[column.name]
    except KeyError:
        raise EngineError(f"column {column.name} is not among {', '.join(columns)}") from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _call(call: Call, args: list[Datum]) -> Datum:
    function = FUNCTIONS.get(call.function)
    if function is None or function.kernel is None:
        raise EngineError(f"no kernel of {call.function!r}, needed for {call}")
    untyped = all(pa.types.is_null(arg.type) for arg in args)
    if pa.types.is_null(call.type) and (untyped or not function.raises):
        return pa.scalar(None)
    args = [arg.cast(pa.bool_()) if pa.types.is_null(arg.type) else arg for arg in args]
    constant = all(isinstance(arg, pa.Scalar) for arg in args)
    if constant:
        args = [_broadcast(arg, 1) for arg in args]
    try:
        result = _typed(function.kernel(call, args), call.type)
    except pa.ArrowInvalid as error:
        raise DataError(f"{shown(call)} cannot be computed: {error}") from None
    except ArithmeticError:
        raise DataError(f"{shown(call)} cannot be computed: it is out of range") from None
    except pa.lib.ArrowCapacityError:
        raise DataError(f"{shown(call)} cannot be computed: over 2 GB of text in a batch") from None
    except MemoryError:
        raise DataError(f"{shown(call)} cannot be computed: there is no memory for it") from None
    return result[0] if constant else result


def _typed(value: Datum, type_: pa.DataType) -> Datum:
    return value if value.type == type_ else value.cast(type_)


def _broadcast(value: Datum, length: int) -> pa.Array:
    return pa.repeat(value, length) if isinstance(value, pa.Scalar) else value


# Forms: which rows reach which argument.


def _on_rows(expression: Expression, columns: Columns, rows: np.ndarray) -> pa.Array:
    """The expression on the given rows alone."""
    indices = pa.array(rows)
    needed = {name: columns[name].take(indices) for name in columns_of(expression)}
    return evaluate(expression, needed, len(rows))


def _and(call: Call, columns: Columns, length: int) -> Datum:
    return _connect(call, columns, length, pc.and_kleene, decided_by=False)


def _or(call: Call, columns: Columns, length: int) -> Datum:
    return _connect(call, columns, length, pc.or_kleene, decided_by=True)


def _connect(
    call: Call, columns: Columns, length: int, kernel: Callable[..., pa.Array], decided_by: bool
) -> Datum:
    """AND or OR, from left to right; rows already decided do not reach arguments that could raise."""
    result = _value(call.args[0], columns, length)
    for arg in call.args[1:]:
        if may_raise(arg):
            result = _broadcast(result, length)
            open_rows = np.flatnonzero(~_is_true(pc.equal(result, decided_by)))
            value = _scatter([(open_rows, _on_rows(arg, columns, open_rows))], length, call.type)
        else:
            value = _value(arg, columns, length)
        result = kernel(result, value)
    return result


def _case(call: Call, columns: Columns, length: int) -> Datum:
    *pairs, default = call.args
    conditions, values = pairs[0::2], pairs[1::2]
    if not any(may_raise(arg) for arg in call.args):
        return _case_whole(call, conditions, values, default, columns, length)
    return _case_by_rows(call, conditions, values, default, columns, length)


def _case_whole(
    call: Call,
    conditions: Sequence[Expression],
    values: Sequence[Expression],
    default: Expression,
    columns: Columns,
    length: int,
) -> Datum:
    result = _typed(_value(default, columns, length), call.type)
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        chosen = pc.fill_null(_value(condition, columns, length), False)
        result = pc.if_else(chosen, _typed(_value(value, columns, length), call.type), result)
    return result


def _case_by_rows(
    call: Call,
    conditions: Sequence[Expression],
    values: Sequence[Expression],
    default: Expression,
    columns: Columns,
    length: int,
) -> pa.Array:
    rows = np.arange(length)
    pieces = []
    for condition, value in zip(conditions, values, strict=True):
        chosen = _is_true(_on_rows(condition, columns, rows))
        pieces.append((rows[chosen], _on_rows(value, columns, rows[chosen])))
        rows = rows[~chosen]
    pieces.append((rows, _on_rows(default, columns, rows)))
    return _scatter(pieces, length, call.type)


def _coalesce(call: Call, columns: Columns, length: int) -> Datum:
    if not any(may_raise(arg) for arg in call.args):
        return pc.coalesce(*(_typed(_value(arg, columns, length), call.type) for arg in call.args))
    rows = np.arange(length)
    pieces = []
    for arg in call.args:
        value = _on_rows(arg, columns, rows)
        known = value.is_valid().to_numpy(zero_copy_only=False)
        pieces.append((rows[known], value.filter(pa.array(known))))
        rows = rows[~known]
    return _scatter(pieces, length, call.type)


def _is_true(values: pa.Array) -> np.ndarray:
    return values.fill_null(False).to_numpy(zero_copy_only=False)


def _scatter(pieces: list[tuple[np.ndarray, pa.Array]], length: int, type_: pa.DataType) -> pa.Array:
    """An array with each piece's values at its rows, NULL at rows of no piece."""
    source = np.full(length, -1)
    start = 0
    for rows, values in pieces:
        source[rows] = np.arange(start, start + len(values))
        start += len(values)
    joined = pa.concat_arrays([_typed(values, type_) for _, values in pieces])
    return joined.take(pa.array(source, mask=source < 0))


FORMS: dict[str, Callable[[Call, Columns, int], Datum]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
}
