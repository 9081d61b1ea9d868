"""Stores (thesis 2.3.1): rows once, with their lives, keys, payload and indexes, for any number of readers.

A store's rows get ids 0, 1, 2, ... in arrival order and are in rings addressed by row id; the oldest that is
kept is ``base``, the id the next row gets is ``next``. A *life* ``[start, end)`` says when a row is in the
relation. The store keeps a row until no stub needs it. Dropping rows at the front costs nothing; if too many
are dropped in the middle, the others are moved up, which changes their ids. That happens only when every stub
has read all rows, so an id is valid for the step in which it was returned.

Each reader has a stub (``stub.py``); stubs come and go while a store is in use. Row windows that share a
store see its rows with different lives: each has a *pane* (``panes.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Int64s, batch_of
from penstock.engine.indexes.b_plus_tree import BPlusTree
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.indexes.scan import Scan
from penstock.engine.indexes.t_tree import TTree
from penstock.engine.kernels import probing
from penstock.engine.kernels.hashing import as_integers, hash_rows, validity
from penstock.engine.kernels.probing import View
from penstock.engine.settings import MIN_HOLES, MIN_STORE_ROWS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.columns import (
    ArrowColumn,
    RingColumn,
    column_for,
    ring_put,
    ring_resized,
    ring_run,
)
from penstock.engine.synopses.invalidation import ACTIVE, agreed
from penstock.engine.synopses.order_keys import IntegerKeys
from penstock.engine.synopses.panes import NO_LIFE, Panes
from penstock.engine.synopses.partition_counts import PartitionCounts

if TYPE_CHECKING:
    from penstock.engine.synopses.stub import Stub

AccessMethod = HashIndex | BPlusTree | TTree | Scan
METHODS: dict[str, type[AccessMethod]] = {m.name: m for m in (HashIndex, BPlusTree, TTree, Scan)}
"""The access methods by name."""


@dataclass
class Kept:
    """Rows with all that a store keeps of them: ``lives``, ``keys`` and ``marks`` have a line for each."""

    lives: np.ndarray
    keys: np.ndarray
    marks: np.ndarray
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.lives)

    def take(self, rows: Int64s) -> Kept:
        picks = pa.array(rows)
        columns = [c.take(picks) for c in self.columns]
        return Kept(self.lives[rows], self.keys[rows], self.marks[rows], columns)

    @staticmethod
    def concat(parts: Sequence[Kept]) -> Kept:
        columns = [pa.concat_arrays(c) for c in zip(*(p.columns for p in parts), strict=True)]
        arrays = ([getattr(p, name) for p in parts] for name in ("lives", "keys", "marks"))
        lives, keys, marks = map(np.concatenate, arrays)
        return Kept(lives, keys, marks, columns)


@dataclass(frozen=True)
class KeyOf:
    """A key of a column: ``"value"`` (for integers), ``"hash"``, or ``"order"`` (sorts as the values do)."""

    kind: str
    column: str

    def of(self, column: pa.Array) -> tuple[Int64s, Bools]:
        """The keys of a column, and where they are not NULL."""
        if self.kind == "order":
            return IntegerKeys(column.type).encode(column), validity(column)
        keys = as_integers(column) if self.kind == "value" else hash_rows([column], len(column))
        assert keys is not None
        return keys, validity(column)


class Stores:
    """The stores of one engine, by name: operators open their own and find those of others."""

    def __init__(self) -> None:
        self._named: dict[str, Store] = {}

    def open(self, name: str, schema: pa.Schema, keys: int = 0) -> Store:
        """The store of this name, created if necessary. Its readers decide which columns it keeps."""
        if name not in self._named:
            self._named[name] = Store(schema, keys, stored=())
        return self._named[name]

    def __getitem__(self, name: str) -> Store:
        return self._named[name]

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def rename(self, old: str, new: str) -> None:
        """Give a store another name, which is free."""
        self._named = {new if name == old else name: store for name, store in self._named.items()}

    def close(self, store: Store) -> None:
        """Remove a store that nobody writes any more."""
        self._named = {name: other for name, other in self._named.items() if other is not store}


class Store(Stateful):
    """Rows of a schema, of which the columns in ``stored`` are kept, and more if a reader asks.

    Each row has ``keys`` int64 keys that are inserted with it, and those that readers request of its columns.
    There is an index on each requested set of keys.
    """

    format = 5

    def __init__(self, schema: pa.Schema, keys: int = 0, stored: Iterable[str] | None = None) -> None:
        self.schema = schema
        self.stubs: list[Stub] = []
        self.writers: list[object] = []
        """The windows that fill it; the first of them counts its rows and bytes."""
        self.base = self.next = self.inserted = 0
        self.invalidation = ACTIVE
        self.invalidations = 0
        """How often it freed what no reader needs."""
        self.settled = 0
        """The rows that it had after the last time."""
        self._postponed = False
        self._expired = int(BEFORE_TIME)
        """Up to when rows were freed."""
        self.moves = 0
        """How often its rows were moved up, which changes their ids."""
        self.latest = int(BEFORE_TIME)
        """The latest start of a row so far."""
        self.capacity = MIN_STORE_ROWS
        self.lives = np.zeros((self.capacity, 2), np.int64)
        self.keys = [np.zeros(self.capacity, np.int64) for _ in range(keys)]
        self.key_valid = [np.zeros(self.capacity, np.bool_) for _ in range(keys)]
        self.has_nulls = [False] * keys
        """By key, whether it was NULL in any row so far."""
        self._key_of: dict[KeyOf, int] = {}
        self._columns: dict[str, RingColumn | ArrowColumn] = {}
        self.keep(schema.names if stored is None else stored)
        self._indexes: dict[tuple[tuple[int, ...], str], AccessMethod] = {}
        self._indexed = 0
        """The first row that its indexes do not have."""
        self.positions: PartitionCounts | None = None
        """The numbers of the rows of row windows, which all windows that share it have in common."""
        self._panes = Panes()
        self._ended = 0
        self._ended_early = np.zeros(0, np.bool_)
        self._marks: np.ndarray | None = None
        # (first row id after it, smallest start in it) of insertions that still have live rows, without those
        # of static rows and those before one with an earlier start: starts rise.
        self._insertions: deque[tuple[int, int]] = deque()

    @property
    def mask(self) -> int:
        """Slot of a row: ``rid & mask``."""
        return self.capacity - 1

    def __len__(self) -> int:
        return self.next - self.base - self._ended

    def keep(self, columns: Iterable[str]) -> None:
        """Keep these columns of later rows; those of rows already there are NULL."""
        for name in columns:
            if name not in self._columns:
                kind = self.schema.field(name).type
                self._columns[name] = column_for(kind, self.capacity)
                self._columns[name].append(self.base, pa.nulls(self.next - self.base, kind))

    def keeps(self, column: str) -> bool:
        """Whether it has the values of a column."""
        return column in self._columns

    def key_of(self, wanted: KeyOf) -> int:
        """The number of a key; later rows have it, that of rows already there is NULL."""
        if wanted not in self._key_of:
            self._key_of[wanted] = len(self.keys)
            self.keys.append(np.zeros(self.capacity, np.int64))
            self.key_valid.append(np.zeros(self.capacity, np.bool_))
            self.has_nulls.append(self.next > self.base)
        return self._key_of[wanted]

    def requested(self) -> Iterable[tuple[KeyOf, int]]:
        """The keys that readers request, and their numbers."""
        return self._key_of.items()

    def mark_rows(self, count: int = 1) -> None:
        """Keep marks with every row, which are 0 at first: numbers for its reader's use."""
        if self._marks is None:
            self._marks = np.zeros((self.capacity, count), np.int64)

    def mark(self, rids: Int64s, marks: Int64s, number: int = 0) -> None:
        """Set one of the marks of rows."""
        assert self._marks is not None
        self._marks[rids & self.mask, number] = marks

    def marks_of(self, rids: Int64s, number: int = 0) -> Int64s:
        assert self._marks is not None
        return np.asarray(self._marks[rids & self.mask, number])

    @property
    def all_marks(self) -> np.ndarray:
        """The marks of all rows, by slot."""
        assert self._marks is not None
        return self._marks

    def all_marks_of(self, rids: Int64s) -> np.ndarray:
        assert self._marks is not None
        return np.asarray(self._marks[rids & self.mask])

    def mark_all(self, rids: Int64s, marks: np.ndarray) -> None:
        """Set all marks of rows."""
        assert self._marks is not None
        self._marks[rids & self.mask] = marks

    def open_pane(self, name: str) -> None:
        """Add a window with lives of its own; all rows that come are in it until it leaves them out."""
        self._panes.open(name, self.lives)

    def close_pane(self, name: str) -> None:
        """Remove a window: the rows that only it has are freed."""
        if self._panes:
            held = np.arange(self.base, self.next)
            held = held[self.life(held, name)[1] == FOREVER]
            self.end_in(name, held, np.full(len(held), self.latest))
        last = self._panes.close(name)
        self.lives = self.lives if last is None else last

    def enter(self, pane: str, rids: Int64s, kept: Bools) -> None:
        """The rows that a window has come to; it has the kept ones."""
        if self._panes:
            mine, others = rids[kept], rids[~kept]
            self._panes.enter(pane, mine & self.mask, self.life(mine)[0])
            self._release(others, self.life(others)[0])

    def end_in(self, pane: str, rids: Int64s, ends: Int64s) -> None:
        """Set the end of rows in a window."""
        if self._panes:
            self._panes.end(pane, rids & self.mask, ends)
            self._release(rids, ends)
        else:
            self.end(rids, ends)

    def _release(self, rids: Int64s, ends: Int64s) -> None:
        """A window has no use for rows any more; the last one ends their lives."""
        last = self._panes.release(rids & self.mask)
        self.end(rids[last], ends[last])

    def pane_number(self, name: str) -> int:
        """The number of a window's lives in a view; 0 for the store's own."""
        return self._panes.number(name)

    def lives_in(self, view: View) -> Int64s:
        """The lives that a view is of."""
        return self._panes.numbered(view.pane) if view.pane else self.lives

    def insert(
        self,
        starts: Int64s,
        ends: Int64s,
        keys: Sequence[tuple[Int64s, Bools]],
        columns: Sequence[pa.Array],
        usable: bool = False,
    ) -> Int64s:
        """Add rows with their keys and all columns of the schema; returns their ids.

        ``usable``: only those without a NULL among the keys that readers request.
        """
        named = dict(zip(self.schema.names, columns, strict=True))
        self.inserted += len(starts)
        wanted = [key.of(named[key.column]) for key in self._key_of]
        every, kept = [*keys, *wanted], [named[name] for name in self._columns]
        if usable and not all(valid.all() for _, valid in wanted):
            at = np.flatnonzero(np.logical_and.reduce([valid for _, valid in wanted]))
            starts, ends, every = starts[at], ends[at], [(k[at], v[at]) for k, v in every]
            kept = [column.take(pa.array(at)) for column in kept]
        return self._put(starts, ends, every, kept)

    def _put(
        self, starts: Int64s, ends: Int64s, keys: Sequence[tuple[Int64s, Bools]], columns: Sequence[pa.Array]
    ) -> Int64s:
        first, count = self.next, len(starts)
        self._make_room(count)
        ring_put(self.lives, first, np.stack([starts, ends], axis=1))
        for k, (values, valid) in enumerate(keys):
            ring_put(self.keys[k], first, values)
            ring_put(self.key_valid[k], first, valid)
            self.has_nulls[k] |= not valid.all()
        for column, array in zip(self._columns.values(), columns, strict=True):
            column.append(first, array)
        if self._ended:
            ring_put(self._ended_early, first, np.zeros(count, np.bool_))
        if self._marks is not None:
            ring_put(self._marks, first, np.zeros((count, self._marks.shape[1]), np.int64))
        if self._panes:
            self._panes.put(first, count)
        self.next += count
        if count:
            self._note_insertion(int(starts.min()))
            self.latest = max(self.latest, int(starts.max()))
        return np.arange(first, self.next)

    def _note_insertion(self, start: int) -> None:
        if start != BEFORE_TIME:
            while self._insertions and self._insertions[-1][1] >= start:
                self._insertions.pop()
            self._insertions.append((self.next, start))

    def _make_room(self, count: int) -> None:
        need = self.next - self.base + count
        if need <= self.capacity:
            return
        self._resize(1 << int(need + need // 2).bit_length())

    def _resize(self, capacity: int) -> None:
        self.take_in(self.next)
        self.lives = ring_resized(self.lives, self.base, self.next, capacity)
        self.keys = [ring_resized(k, self.base, self.next, capacity) for k in self.keys]
        self.key_valid = [ring_resized(v, self.base, self.next, capacity) for v in self.key_valid]
        for column in self._columns.values():
            column.resize(self.base, self.next, capacity)
        if self._ended:
            self._ended_early = ring_resized(self._ended_early, self.base, self.next, capacity)
        if self._marks is not None:
            self._marks = ring_resized(self._marks, self.base, self.next, capacity)
        if self._panes:
            self._panes.resize(self.base, self.next, capacity)
        self.capacity = capacity
        for index in self._indexes.values():
            index.rebuild(self)

    def give_back(self) -> None:
        """Keep room for the rows that are left, if they are far fewer: what is left is filled again soon."""
        fitting = 1 << max(self.next - self.base, MIN_HOLES - 1).bit_length()
        if 4 * fitting <= self.capacity:
            self._resize(fitting)

    def index(
        self, keys: tuple[int, ...], method: str | None = None, until: int | None = None
    ) -> AccessMethod:
        """The index on a set of keys, built on first use; a hash index by default. It has the rows before
        ``until`` at least, by default all of them.
        """
        method = method or ("hash" if keys else "none")
        if (keys, method) in self._indexes:
            self.take_in(self.next if until is None else until)
        else:
            self.take_in(self.next)
            self._indexes[keys, method] = METHODS[method](self, keys)
        return self._indexes[keys, method]

    def take_in(self, until: int) -> None:
        """Insert rows into the indexes. Readers call it when they read rows: until then probes would only
        pass over them.
        """
        first = max(self._indexed, self.base)
        if until > first:
            for index in self._indexes.values():
                index.insert(self, first, until - first)
            self._indexed = until

    def drop_index(self, keys: tuple[int, ...], method: str) -> None:
        """Drop an index that is no longer probed."""
        self._indexes.pop((keys, method), None)

    def end(self, rids: Int64s, ends: Int64s) -> None:
        """Set the end of rows."""
        self.lives[rids & self.mask, 1] = ends
        self._leave_a_hole(rids)

    def drop(self, rids: Int64s) -> None:
        """Drop these rows whatever their lives: readers no longer see them."""
        self.lives[rids & self.mask] = NO_LIFE
        self._leave_a_hole(rids)

    def taken(self, rids: Int64s) -> Kept:
        """A copy of rows with all that is kept of them, which ``put_back`` takes."""
        slots = rids & self.mask
        keys = [k[slots] for k in self.keys]
        return Kept(
            self.lives[slots],
            np.stack(keys, axis=1) if keys else np.empty((len(rids), 0), np.int64),
            self.all_marks_of(rids),
            [self.gather(name, rids) for name in self._columns],
        )

    def put_back(self, rows: Kept) -> Int64s:
        """Add rows that were taken, which have no NULL among their keys; returns their ids."""
        valid = np.ones(len(rows), np.bool_)
        keys = [(np.ascontiguousarray(column), valid) for column in rows.keys.T]
        starts, ends = np.ascontiguousarray(rows.lives.T)
        ids = self._put(starts, ends, keys, rows.columns)
        self.mark_all(ids, rows.marks)
        return ids

    def _leave_a_hole(self, rids: Int64s) -> None:
        if not self._ended:
            self._ended_early = np.zeros(self.capacity, np.bool_)
        self._ended += int((~self._ended_early[rids & self.mask]).sum())
        self._ended_early[rids & self.mask] = True

    def stepped(self) -> None:
        """A reader has ended a step: free the rows that no stub needs, or postpone it until a probe."""
        if self.invalidation.due(self):
            self.settle()
        else:
            self._postponed = True

    def probed(self) -> None:
        """The store is about to be probed: free what was postponed. Ids are in use, and stay as they are."""
        if self._postponed:
            self._invalidate(may_move=False)

    def agree(self) -> None:
        """A reader has another preference of when to free rows."""
        self.invalidation = agreed(s.invalidation for s in self.stubs)

    def settle(self) -> None:
        """Free the rows that no stub needs."""
        self._invalidate(self._all_read)

    @property
    def _all_read(self) -> bool:
        """Whether ids may change: every reader has read all rows, in the same slice: no queue holds one."""
        return all(s.has_read_all and s.steps == self.stubs[0].steps for s in self.stubs)

    def _invalidate(self, may_move: bool) -> None:
        self.expire(min(s.passed for s in self.stubs), may_move)
        self._postponed, self.settled = False, self.next - self.base
        self.invalidations += 1

    def expire(self, now: int, may_move: bool = True) -> None:
        """Free the rows whose life ends by ``now``."""
        self._expired = now
        base = probing.first_alive(self.lives, self.base, self.next, self.mask, now)
        if self._ended:
            # The others expire in order: only rows that were ended are counted.
            self._ended -= int(ring_run(self._ended_early, self.base, base - self.base).sum())
        self._forget(base)
        if may_move and self._ended > MIN_HOLES and 2 * self._ended > self.next - self.base:
            self._move_up(now)

    def clear(self) -> None:
        """Free all rows."""
        self._ended = 0
        self._forget(self.next)

    def detach(self, stub: Stub) -> None:
        """Remove a reader: the rows, columns and indexes that only it needed are dropped."""
        self.stubs.remove(stub)
        wanted = {name for s in self.stubs for name in s.columns.values()}
        self._columns = {name: c for name, c in self._columns.items() if name in wanted}
        self._indexes.clear()  # those that others probe are built again when they do
        self.agree()
        if self.stubs:
            self.settle()
        else:
            self.clear()

    def _forget(self, base: int) -> None:
        self.base = base
        while self._insertions and self._insertions[0][0] <= base:
            self._insertions.popleft()
        for column in self._columns.values():
            column.forget(base)

    def _move_up(self, now: int) -> None:
        """Add the live rows again at the end and drop everything before, which removes the holes."""
        live = self.alive(now)
        slots = live & self.mask
        lives = self.lives[slots]
        keys = [(k[slots], v[slots]) for k, v in zip(self.keys, self.key_valid, strict=True)]
        columns = [c.gather(live) for c in self._columns.values()]
        marks = None if self._marks is None else self.all_marks_of(live)
        panes = self._panes.at(slots)
        first = self.next
        self._put(np.ascontiguousarray(lives[:, 0]), np.ascontiguousarray(lives[:, 1]), keys, columns)
        if marks is not None:
            self.mark_all(np.arange(first, self.next), marks)
        self._see(first, panes)
        self._ended = 0
        self.moves += 1
        self._forget(first)
        for stub in self.stubs:
            stub.frontier, stub.due_from = self.next, first + int(np.searchsorted(live, stub.due_from))

    def state(self) -> dict[str, State]:
        """What another engine with the same rows has, too: those that some reader needs, from id 0 on.

        When rows were freed, and holes closed, differs between engines; ``saved_id`` is for readers.
        """
        rids = self._needed()
        keys = [self.key(k, rids) for k in range(len(self.keys))]
        slots = rids & self.mask
        insertions = [(stop, start) for stop, start in self._insertions if stop > self._first_needed()]
        ended = self._ended_early[slots] if self._ended else np.zeros(len(rids), np.bool_)
        return {
            "base": 0 if self._all_read else self._first_needed(),
            "lives": self.lives[slots],
            "keys": [k for k, _ in keys],
            "valid": [v for _, v in keys],
            "key_of": [[key.kind, key.column, number] for key, number in self._key_of.items()],
            "columns": {n: self.gather(n, rids) for n in self._columns},
            # Ids that elements carry are counted on; otherwise how many rows there were is of no use.
            "inserted": self.inserted if self.positions is not None else 0,
            "insertions": [(self.saved_id(stop), start) for stop, start in insertions],
            "ended": ended if ended.any() else None,
            **({} if self._marks is None else {"marks": self._marks[slots]}),
            "positions": self.positions,
            "panes": self._panes.at(slots),
        }

    def _first_needed(self) -> int:
        """The first row that some reader needs: others may still be there."""
        now = min((s.passed for s in self.stubs), default=self._expired)
        return int(probing.first_alive(self.lives, self.base, self.next, self.mask, now))

    def _needed(self) -> Int64s:
        """The rows that a snapshot has: without holes, if ids may change."""
        now = min((s.passed for s in self.stubs), default=self._expired)
        return self.alive(now) if self._all_read else np.arange(self._first_needed(), self.next)

    def saved_id(self, rid: int) -> int:
        """The id that a row, or the next one after it that is needed, has in a snapshot."""
        return int(np.searchsorted(self._needed(), rid)) if self._all_read else max(rid, self._first_needed())

    def _load(self, state: dict[str, State]) -> None:
        # Rows keep their ids: others may name them.
        self.base = self.next = self._indexed = state["base"]
        self._indexes.clear()
        starts, ends = np.ascontiguousarray(state["lives"].T)
        columns = [state["columns"][name] for name in self._columns]
        self._put(starts, ends, self._keys_of(state), columns)
        if self._marks is not None:
            self.mark_all(np.arange(self.base, self.next), state["marks"])
        if self.positions is not None:
            self.positions.restore(state["positions"])
        self.inserted = state["inserted"]
        self._insertions = deque((stop, start) for stop, start in state["insertions"])
        if state["ended"] is not None:
            self._ended = int(state["ended"].sum())
            self._ended_early = np.zeros(self.capacity, np.bool_)
            ring_put(self._ended_early, self.base, state["ended"])
        self._see(self.base, state["panes"])

    def _see(self, first: int, panes: Mapping[str, Int64s]) -> None:
        """Set how the windows see the rows from the first on: between steps, when all have entered them.

        Rows of windows that this store does not have are ended.
        """
        rids = np.arange(first, self.next)
        rids = rids[self._panes.load(first, len(rids), panes, self.lives)]
        self.end(rids, np.minimum(self.life(rids)[1], self.latest))

    def _keys_of(self, state: dict[str, State]) -> list[tuple[Int64s, Bools]]:
        """Saved keys in the order of this store, whose readers may have come in another order."""
        there = {KeyOf(kind, column): number for kind, column, number in state["key_of"]}
        given = len(self.keys) - len(self._key_of)
        numbers = [*range(given), *(there[key] for key in self._key_of)]
        return [(state["keys"][n], state["valid"][n]) for n in numbers]

    def alive(self, now: int) -> Int64s:
        """The rows whose life does not end by ``now``."""
        return probing.alive(self.lives, self.base, self.next, self.mask, now)

    def rows_after(self, now: int) -> int:
        """How many rows do not end by ``now``, if they end in their order."""
        return self.next - int(probing.first_alive(self.lives, self.base, self.next, self.mask, now))

    def rows_in(self, pane: str) -> int:
        """How many rows a window has."""
        lives = self._panes.lives_of(pane)
        if lives is None:
            return len(self)
        return int((ring_run(lives, self.base, self.next - self.base)[:, 1] == FOREVER).sum())

    def life(self, rids: Int64s, pane: str = "") -> tuple[Int64s, Int64s]:
        """The lives of rows, as the window of a pane sees them."""
        lives = self._panes.lives_of(pane)
        return probing.lives_of(self.lives if lives is None else lives, self.mask, rids)

    def key(self, key: int, rids: Int64s) -> tuple[Int64s, Bools]:
        """A key of rows, and whether it is not NULL."""
        slots = rids & self.mask
        valid = self.key_valid[key][slots] if self.has_nulls[key] else np.ones(len(rids), np.bool_)
        return self.keys[key][slots], valid

    def key_run(self, key: int, first: int, count: int) -> tuple[Int64s, Bools]:
        """A key of consecutive rows."""
        return ring_run(self.keys[key], first, count), ring_run(self.key_valid[key], first, count)

    def gather(self, name: str, rids: Int64s) -> pa.Array:
        return self._columns[name].gather(rids)

    def rows(self, rids: Int64s) -> pa.RecordBatch:
        return batch_of([self.gather(n, rids) for n in self.schema.names], self.schema, len(rids))

    def oldest(self) -> int:
        """A lower bound of the timestamps of rows that some reader needs, without static rows; FOREVER if
        there are none. The same in an engine that has freed them, and in one that has not yet.
        """
        first = self._first_needed() if self._insertions else 0
        return next((start for stop, start in self._insertions if stop > first), int(FOREVER))

    def nbytes(self) -> int:
        own = self.lives.nbytes + sum(k.nbytes for k in (*self.keys, *self.key_valid))
        own += 0 if self._marks is None else self._marks.nbytes
        own += 0 if self.positions is None else self.positions.nbytes()
        own += self._panes.nbytes()
        return (
            own
            + sum(c.nbytes() for c in self._columns.values())
            + sum(i.nbytes() for i in self._indexes.values())
        )
