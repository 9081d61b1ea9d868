"""Rows of equal timestamps in an order that does not depend on batches, tasks or partitions.

Row windows depend on it. The columns that order ties are: of files the time of the file, its name and the
place in it; of Kafka the partition; of a source without an order the row's own. Rows that are equal in them
keep the order in which they arrived: rows of one part of a file, or of one partition of Kafka, arrive in
their own order, and rows that are equal in all columns may change places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Chunk, Int64s


def in_tie_order(chunk: Chunk, names: Sequence[str], beside: Sequence[Int64s] = ()) -> Chunk:
    """A chunk in timestamp order, its elements of one instant in the order of these columns, then of numbers
    beside them.

    >>> batch = pa.record_batch({"a": [3, 1, 2, 0]})
    >>> in_tie_order(Chunk.of(np.array([1, 1, 1, 2]), batch), ["a"]).column("a").to_pylist()
    [1, 2, 3, 0]
    """
    same = chunk.ts[1:] == chunk.ts[:-1]
    if not (names or beside) or not same.any():
        return chunk
    tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
    picks = pa.array(tied)
    keys = [chunk.ts[tied], *(ranks(chunk.column(name).take(picks)) for name in names)]
    keys += [numbers[tied] for numbers in beside]
    if _in_order(keys):
        return chunk
    order = np.arange(len(chunk))
    order[tied] = tied[np.lexsort(keys[::-1])]
    return chunk.take(order)


def _in_order(keys: Sequence[Int64s]) -> bool:
    """Whether rows are in lexicographic order already."""
    equal = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        before, after = key[:-1], key[1:]
        if bool((equal & (before > after)).any()):
            return False
        equal &= before == after
    return True


def ranks(column: pa.Array) -> Int64s:
    """Numbers that order the values of a column as Spark does: NULLs first, NaN last.

    >>> ranks(pa.array([2.5, float("nan"), None, 1.0])).tolist()
    [2, 5, 0, 1]
    """
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(kind):
        # Few values and many rows.
        values = ranks(column.dictionary)
        places = np.asarray(column.indices.fill_null(0)).astype(np.int64)
        found = values[places] if len(values) else np.zeros(len(column), np.int64)
    elif pa.types.is_signed_integer(kind) and not column.null_count:
        return np.asarray(column).astype(np.int64)
    elif pa.types.is_nested(kind):
        return ranks(pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string()))
    else:
        found = np.asarray(pc.rank(column, tiebreaker="dense")).astype(np.int64)
    if pa.types.is_floating(kind):
        nan = np.asarray(pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False))
        found = np.where(nan, len(column) + 1, found)
    return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, found)
