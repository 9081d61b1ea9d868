"""seq-window: the stream-to-relation operator.

A time window needs no state: a tuple with timestamp s leaves at s + t + 1, known when it arrives. In an
unbounded window tuples never leave. In a row window the n-th later row of the same partition replaces a
tuple, at that row's instant. Rows are numbered within their partition, so a row replaces the one whose number
is n less. Row windows over the same rows and partitions share a store, whatever their sizes and filters.

Rows that a filter above the window would drop need not be stored, but they take their place, since the window
is over all rows. With ``keep`` such a row is a placeholder: it replaces the previous row and is itself not
stored (thesis example 6.1.5).

With a slide the window changes only at multiples of it; see ``sliding_window``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from penstock.engine.conjunction import Conjunction
from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s, Pattern
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Clock, Growth, Node, Operator, StartContext, Stored, Unary
from penstock.engine.operators.sliding_window import SlidingRange, SlidingRows
from penstock.engine.operators.source import Source
from penstock.engine.settings import ROW_NUMBER_BITS
from penstock.engine.snapshot import State
from penstock.engine.synopses.partition_counts import PartitionCounts
from penstock.engine.synopses.store import Store, Stores
from penstock.engine.synopses.stub import Stub
from penstock.expression import Expression, columns
from penstock.measurement import Reading


@dataclass(frozen=True)
class SeqWindow(Unary):
    """``kind`` is ``"range"`` (``size`` ticks) or ``"rows"`` (``size`` rows per partition); None: unbounded.

    ``keep``: predicates; a row window stores only the rows that satisfy them all. The ``first`` ones come
    first; ``filters`` orders the others. ``store``: the store of its rows, for operators above it to read.
    Windows of all sizes over the same rows share one. ``reader``: the join that has the store for itself
    since it drops rows of it.
    """

    kind: str
    size: int | None
    partition_by: tuple[str, ...] = ()
    text: str = ""
    slide: int | None = None
    keep: tuple[Expression, ...] = ()
    filters: str = field(default="a-greedy", repr=False)
    first: int = 0
    store: str = ""
    reader: str = ""

    name = "seq-window"

    @property
    def pattern(self) -> Pattern:
        if self.size is None:
            return Pattern.APPEND
        return Pattern.EXPIRING if self.kind == "range" else Pattern.CHANGING

    @property
    def is_momentary(self) -> bool:
        return self.kind == "range" and self.size == 0 and self.slide is None

    @property
    def keeps_window(self) -> bool:
        return not self.is_momentary

    @cached_property
    def span(self) -> int:
        own = self.size if self.kind == "range" else None
        return max(own or 0, self.input.span)

    @property
    def fills(self) -> str:
        return self.store

    @property
    def all_of(self) -> Source | None:
        return None if self.stored is None else self.input.as_came

    def columns_read(self, needed: set[str]) -> Iterator[set[str]]:
        yield needed.union(self.partition_by, *(columns(k) for k in self.keep))

    def private(self, query: str) -> Node:
        return replace(self, store=private_store(self.store, query)) if self.store else self

    def read_by(self, reader: str) -> Node:
        return replace(self, reader=reader)

    @property
    def accumulates(self) -> bool:
        return self.size is None

    def growth(self) -> Iterator[Growth]:
        if self.partition_by:
            rows = "the last row" if self.size == 1 else f"the last {self.size} rows"
            yield Growth(self.input, f"{rows} of each {', '.join(self.partition_by)}", per_group=True)

    def describe(self) -> str:
        """The window in CQL, and the predicates of the rows it stores."""
        kept = " AND ".join(map(str, self.keep))
        return f"{self.text} keeping {kept}" if kept else self.text

    @property
    def adapts(self) -> bool:
        """Whether there is an order to change."""
        return len(self.keep) - self.first > 1 and self.filters != "static"

    def details(self) -> Iterator[str]:
        if self.adapts:
            yield f"{self.filters} orders the filters while it runs"

    @property
    def waits(self) -> bool:
        """Which rows are the last n depends on their order."""
        return self.slide is not None or (self.size is not None and self.kind == "rows")

    @property
    def reads_ties(self) -> bool:
        return self.kind == "rows" and not (self.size is None and self.slide is None)

    def holds(self, per_tick: float | None) -> int | None:
        if self.size is None or self.partition_by:
            return None
        if self.kind == "rows":
            return self.size
        return None if per_tick is None else max(1, round(per_tick * self.size))

    @property
    def lag(self) -> int:
        """A row waits for the next multiple of the slide."""
        return self.slide - 1 if self.slide is not None and self.kind == "range" else 0

    @property
    def has_ids(self) -> bool:
        return self.size is not None and self.kind == "rows"

    def start(self, context: StartContext) -> Operator:
        if self.slide is not None and self.kind == "range":
            return SlidingRange(self.schema, self.size, self.slide)
        if self.slide is not None:
            return SlidingRows(self.schema, self.partition_by, self.size, self.slide)
        keys = 0 if self.by_time else 2
        stores = context.stores if self.store else Stores()
        store = stores.open(self.store, self.schema, keys)
        return _Range(self, stores, store) if self.by_time else _Rows(self, stores, store)

    @property
    def by_time(self) -> bool:
        """Whether a row's timestamp alone says when it leaves."""
        return self.kind == "range" or self.size is None

    @property
    def stored(self) -> Stored | None:
        if not self.store or self.slide is not None:
            return None
        columns = tuple((n, n) for n in self.schema.names)
        return Stored(self.store, columns, _longer(self), pane="" if self.by_time else self.pane)

    @property
    def pane(self) -> str:
        """The name of a row window's lives in a store."""
        identity = repr((self.size, self.keep, self.text, self.filters, self.first))
        return blake2b(identity.encode(), digest_size=8).hexdigest()


