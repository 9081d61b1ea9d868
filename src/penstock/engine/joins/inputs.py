"""The inputs of a join: for each a stub on the store that has its rows, and its join keys.

The rows of a window are in the window's store, which the join reads; for any other relation the join keeps
its own store. Keys are equivalence classes of columns and sides of bands. A NULL key joins nothing: such a
row is never looked up, and is not inserted into the join's own stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s
from penstock.engine.indexes.index import Index, RangeIndex
from penstock.engine.joins.bands import Band, Side
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.hashing import as_integers
from penstock.engine.kernels.probing import View
from penstock.engine.operator import Node
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.invalidation import INVALIDATIONS
from penstock.engine.synopses.store import KeyOf, Store, Stores
from penstock.engine.synopses.stub import Stub
from penstock.expression import Expression, columns
from penstock.functions import may_raise
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.access import AdaptiveAccess, Chooser
from penstock.streamon.invalidation import AdaptiveInvalidation

KeyClass = tuple[tuple[int, str], ...]
"""Columns that must be equal: (number of the input, name of its column), at most one per input."""

BY_EQUALITY = ("hash", "b+tree", "t-tree", "none")
BY_RANGE = ("b+tree", "t-tree", "none")
"""Access methods that can be chosen; the first is the default."""
_ID, _PROBES = 0, 1
"""Keys that come with the rows of a store of the join's own: the id that − elements name, and, where only
some rows probe, whether it does."""


class JoinInputs(Stateful):
    """Inputs ``parts`` joined on key ``classes``, ``bands`` and ``residual`` predicates.

    ``output``: the output columns. Without ``stores`` each input has its own store, whose rows are inserted
    with as many of the keys above as ``given`` has for it. Rows of the input ``passing`` are kept for a step.
    """

    saved = ("owned", "stubs")

    def __init__(
        self,
        stores: Stores | None,
        parts: Sequence[Node],
        classes: Sequence[KeyClass],
        residual: Sequence[Expression],
        output: Collection[str],
        bands: Sequence[Band] = (),
        chooser: Chooser | None = None,
        given: Sequence[int] = (),
        passing: int | None = None,
    ) -> None:
        self.bands, self._chooser = bands, chooser
        self._access: dict[tuple[int, tuple[int, ...]], AdaptiveAccess] = {}
        self._method: str | None = None
        self._entered: dict[tuple[int, tuple[int, ...]], int] = {}
        self._invalidation = [AdaptiveInvalidation(chooser) for _ in parts]
        self._probed = [False] * len(parts)
        self._held = [0] * len(parts)
        self.probes = [0] * len(parts)
        self.matches = [0] * len(parts)
        self._owner = {f.name: i for i, p in enumerate(parts) for f in p.schema}
        self.residual = [(r, {self._owner[c] for c in columns(r)}) for r in residual]
        self.fails = [may_raise(r) for r in residual]
        self.column = [dict(c) for c in classes]
        self.exact = [_fits_integer(parts, c) for c in classes]
        self.classes_of = [
            [c for c, members in enumerate(self.column) if i in members] for i in range(len(parts))
        ]
        sides = [side for b in bands for side in (b.left, b.right)]
        self._band_columns = [sorted({c for k, c in sides if k == i}) for i in range(len(parts))]
        hashed = {column for c, ok in zip(classes, self.exact, strict=True) if not ok for _, column in c}
        read = hashed.union(output, *(columns(r) for r in residual))
        self._given, self._passing = given or [0] * len(parts), passing
        self._static = [p.is_static for p in parts]
        self._own = [stores is None or p.stored is None or i == passing for i, p in enumerate(parts)]
        self.stubs = [self._stub(stores, i, part, read) for i, part in enumerate(parts)]
        self.owned = [s.store for s, own in zip(self.stubs, self._own, strict=True) if own]

    def _stub(self, stores: Stores | None, i: int, part: Node, read: Collection[str]) -> Stub:
        kinds = ["value" if self.exact[c] else "hash" for c in self.classes_of[i]]
        keys = [KeyOf(k, self.column[c][i]) for k, c in zip(kinds, self.classes_of[i], strict=True)]
        keys += [KeyOf("order", c) for c in self._band_columns[i]]
        wanted = [f.name for f in part.schema if f.name in read]
        if self._own[i] or stores is None or part.stored is None:
            return Stub(Store(part.schema, self._given[i], stored=()), {c: c for c in wanted}, keys)
        stored, there = part.stored, dict(part.stored.columns)
        keys = [KeyOf(k.kind, there[k.column]) for k in keys]
        read = {c: there[c] for c in wanted}
        return Stub(stores[stored.store], read, keys, stored.longer, stored.since, stored.pane)

    def __len__(self) -> int:
        return len(self.stubs)

    def owns(self, i: int) -> bool:
        """Whether the rows of input i are in a store of the join's own."""
        return self._own[i]

    @property
    def passing(self) -> set[int]:
        """The input whose rows are kept for a step only, if there is one."""
        return set() if self._passing is None else {self._passing}

    def with_rows_of(self, other: JoinInputs, i: int) -> JoinInputs:
        """These inputs, for a pipeline of rows of input i that are in the store of another."""
        mixed = copy(self)
        mixed.stubs = [other.stubs[k] if k == i else stub for k, stub in enumerate(self.stubs)]
        return mixed

    def insert(self, i: int, chunk: Chunk) -> Int64s:
        """Insert the + elements of input i; returns their rows."""
        stub = self.stubs[i]
        if not self._own[i]:
            rows = np.empty(0, np.int64) if chunk.rows is None else chunk.rows
            stub.read(rows)
            return self.usable(i, rows)
        ends = chunk.end if chunk.end is not None else np.full(len(chunk), FOREVER)
        ids = chunk.rid if chunk.rid is not None else np.zeros(len(chunk), np.int64)
        valid = np.full(len(chunk), chunk.rid is not None)
        given = [(ids, valid), (ids, valid)][: self._given[i]]
        passes = i == self._passing
        rows = stub.store.insert(chunk.ts, ends, given, chunk.columns.columns, usable=not passes)
        stub.read(rows)
        return self.usable(i, rows) if passes else rows

    def keys_of(self, i: int, classes: Sequence[int], chunk: Chunk) -> np.ndarray:
        """The keys that elements of input i will have in its own store, a line each; some key for NULL."""
        of = {number: key for key, number in self.stubs[i].store.requested()}
        wanted = [of[self.stubs[i].keys[self.classes_of[i].index(c)]] for c in classes]
        columns = [key.of(chunk.column(key.column))[0] for key in wanted]
        return np.ascontiguousarray(np.stack(columns, axis=1))

    def usable(self, i: int, rows: Int64s) -> Int64s:
        """The rows without a NULL key."""
        stub = self.stubs[i]
        for key in (k for k, number in enumerate(stub.keys) if stub.store.has_nulls[number]):
            valid = stub.key(key, rows)[1]
            rows = rows if valid.all() else rows[valid]
        return rows

    def end(self, i: int, gone: Chunk) -> tuple[Int64s, Bools]:
        """End rows by − elements; returns the rows, and which elements found one."""
        stub = self.stubs[i]
        if not len(gone):
            return np.empty(0, np.int64), np.ones(0, np.bool_)
        if not self._own[i]:
            assert gone.rows is not None
            return self.usable(i, gone.rows), np.ones(len(gone), np.bool_)
        assert gone.rid is not None
        rows = stub.store.index((_ID,)).find(stub.store, gone.rid)  # type: ignore[union-attr]
        found = rows >= 0
        stub.store.end(rows[found], gone.ts[found])
        return rows[found], found

    def probing(self, i: int, rows: Int64s) -> Bools:
        """Which rows of input i probe the others."""
        store = self.stubs[i].store
        return np.asarray(store.key_valid[_PROBES][rows & store.mask])

    def set_probing(self, i: int, rows: Int64s, probing: Bools) -> None:
        """Record which rows of input i probe the others."""
        store = self.stubs[i].store
        store.key_valid[_PROBES][rows & store.mask] = probing

    def slot_bytes(self) -> float:
        """Bytes per row in the join's own stores."""
        return sum(s.nbytes() for s in self.owned) / sum(s.capacity for s in self.owned)

    def ids(self, i: int, rows: Int64s) -> Int64s:
        return self.stubs[i].store.key(_ID, rows)[0]

    def life(self, i: int, rows: Int64s) -> tuple[Int64s, Int64s]:
        return self.stubs[i].life(rows)

    def gather(self, tuples: Tuples, column: str, places: Int64s | None = None) -> pa.Array:
        """A column of all tuples, or of those at the given places."""
        rows = tuples.rows[self._owner[column]]
        return self.stubs[self._owner[column]].gather(column, rows if places is None else rows[places])

    def own(self, i: int) -> list[Expression]:
        return [r for r, reads in self.residual if reads == {i}]

    def linked(self, j: int, bound: Collection[int]) -> bool:
        """Whether a predicate or band joins input j to bound inputs only."""
        reads = [*(r for _, r in self.residual), *(b.inputs for b in self.bands)]
        return any(j in r and r - {j} <= set(bound) for r in reads)

    def seen(self, j: int, min_ends: Sequence[int]) -> tuple[Store, View]:
        """The store of input j and the view that a probe has of it."""
        return self.stubs[j].store, self.stubs[j].view(min_ends[j])

    def advance(self, now: int) -> None:
        """A step is over: rows that end before ``now`` are not needed any more."""
        for stub in self.stubs:
            stub.advance(now)
        if self._passing is not None:
            self.stubs[self._passing].store.clear()

    def tables_changed(self) -> bool:
        """Whether an input made of tables alone has rows that were not there from the beginning."""
        stores = (s.store for s, static in zip(self.stubs, self._static, strict=True) if static)
        return any(store.latest > BEFORE_TIME for store in stores)

    def oldest(self) -> int:
        """A lower bound of the timestamps of the streams' rows."""
        moving = (s.store for s, static in zip(self.stubs, self._static, strict=True) if not static)
        return min((store.oldest() for store in moving), default=int(FOREVER))

    def shared(self, j: int, bound: Collection[int]) -> list[int]:
        """The classes that join input j to bound inputs."""
        return [c for c in self.classes_of[j] if not self.column[c].keys().isdisjoint(bound)]

    def key(self, i: int, c: int, rows: Int64s) -> tuple[Int64s, Bools]:
        return self.stubs[i].key(self.classes_of[i].index(c), rows)

    def index(self, j: int, classes: Sequence[int], probes: int = 0) -> Index:
        """Input j's index on the keys of some classes; the number of probing tuples is counted."""
        keys = tuple(self.stubs[j].keys[self.classes_of[j].index(c)] for c in classes)
        return self._chosen(j, keys, BY_EQUALITY, probes)

    def _chosen(self, j: int, keys: tuple[int, ...], methods: Sequence[str], probes: int) -> Index:
        access = self._access.get((j, keys))
        if access is None:
            access = self._access[j, keys] = AdaptiveAccess(methods, self._chooser)
            access.force(self._method)
        store = self.look(j)
        access.probed(probes, store.next - store.base)
        return store.index(keys, access.method, until=self.stubs[j].frontier)

    def use_method(self, name: str | None) -> None:
        """Probe by one access method wherever it finds the rows, or choose it again ("adaptive")."""
        self._method = name
        for (j, keys), access in self._access.items():
            store, before = self.stubs[j].store, access.method
            if access.force(name):
                store.index(keys, access.method)
                store.drop_index(keys, before)

    def look(self, j: int) -> Store:
        """The store of input j, which is about to be searched."""
        self._probed[j] = True
        self.stubs[j].store.probed()
        return self.stubs[j].store

    def reconsider(self) -> None:
        """Choose access methods again: a new index is built, then the old one is dropped. And choose when to
        free the rows that expire.
        """
        for (j, keys), access in self._access.items():
            store, before = self.stubs[j].store, access.method
            entered = store.next - self._entered.get((j, keys), store.base)
            self._entered[j, keys] = store.next
            chosen = access.reconsider(entered, len(store))
            if chosen is not None:
                store.index(keys, chosen)
                store.drop_index(keys, before)
        for j, (stub, choice) in enumerate(zip(self.stubs, self._invalidation, strict=True)):
            choice.stepped(self._probed[j], max(stub.frontier - self._held[j], 0), len(stub.store))
            stub.prefer(INVALIDATIONS[choice.policy])
            self._probed[j], self._held[j] = False, stub.frontier

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """The access method of each index, by its keys."""
        for number, ((j, keys), access) in enumerate(self._access.items()):
            names = [self.column[c][j] for c in self.classes_of[j]] + self._band_columns[j]
            by = " and ".join(names[self.stubs[j].keys.index(k)] for k in keys)
            probed_by = Reading(Property.DESCRIPTION, 0, f"{labels[j]} by {by}")
            name = f"{labels[j]}/index.{number}"
            yield from under(name, Kind.ADAPTIVE, [probed_by, *access.measure()])
        yield from self._measure_invalidation(labels)

    def _measure_invalidation(self, labels: Sequence[str]) -> Iterator[Reading]:
        """When each window's expired rows are freed, and how often they were."""
        for stub, choice, label in zip(self.stubs, self._invalidation, labels, strict=True):
            freed = Reading(Property.INVALIDATIONS, stub.store.invalidations)
            yield from under(f"{label}/invalidation", Kind.ADAPTIVE, [freed, *choice.measure()])

    def bands_into(self, j: int, bound: Collection[int]) -> list[Band]:
        """Bands between input j and bound inputs, j on the left; those with both bounds first."""
        found = [b.seen_from(j) for b in self.bands if j in b.inputs and b.inputs - {j} <= set(bound)]
        return sorted(found, key=lambda b: not b.both)

    def _band_key(self, side: Side) -> tuple[int, int]:
        """The input of one side of a band, and the number of its key."""
        i, column = side
        return i, len(self.classes_of[i]) + self._band_columns[i].index(column)

    def order_keys(self, side: Side, rows: Int64s) -> tuple[Int64s, Bools]:
        """The keys of one side of a band for rows of its input, and where they are not NULL."""
        i, key = self._band_key(side)
        return self.stubs[i].key(key, rows)

    def range_index(self, side: Side, probes: int = 0) -> RangeIndex:
        """The index on one side of a band; the number of probing tuples is counted."""
        i, key = self._band_key(side)
        index = self._chosen(i, (self.stubs[i].keys[key],), BY_RANGE, probes)
        assert isinstance(index, RangeIndex)
        return index


def _fits_integer(parts: Sequence[Node], members: KeyClass) -> bool:
    """Whether a class's values fit an int64; otherwise they are hashed."""
    types = [parts[i].schema.field(column).type for i, column in members]
    return all(as_integers(pa.nulls(0, t)) is not None for t in types)
