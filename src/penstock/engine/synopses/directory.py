"""A directory of distinct rows: each gets a small number (a group, a partition, a value of a relation).

Rows are found by their hash and then compared on the real columns, so a collision costs a second look-up and
never a wrong result. Equality is that of GROUP BY: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0. What
is kept of equal rows is 0.0, as in Spark, whichever came first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import directory as kernel
from penstock.engine.kernels.hashing import as_integers, hash_rows, validity
from penstock.engine.overflow import filled, zeros
from penstock.engine.settings import MIN_DIRECTORY_ENTRIES
from penstock.engine.snapshot import SnapshotError, State, Stateful
from penstock.engine.synopses.columns import column_for


class Directory(Stateful):
    """Numbers 0, 1, 2, ... for the distinct rows, in arrival order.

    ``extra`` columns are kept from the first of equal rows and do not make rows distinct.
    """

    def __init__(self, types: Sequence[pa.DataType], extra: Sequence[pa.DataType] = ()) -> None:
        self._types = [*types, *extra]
        self._keys = len(types)
        self._clear(MIN_DIRECTORY_ENTRIES)

    def _clear(self, capacity: int) -> None:
        self._count = 0
        self._heads = filled((capacity,), -1, np.int64)
        self._entries = zeros((capacity, 2), np.int64)
        self._columns = [column_for(t, capacity) for t in self._types]

    def __len__(self) -> int:
        return self._count

    def assign(self, columns: Sequence[pa.Array], length: int) -> Int64s:
        """The number of every row (keys, then extra columns), a new one where the row is new."""
        numbers = np.empty(length, np.int64)
        todo = np.arange(length)
        seed = 0
        while len(todo):
            some = columns if len(todo) == length else [c.take(pa.array(todo)) for c in columns]
            found = self._assign_by_hash(some, len(todo), seed)
            stored = [c.gather(found) for c in self._columns[: self._keys]]
            same = same_rows(some[: self._keys], stored, len(todo))
            numbers[todo[same]] = found[same]
            todo, seed = todo[~same], seed + 1
        return numbers

    def _assign_by_hash(self, columns: Sequence[pa.Array], length: int, seed: int) -> Int64s:
        hashes = hash_rows(columns[: self._keys], length, seed)
        numbers = [self._assign_some(columns, hashes, 0)]
        done = len(numbers[0])
        while done < length:
            self._grow()
            numbers.append(self._assign_some(columns, hashes, done))
            done += len(numbers[-1])
        return numbers[0] if len(numbers) == 1 else np.concatenate(numbers)

    def _assign_some(self, columns: Sequence[pa.Array], hashes: Int64s, start: int) -> Int64s:
        """The numbers of the rows from ``start`` on, as far as there is room for the new ones."""
        numbers, firsts = kernel.assign(self._heads, self._entries, self._count, hashes[start:])
        if len(firsts):
            for place, (column, array) in enumerate(zip(self._columns, columns, strict=True)):
                new = array.take(pa.array(firsts + start))
                column.append(self._count, one_zero(new) if place < self._keys else new)
            self._count += len(firsts)
        return numbers

    def _grow(self) -> None:
        """Make room for as many again: many rows of few groups need little of it."""
        capacity = 2 * len(self._heads)
        entries = zeros((capacity, 2), np.int64)
        entries[: self._count] = self._entries[: self._count]
        self._heads = filled((capacity,), -1, np.int64)
        kernel.link(self._heads, entries, self._count)
        self._entries = entries
        for column in self._columns:
            column.resize(0, self._count, capacity)

    def rows(self, numbers: Int64s) -> list[pa.Array]:
        return [c.gather(numbers) for c in self._columns]

    def column(self, place: int, numbers: Int64s) -> pa.Array:
        """One column of rows."""
        return self._columns[place].gather(numbers)

    def in_order(self, numbers: Int64s) -> Int64s:
        """Numbers in an order that follows from their rows alone, but for rows of equal hashes."""
        return np.asarray(numbers[np.argsort(self._entries[numbers, 0], kind="stable")])

    def keep(self, numbers: Int64s) -> None:
        """Keep only these rows, renumbered in this order."""
        self._fill(self.rows(numbers), self._entries[numbers, 0])

    def _fill(self, rows: Sequence[pa.Array], hashes: Int64s) -> None:
        self._clear(max(MIN_DIRECTORY_ENTRIES, 1 << int(2 * len(hashes)).bit_length()))
        self._entries[: len(hashes), 0] = hashes
        kernel.link(self._heads, self._entries, len(hashes))
        for column, array in zip(self._columns, rows, strict=True):
            column.append(0, array)
        self._count = len(hashes)

    def state(self) -> dict[str, State]:
        every = np.arange(self._count)
        return {"hashes": self._entries[every, 0], "columns": self.rows(every)}

    def _load(self, state: dict[str, State]) -> None:
        types = [c.type for c in state["columns"]]
        if types != self._types:
            raise SnapshotError(f"has columns of {types}, not of {self._types}")
        self._fill(state["columns"], state["hashes"])

    def nbytes(self) -> int:
        return int(self._heads.nbytes + self._entries.nbytes) + sum(c.nbytes() for c in self._columns)


def one_zero(array: pa.Array) -> pa.Array:
    """The array with 0.0 in place of -0.0."""
    return pc.add(array, pa.scalar(0.0, array.type)) if pa.types.is_floating(array.type) else array


def same_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Bools:
    """Where two runs of rows are equal in the sense of GROUP BY."""
    same = np.ones(length, np.bool_)
    for a, b in zip(left, right, strict=True):
        same &= _same(a, b)
    return same


def _same(a: pa.Array, b: pa.Array) -> Bools:
    x, y = as_integers(a), as_integers(b)
    if pa.types.is_list(a.type):
        equal = _same_lists(a, b)
    elif x is not None and y is not None:
        equal = x == y
    else:
        equal = np.asarray(pc.equal(a, b).fill_null(False).to_numpy(zero_copy_only=False))
    if a.null_count == 0 and b.null_count == 0:
        return equal
    valid_a, valid_b = validity(a), validity(b)
    return (equal & valid_a & valid_b) | ~(valid_a | valid_b)


def _same_lists(a: pa.Array, b: pa.Array) -> Bools:
    """Where two runs of lists have the same elements in the same order; NULLs count as no elements."""
    lengths = [np.asarray(pc.list_value_length(x).fill_null(0)).astype(np.int64) for x in (a, b)]
    same = lengths[0] == lengths[1]
    alike = [x.filter(pa.array(same)).flatten() for x in (a, b)]
    owners = np.repeat(np.flatnonzero(same), lengths[0][same])
    same[owners[~_same(*alike)]] = False
    return same
