"""A store: the rows of a window or relation, with their lives, keys, payload and indexes.

Rows get ids 0, 1, 2, ... in arrival order and live in rings addressed by row id; the oldest live row is
``base``, the id the next row gets is ``next``. A row is dead once its ``end`` is past; the dead at the
front go for free, and where too many die in the middle the live ones are moved up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Int64s, batch_of
from penstock.engine.indexes.b_plus_tree import BPlusTree
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.indexes.scan import Scan
from penstock.engine.indexes.t_tree import TTree
from penstock.engine.kernels import probing
from penstock.engine.settings import MIN_STORE_ROWS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.columns import column_for, ring_put, ring_resized, ring_run

AccessMethod = HashIndex | BPlusTree | TTree | Scan
METHODS: dict[str, type[AccessMethod]] = {m.name: m for m in (HashIndex, BPlusTree, TTree, Scan)}
"""The access methods by name."""


class Stores:
    """The stores of one engine: operators open theirs here, so that several can read one."""

    def __init__(self) -> None:
        self.opened: list[Store] = []

    def open(self, schema: pa.Schema, keys: int) -> Store:
        """A new, empty store."""
        self.opened.append(Store(schema, keys))
        return self.opened[-1]


class Store(Stateful):
    """Rows by id, ``keys`` int64 keys a row, and an index on each set of keys that someone asked for."""

    def __init__(self, schema: pa.Schema, keys: int) -> None:
        self.schema = schema
        self.base = self.next = 0
        self.capacity = MIN_STORE_ROWS
        self.lives = np.zeros((self.capacity, 2), np.int64)
        self.keys = [np.zeros(self.capacity, np.int64) for _ in range(keys)]
        self.key_valid = [np.zeros(self.capacity, np.bool_) for _ in range(keys)]
        self._columns = [column_for(f.type, self.capacity) for f in schema]
        self._indexes: dict[tuple[tuple[int, ...], str], AccessMethod] = {}
        self._ended = 0
        self._ended_early = np.zeros(0, np.bool_)
        # (first row id after it, smallest start in it) of every insertion that still has live rows.
        self._insertions: deque[tuple[int, int]] = deque()

    @property
    def mask(self) -> int:
        """Slot of a row: ``rid & mask``."""
        return self.capacity - 1

    def __len__(self) -> int:
        return self.next - self.base - self._ended

    def insert(
        self, starts: Int64s, ends: Int64s, keys: Sequence[tuple[Int64s, Bools]], columns: Sequence[pa.Array]
    ) -> Int64s:
        """Add rows; their ids."""
        first, count = self.next, len(starts)
        self._make_room(count)
        ring_put(self.lives, first, np.stack([starts, ends], axis=1))
        for k, (values, valid) in enumerate(keys):
            ring_put(self.keys[k], first, values)
            ring_put(self.key_valid[k], first, valid)
        for column, array in zip(self._columns, columns, strict=True):
            column.append(first, array)
        if self._ended:
            ring_put(self._ended_early, first, np.zeros(count, np.bool_))
        self.next += count
        if count:
            self._insertions.append((self.next, int(starts.min())))
        for index in self._indexes.values():
            index.insert(self, first, count)
        return np.arange(first, self.next)

    def _make_room(self, count: int) -> None:
        need = self.next - self.base + count
        if need <= self.capacity:
            return
        capacity = 1 << int(need + need // 2).bit_length()
        self.lives = ring_resized(self.lives, self.base, self.next, capacity)
        self.keys = [ring_resized(k, self.base, self.next, capacity) for k in self.keys]
        self.key_valid = [ring_resized(v, self.base, self.next, capacity) for v in self.key_valid]
        for column in self._columns:
            column.resize(self.base, self.next, capacity)
        if self._ended:
            self._ended_early = ring_resized(self._ended_early, self.base, self.next, capacity)
        self.capacity = capacity
        for index in self._indexes.values():
            index.rebuild(self)

    def index(self, keys: tuple[int, ...], method: str | None = None) -> AccessMethod:
        """The index on a set of keys, built when first asked for; by hash if nothing is said of it."""
        method = method or ("hash" if keys else "none")
        if (keys, method) not in self._indexes:
            self._indexes[keys, method] = METHODS[method](self, keys)
        return self._indexes[keys, method]

    def drop_index(self, keys: tuple[int, ...], method: str) -> None:
        """Forget an index that nobody probes any more."""
        self._indexes.pop((keys, method), None)

    def end(self, rids: Int64s, ends: Int64s) -> None:
        """Say when rows leave."""
        self.lives[rids & self.mask, 1] = ends
        if not self._ended:
            self._ended_early = np.zeros(self.capacity, np.bool_)
        self._ended_early[rids & self.mask] = True
        self._ended += len(rids)

    def expire(self, now: int) -> None:
        """Forget the rows whose life ends by ``now``."""
        base = probing.first_alive(self.lives, self.base, self.next, self.mask, now)
        if self._ended:
            # Others leave by themselves: only those that were ended are counted.
            self._ended -= int(ring_run(self._ended_early, self.base, base - self.base).sum())
        self._forget(base)
        if self._ended > MIN_STORE_ROWS and 2 * self._ended > self.next - self.base:
            self._move_up(now)

    def _forget(self, base: int) -> None:
        self.base = base
        while self._insertions and self._insertions[0][0] <= base:
            self._insertions.popleft()
        for column in self._columns:
            column.forget(base)

    def _move_up(self, now: int) -> None:
        """Add the live rows again at the end and forget everything before: the holes are gone."""
        live = self.alive(now)
        slots = live & self.mask
        lives = self.lives[slots]
        keys = [(k[slots], v[slots]) for k, v in zip(self.keys, self.key_valid, strict=True)]
        columns = [c.gather(live) for c in self._columns]
        first = self.next
        self.insert(np.ascontiguousarray(lives[:, 0]), np.ascontiguousarray(lives[:, 1]), keys, columns)
        self._ended = 0
        self._forget(first)

    def state(self) -> dict[str, State]:
        first, count = self.base, self.next - self.base
        keys = [self.key_run(k, first, count) for k in range(len(self.keys))]
        return {
            "base": first,
            "lives": ring_run(self.lives, first, count),
            "keys": [k for k, _ in keys],
            "valid": [v for _, v in keys],
            "columns": [c.gather(np.arange(first, self.next)) for c in self._columns],
            "insertions": list(self._insertions),
            "ended": ring_run(self._ended_early, first, count) if self._ended else None,
        }

    def _load(self, state: dict[str, State]) -> None:
        # Rows keep their ids: others may name them.
        self.base = self.next = state["base"]
        starts, ends = np.ascontiguousarray(state["lives"].T)
        self.insert(starts, ends, list(zip(state["keys"], state["valid"], strict=True)), state["columns"])
        self._insertions = deque((stop, start) for stop, start in state["insertions"])
        if state["ended"] is not None:
            self._ended = int(state["ended"].sum())
            self._ended_early = np.zeros(self.capacity, np.bool_)
            ring_put(self._ended_early, self.base, state["ended"])

    def alive(self, now: int) -> Int64s:
        """The rows whose life does not end by ``now``."""
        return probing.alive(self.lives, self.base, self.next, self.mask, now)

    def life(self, rids: Int64s) -> tuple[Int64s, Int64s]:
        """Start and end of rows."""
        return probing.lives_of(self.lives, self.mask, rids)

    def key(self, key: int, rids: Int64s) -> tuple[Int64s, Bools]:
        """A key of rows, and whether it is not NULL."""
        slots = rids & self.mask
        return self.keys[key][slots], self.key_valid[key][slots]

    def key_run(self, key: int, first: int, count: int) -> tuple[Int64s, Bools]:
        """A key of consecutive rows."""
        return ring_run(self.keys[key], first, count), ring_run(self.key_valid[key], first, count)

    def gather(self, name: str, rids: Int64s) -> pa.Array:
        """A payload column of rows."""
        return self._columns[self.schema.get_field_index(name)].gather(rids)

    def rows(self, rids: Int64s) -> pa.RecordBatch:
        """The payload of rows."""
        return batch_of([c.gather(rids) for c in self._columns], self.schema, len(rids))

    def oldest(self) -> int:
        """A timestamp that no live row is older than, static rows aside; FOREVER when there is none."""
        starts = (start for _, start in self._insertions if start != BEFORE_TIME)
        return min(starts, default=int(FOREVER))

    def nbytes(self) -> int:
        """Memory used by rows, keys and indexes."""
        own = self.lives.nbytes + sum(k.nbytes for k in (*self.keys, *self.key_valid))
        return own + sum(c.nbytes() for c in self._columns) + sum(i.nbytes() for i in self._indexes.values())
