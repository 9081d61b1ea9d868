"""The synopses of a multiway join: a store for each input, with the keys that join it to the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import FOREVER, Bools, Chunk, Int64s
from penstock.engine.indexes.index import Index, RangeIndex
from penstock.engine.joins.bands import Band, Side, order_keys_of
from penstock.engine.kernels.hashing import as_integers, hash_rows, validity
from penstock.engine.operator import Node
from penstock.engine.synopses.store import Stores
from penstock.streamon.access import AdaptiveAccess, Chooser

KeyClass = tuple[tuple[int, str], ...]
"""Columns that must be equal: (number of the input, name of its column), at most one an input."""


BY_EQUALITY = ("hash", "b+tree", "t-tree", "none")
BY_RANGE = ("b+tree", "t-tree", "none")
"""Access methods that can be chosen; the first until something is known."""


class JoinInputs:
    """Stores of ``parts``, joined on key ``classes`` and ``bands``; ``read`` are columns that are read later.

    The keys of a store are those of its classes, those of its bands, the row id that − elements name, and
    where only ``some_probe`` whether the row does.
    """

    def __init__(
        self,
        opened: Stores,
        parts: Sequence[Node],
        classes: Sequence[KeyClass],
        read: Collection[str],
        bands: Sequence[Band] = (),
        chooser: Chooser | None = None,
        some_probe: bool = False,
    ) -> None:
        self.bands = bands
        self._chooser = chooser
        self._access: dict[tuple[int, tuple[int, ...]], AdaptiveAccess] = {}
        self._entered: dict[tuple[int, tuple[int, ...]], int] = {}
        self.column = [dict(c) for c in classes]
        self.exact = [_fits_integer(parts, c) for c in classes]
        self.classes_of = [
            [c for c, members in enumerate(self.column) if i in members] for i in range(len(parts))
        ]
        hashed = {column for c, ok in zip(classes, self.exact, strict=True) if not ok for _, column in c}
        wanted = hashed.union(read)
        self._kept = [pa.schema([f for f in p.schema if f.name in wanted]) for p in parts]
        sides = [side for b in bands for side in (b.left, b.right)]
        self._band_columns = [sorted({c for k, c in sides if k == i}) for i in range(len(parts))]
        more = 2 if some_probe else 1
        keys = [len(c) + len(b) + more for c, b in zip(self.classes_of, self._band_columns, strict=True)]
        self.stores = [opened.open(s, keys=k) for s, k in zip(self._kept, keys, strict=True)]

    def __len__(self) -> int:
        return len(self.stores)

    def insert(self, i: int, chunk: Chunk, probing: Bools | None = None) -> Int64s:
        """Store the + elements of input i; the rows they became. A NULL key never joins: not stored.

        ``probing``: which of them probe, if only some do.
        """
        keys = [self.key_column(chunk, i, c) for c in self.classes_of[i]]
        keys += [order_keys_of(chunk.column(c)) for c in self._band_columns[i]]
        if keys:
            usable = np.logical_and.reduce([valid for _, valid in keys])
            if not usable.all():
                chunk = chunk.where(usable)
                keys = [(k[usable], v[usable]) for k, v in keys]
                probing = None if probing is None else probing[usable]
        ends = chunk.end if chunk.end is not None else np.full(len(chunk), FOREVER)
        ids = chunk.rid if chunk.rid is not None else np.zeros(len(chunk), np.int64)
        every = [*keys, (ids, np.full(len(chunk), chunk.rid is not None))]
        every += [] if probing is None else [(ids, probing)]
        return self.stores[i].insert(chunk.ts, ends, every, [chunk.column(f.name) for f in self._kept[i]])

    def key_column(self, chunk: Chunk, i: int, c: int) -> tuple[Int64s, Bools]:
        """The key of a class of elements of input i, and whether it is not NULL."""
        column = chunk.column(self.column[c][i])
        keys = as_integers(column) if self.exact[c] else hash_rows([column], len(column))
        assert keys is not None
        return keys, validity(column)

    def end(self, i: int, gone: Chunk) -> tuple[Int64s, Bools]:
        """Set the end of the rows that − elements name: which rows, and which elements found theirs."""
        store = self.stores[i]
        if not len(gone):
            return np.empty(0, np.int64), np.ones(0, np.bool_)
        assert gone.rid is not None
        ids = len(self.classes_of[i]) + len(self._band_columns[i])
        rows = store.index((ids,)).find(store, gone.rid)  # type: ignore[union-attr]
        found = rows >= 0
        store.end(rows[found], gone.ts[found])
        return rows[found], found

    def probes(self, i: int, rows: Int64s) -> Bools:
        """Which rows of input i probe the others."""
        return self.stores[i].key(len(self.classes_of[i]) + len(self._band_columns[i]) + 1, rows)[1]

    def shared(self, j: int, bound: Collection[int]) -> list[int]:
        """Classes that join input j to bound ones."""
        return [c for c in self.classes_of[j] if not self.column[c].keys().isdisjoint(bound)]

    def key(self, i: int, c: int, rows: Int64s) -> tuple[Int64s, Bools]:
        """The key of a class of rows of input i, and whether it is not NULL."""
        return self.stores[i].key(self.classes_of[i].index(c), rows)

    def index(self, j: int, classes: Sequence[int], probes: int = 0) -> Index:
        """Input j's index on the keys of some classes, for so many tuples to probe it."""
        keys = tuple(self.classes_of[j].index(c) for c in classes)
        return self._chosen(j, keys, BY_EQUALITY, probes)

    def _chosen(self, j: int, keys: tuple[int, ...], methods: Sequence[str], probes: int) -> Index:
        access = self._access.get((j, keys))
        if access is None:
            access = self._access[j, keys] = AdaptiveAccess(methods, self._chooser)
        store = self.stores[j]
        access.probed(probes, store.next - store.base)
        return store.index(keys, access.method)

    def reconsider(self) -> None:
        """Choose access methods again: a new index is built beside the old one, which then goes."""
        for (j, keys), access in self._access.items():
            store, before = self.stores[j], access.method
            entered = store.next - self._entered.get((j, keys), store.base)
            self._entered[j, keys] = store.next
            chosen = access.reconsider(entered, len(store))
            if chosen is not None:
                store.index(keys, chosen)
                store.drop_index(keys, before)

    def access(self, labels: Sequence[str]) -> dict[str, Any]:
        """How each window is probed, by what it is probed for."""
        told = {}
        for (j, keys), access in self._access.items():
            columns = [self.column[self.classes_of[j][k]][j] for k in keys if k < len(self.classes_of[j])]
            near = [self._band_columns[j][k - len(self.classes_of[j])] for k in keys[: not columns]]
            told[f"{labels[j]} by {' and '.join(columns or near)}"] = access.metrics()
        return told

    def bands_into(self, j: int, bound: Collection[int]) -> list[Band]:
        """Bands that keep input j near bound ones, j on the left; those that bind on both ends first."""
        found = [b.seen_from(j) for b in self.bands if j in b.inputs and b.inputs - {j} <= set(bound)]
        return sorted(found, key=lambda b: not b.both)

    def band_key(self, side: Side) -> tuple[int, int]:
        """The store that holds one side of a band, and the number of the key there."""
        i, column = side
        return i, len(self.classes_of[i]) + self._band_columns[i].index(column)

    def order_keys(self, side: Side, rows: Int64s) -> Int64s:
        """The keys of one side of a band, of rows of its input."""
        i, key = self.band_key(side)
        return self.stores[i].key(key, rows)[0]

    def range_index(self, side: Side, probes: int = 0) -> RangeIndex:
        """The index on one side of a band, for so many tuples to probe it."""
        i, key = self.band_key(side)
        index = self._chosen(i, (key,), BY_RANGE, probes)
        assert isinstance(index, RangeIndex)
        return index


def _fits_integer(parts: Sequence[Node], members: KeyClass) -> bool:
    """Whether a class's values are int64 themselves, or have to be hashed to one."""
    types = [parts[i].schema.field(column).type for i, column in members]
    return all(as_integers(pa.nulls(0, t)) is not None for t in types)