def private_store(store: str, query: str) -> str:
    """The name of a store that only one query uses."""
    return f"{store} of {query}"


def _longer(node: SeqWindow) -> int:
    """By how much the lives of its rows are longer than stored, which is one instant under a time window."""
    return node.size if node.kind == "range" and node.size is not None else 0


def _place(partitions: Int64s, numbers: Int64s) -> Int64s:
    return (partitions << ROW_NUMBER_BITS) + numbers


class _Window(Operator):
    """A window that fills a store for the operators that read it."""

    def __init__(self, stores: Stores, store: Store) -> None:
        self._stores, self._store = stores, store
        self._inserted = store.inserted
        store.writers.append(self)

    def close(self) -> None:
        self._store.writers.remove(self)
        if not self._store.writers:
            self._stores.close(self._store)

    def horizon(self) -> int:
        return self._store.oldest()

    @property
    def _counts_rows(self) -> bool:
        """Whether it is the one that counts the rows of a store with several windows."""
        return self._store.writers[0] is self

    def rows(self) -> int:
        return len(self._store) if self._counts_rows else 0

    def unshared_bytes(self) -> int:
        """Of the store's bytes, those of the rows that this window has."""
        store = self._store
        return store.nbytes() * self._own_rows() // max(len(store), 1) if store.stubs else 0

    def state(self) -> dict[str, State]:
        """The rows inserted count from those of the store: only the difference matters."""
        return {**super().state(), "_inserted": self._inserted - self._store.inserted}

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._inserted += self._store.inserted

    def _own_rows(self) -> int:
        """The rows that it has of its store."""
        return len(self._store)


class _Range(_Window):
    """Known ends, so no state of its own."""

    saved = ("_inserted", "_store")
    format = 3

    def __init__(self, node: SeqWindow, stores: Stores, store: Store) -> None:
        super().__init__(stores, store)
        self._size, self._longer = node.size, _longer(node)
        self._now = int(BEFORE_TIME)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        self._now = clock.now
        end = None if self._size is None else chunk.ts + (self._size + 1)
        rows = self._rows(chunk, end) if self._store.stubs else None
        return Chunk(chunk.ts, np.ones(len(chunk), np.int8), chunk.columns, end, rows=rows)

    def _rows(self, chunk: Chunk, end: Int64s | None) -> Int64s:
        """The rows' ids in the store; inserts them unless another window over the stream did."""
        store, behind = self._store, self._store.inserted - self._inserted
        self._inserted += len(chunk)
        if behind:
            return np.arange(store.next - behind, store.next - behind + len(chunk))
        ends = np.full(len(chunk), FOREVER) if end is None else end - self._longer if self._longer else end
        return store.insert(chunk.ts, ends, [], chunk.columns.columns)

    def _own_rows(self) -> int:
        if self._size is None or len(self._store.writers) == 1:
            return super()._own_rows()
        return self._store.rows_after(max(self._now - 1 - self._longer, int(BEFORE_TIME)))

    def bytes(self) -> int:
        return self._store.nbytes() if self._counts_rows and self._store.stubs else 0


