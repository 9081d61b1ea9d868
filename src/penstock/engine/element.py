"""Elements, in chunks: columns of timestamps, signs and payload.

An element is a tuple with a timestamp and a sign: + enters a relation, − leaves it. A chunk holds many.
Three things travel beside them where the plan says so:

* ``end``: under a time window a tuple's end of life is known when it arrives. A chunk with ``end`` has only +
  elements; each is in the relation at the instants ``ts <= τ < end`` and no − element follows. The exception
  are ends that are corrected (``Node.corrects``): a − element says that a tuple that was to leave at ``end``
  leaves at ``ts``.
* ``rid``: under a row window the end is learned later. The − element names its + by this row id.
* ``rows``: where the tuples are in the store of the plan's window (``Node.stored``), for operators that read
  it there instead of keeping a copy. Valid within a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

FOREVER = np.iinfo(np.int64).max
"""The end of a tuple's life when none is known, and the progress of an input that has ended."""
BEFORE_TIME = np.iinfo(np.int64).min
"""The timestamp of static rows, and the progress of an input before its first arrival."""


class Pattern(Enum):
    """How a relation changes, which decides what state its consumers need (DESIGN: update patterns)."""

    APPEND = "append"
    """Only grows: + elements, nothing ever leaves."""
    EXPIRING = "expiring"
    """Ends of life are known on arrival: chunks carry ``end``."""
    CHANGING = "changing"
    """− elements come when they come, in timestamp order."""


@dataclass(frozen=True)
class Chunk:
    """A run of elements. ``columns`` holds the payload."""

    ts: Int64s
    sign: Int8s
    columns: pa.RecordBatch
    end: Int64s | None = None
    rid: Int64s | None = None
    rows: Int64s | None = None

    payload = True

    @staticmethod
    def of(ts: Int64s, columns: pa.RecordBatch, *, end: Int64s | None = None) -> Chunk:
        """A chunk of insertions."""
        return Chunk(ts, np.ones(len(ts), np.int8), columns, end)

    @staticmethod
    def empty(schema: pa.Schema) -> Chunk:
        none = np.empty(0, np.int64)
        return Chunk(none, np.empty(0, np.int8), batch_of([pa.nulls(0, f.type) for f in schema], schema, 0))

    @staticmethod
    def concat(chunks: Sequence[Chunk], schema: pa.Schema) -> Chunk:
        """Concatenate chunks in their order. All or none of them carry ``end`` (``rid``)."""
        chunks = [c for c in chunks if len(c)]
        if not chunks:
            return Chunk.empty(schema)
        if len(chunks) == 1:
            return chunks[0]
        length = sum(len(c) for c in chunks)
        columns = [pa.concat_arrays([c.columns.column(i) for c in chunks]) for i in range(len(schema))]
        return Chunk(
            np.concatenate([c.ts for c in chunks]),
            np.concatenate([c.sign for c in chunks]),
            batch_of(columns, schema, length),
            _concat([c.end for c in chunks]),
            _concat([c.rid for c in chunks]),
            _concat([c.rows for c in chunks]),
        )

    def __len__(self) -> int:
        return len(self.ts)

    def column(self, name: str) -> pa.Array:
        return self.columns.column(self.columns.schema.get_field_index(name))

    def mapping(self) -> dict[str, pa.Array]:
        """The payload columns by name, for the expression evaluator."""
        return {f.name: self.columns.column(i) for i, f in enumerate(self.columns.schema)}

    def take(self, indices: Int64s) -> Chunk:
        columns = take_rows(self.columns, indices)
        beside = (_at(array, indices) for array in (self.end, self.rid, self.rows))
        return Chunk(self.ts[indices], self.sign[indices], columns, *beside)

    def where(self, mask: Bools) -> Chunk:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Chunk:
        """A run of the chunk, without copying."""
        part = slice(start, stop)
        columns = self.columns.slice(start, stop - start)
        beside = (_at(array, part) for array in (self.end, self.rid, self.rows))
        return Chunk(self.ts[part], self.sign[part], columns, *beside)

    def in_order(self) -> Chunk:
        """Sorted by timestamp; elements of one instant keep their order."""
        if len(self) < 2 or bool((self.ts[1:] >= self.ts[:-1]).all()):
            return self
        return self.take(np.argsort(self.ts, kind="stable"))

    def with_columns(self, columns: pa.RecordBatch) -> Chunk:
        """The same elements with another payload."""
        return replace(self, columns=columns)


def _concat(parts: list[Int64s | None]) -> Int64s | None:
    present = [p for p in parts if p is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


def _at(array: Int64s | None, where: Int64s | slice) -> Int64s | None:
    return None if array is None else array[where]


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """A record batch that keeps its length even without columns (COUNT(*) needs none)."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), schema=schema)
    struct = pa.StructArray.from_buffers(pa.struct([]), length, [None])
    return pa.RecordBatch.from_struct_array(struct)


def values_at(column: pa.Array, places: Int64s) -> pa.Array:
    """The values at some places; a run of neighbours is not copied.

    >>> values_at(pa.array([5, 6, 7, 8]), np.array([1, 2, 3])).to_pylist()
    [6, 7, 8]
    """
    count = len(places)
    if count and places[-1] - places[0] == count - 1 and (places[1:] > places[:-1]).all():
        return column.slice(int(places[0]), count)
    return column.take(pa.array(places))


def take_rows(batch: pa.RecordBatch, indices: Int64s) -> pa.RecordBatch:
    """Rows of a batch at the given places."""
    picks = pa.array(indices)
    return batch_of([c.take(picks) for c in batch.columns], batch.schema, len(indices))


def operation(sign: pa.Array) -> pa.Array:
    """'+' or '-' for each sign."""
    return pc.if_else(pc.greater(sign, pa.scalar(0, pa.int8())), "+", "-")
