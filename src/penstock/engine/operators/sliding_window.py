"""seq-window with a slide: the window changes only at multiples of it.

``[RANGE t SLIDE l]`` at τ is ``[RANGE t]`` at the last multiple of l up to τ, so a tuple with timestamp s
enters at the first multiple of l from s on and leaves at the first one after s + t. ``[ROWS n SLIDE k]``
(of each partition) is ``[ROWS n]`` as it was when the number of rows was last a multiple of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk, Int64s
from penstock.engine.operator import Clock, Operator
from penstock.engine.synopses.partition_counts import PartitionCounts
from penstock.engine.synopses.store import Store


class SlidingRange(Operator):
    """Starts and ends are known; tuples wait for their start."""

    saved = ("_waiting",)

    def __init__(self, schema: pa.Schema, size: int | None, slide: int) -> None:
        self._schema, self._size, self._slide = schema, size, slide
        self._waiting = Chunk.empty(schema)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        starts = -(-chunk.ts // self._slide) * self._slide
        new = replace(chunk, ts=starts)
        if self._size is not None:
            ends = ((chunk.ts + self._size) // self._slide + 1) * self._slide
            new = replace(new, end=ends).where(starts < ends)
        every = Chunk.concat([self._waiting, new], self._schema)
        due = every.ts < clock.now
        self._waiting = every.where(~due)
        return every.where(due).in_order()

    def pending(self) -> Sequence[Int64s]:
        return [self._waiting.ts]

    def horizon(self) -> int:
        return int(self._waiting.ts.min()) if len(self._waiting) else super().horizon()

    def rows(self) -> int:
        return len(self._waiting)


class SlidingRows(Operator):
    """Keys of the store: 0 is the partition and position of a row, 1 the row id that elements carry.

    An unbounded window (``size`` None) only delays rows until their number is a multiple of the slide.
    """

    saved = ("_counts", "_store", "_arrived")

    def __init__(self, schema: pa.Schema, by: tuple[str, ...], size: int | None, slide: int) -> None:
        self._size, self._slide = size, slide
        self._counts = PartitionCounts(schema, by)
        self._store = Store(schema, keys=2)
        self._arrived = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        partitions, positions = self._counts.assign(chunk)
        self._insert(chunk, partitions, positions)
        moves = np.flatnonzero((positions + 1) % self._slide == 0)
        at, place, count = chunk.ts[moves], partitions[moves], positions[moves] + 1
        n, k = self._size or FOREVER // 2, self._slide
        entered = self._rows(place, at, np.maximum(count - k, count - n), count)
        left = self._rows(place, at, np.maximum(count - k - n, 0), np.minimum(count - n, count - k))
        passed_by = self._rows(place, at, count - k, np.maximum(count - n, count - k))
        for rows, when in (left, passed_by, *([entered] if self._size is None else [])):
            self._store.end(rows, when)
        out = self._elements(entered, left)
        if self._size is None:
            out = replace(out, rid=None)
        self._store.expire(clock.now)
        return out

    def _insert(self, chunk: Chunk, partitions: Int64s, positions: Int64s) -> None:
        valid = np.ones(len(chunk), np.bool_)
        ids = np.arange(self._arrived, self._arrived + len(chunk))
        self._arrived += len(chunk)
        keys = [(_key(partitions, positions), valid), (ids, valid)]
        self._store.insert(chunk.ts, np.full(len(chunk), FOREVER), keys, chunk.columns.columns)

    def _rows(self, place: Int64s, at: Int64s, first: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
        """The rows at positions ``first .. stop`` of each partition, and the instant that goes with them."""
        sizes = np.maximum(stop - first, 0)
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        keys = _key(np.repeat(place, sizes), np.repeat(first, sizes) + offsets)
        found = self._store.index((0,)).find(self._store, keys)  # type: ignore[union-attr]
        return found, np.repeat(at, sizes)

    def _elements(self, entered: tuple[Int64s, Int64s], left: tuple[Int64s, Int64s]) -> Chunk:
        rows = np.concatenate([entered[0], left[0]])
        sign = np.repeat(np.array([1, -1], np.int8), [len(entered[0]), len(left[0])])
        ids, _ = self._store.key(1, rows)
        return Chunk(np.concatenate([entered[1], left[1]]), sign, self._store.rows(rows), rid=ids).in_order()

    def horizon(self) -> int:
        # The next move of the window depends on the number of all rows so far.
        return int(BEFORE_TIME) if self._arrived and self._slide > 1 else self._store.oldest()

    def rows(self) -> int:
        return len(self._store)

    def bytes(self) -> int:
        return self._store.nbytes() + self._counts.nbytes()


def _key(partitions: Int64s, positions: Int64s) -> Int64s:
    """A window holds far fewer than 2**32 rows, so the low bits of a position identify its rows."""
    return (partitions << 32) | (positions & 0xFFFFFFFF)