class _Rows(_Window):
    """Keys of the store: 0 the partition of a row and its number there, 1 the row id that elements carry.

    A window that is the only one of its store inserts the rows that it keeps. If there are several, one
    inserts all rows, and each has those that it keeps in its pane.
    """

    saved = ("_store", "_stub", "_inserted")
    format = 3

    def __init__(self, node: SeqWindow, stores: Stores, store: Store) -> None:
        super().__init__(stores, store)
        assert node.size is not None
        self._size, self._pane = node.size, node.pane
        first, others = node.keep[: node.first], node.keep[node.first :]
        both = ((first, "static", True), (others, node.filters, False))
        self._keep = [Conjunction(k, by, fixed) for k, by, fixed in both if k]
        if store.positions is None:
            store.positions = PartitionCounts(node.schema, node.partition_by)
        store.open_pane(self._pane)
        self._stub = Stub(store, pane=self._pane)

    def close(self) -> None:
        self._store.close_pane(self._pane)
        super().close()

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        if not len(chunk):
            self._stub.advance(clock.now)
            none = np.empty(0, np.int64)
            return Chunk(chunk.ts, chunk.sign, chunk.columns, rid=none, rows=none)
        kept = self._kept(chunk)
        rids, places = self._rows(chunk, kept)
        there = rids >= 0
        self._stub.read(rids[there])
        self._store.enter(self._pane, rids[there], kept[there])
        before = self._leaving(places)
        leaves = before >= 0
        self._store.end_in(self._pane, before[leaves], chunk.ts[leaves])
        out = self._elements(chunk.ts, rids, before, kept, leaves)
        self._stub.advance(clock.now)
        return out

    def configure(self, knobs: Knobs) -> None:
        for conjunction in self._keep:
            conjunction.configure(knobs)

    def _kept(self, chunk: Chunk) -> Bools:
        rows = np.arange(len(chunk))
        for conjunction in self._keep:
            rows = rows[conjunction.rows(chunk.take(rows) if len(rows) < len(chunk) else chunk)]
        kept = np.zeros(len(chunk), np.bool_)
        kept[rows] = True
        return kept

    def _rows(self, chunk: Chunk, kept: Bools) -> tuple[Int64s, Int64s]:
        """The rows' ids in the store, -1 for one that it has not, and their places."""
        store, behind = self._store, self._store.inserted - self._inserted
        if behind:  # another window over the stream has inserted them
            self._inserted += len(chunk)
            rids = np.arange(store.next - behind, store.next - behind + len(chunk))
            return rids, store.key(0, rids)[0]
        assert store.positions is not None
        places = _place(*store.positions.assign(chunk))
        stored = kept if len(store.writers) == 1 else np.ones(len(chunk), np.bool_)
        rids = np.full(len(chunk), -1, np.int64)
        rids[stored] = self._insert(chunk.where(stored), places[stored])
        self._inserted = store.inserted
        return rids, places

    def _leaving(self, places: Int64s) -> Int64s:
        """The rows that those at the given places replace; -1 for none, for example a placeholder."""
        old = places - self._size
        found = self._store.index((0,)).find(self._store, old)  # type: ignore[union-attr]
        starts, ends = self._store.life(found, self._pane)
        same = (old >> ROW_NUMBER_BITS) == (places >> ROW_NUMBER_BITS)
        return np.where((found >= 0) & same & (ends == FOREVER) & (starts < FOREVER), found, -1)

    def _insert(self, chunk: Chunk, places: Int64s) -> Int64s:
        valid, first = np.ones(len(chunk), np.bool_), self._store.inserted
        ids = np.arange(first, first + len(chunk))
        ends = np.full(len(chunk), FOREVER)
        return self._store.insert(chunk.ts, ends, [(places, valid), (ids, valid)], chunk.columns.columns)

    def _elements(self, ts: Int64s, rids: Int64s, before: Int64s, kept: Bools, leaves: Bools) -> Chunk:
        """Each arriving row that is kept as a + element, then the − element of the row it replaces."""
        shown = np.stack([kept, leaves], axis=1).ravel()
        rows = np.stack([rids, before], axis=1).ravel()[shown]
        sign = np.tile(np.array([1, -1], np.int8), len(ts))[shown]
        ids, _ = self._store.key(1, rows)
        return Chunk(np.repeat(ts, 2)[shown], sign, self._store.rows(rows), rid=ids, rows=rows)

    def _own_rows(self) -> int:
        return self._store.rows_in(self._pane)

    def bytes(self) -> int:
        return self._store.nbytes() if self._counts_rows else 0

    def measure(self) -> Iterator[Reading]:
        return self._keep[-1].measure() if self._keep else iter(())
