"""Stubs (thesis 2.3.1): one reader's view of a store, and its progress.

A stub sees the rows up to its ``frontier``, with lives that end ``longer`` after the stored end (windows of
several sizes over the same rows), and reports with ``advance`` which rows it no longer needs. One that came
later than others sees only the rows that begin ``since`` a given instant. Of row windows that share a store,
each stub sees the pane of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Int64s
from penstock.engine.kernels import probing
from penstock.engine.kernels.probing import View
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.invalidation import Invalidation
from penstock.engine.synopses.store import KeyOf, Store


class Stub(Stateful):
    """One reader of a store. ``columns``: the store's columns that it reads, by its own names.

    ``frontier``: the first row that it has not read. ``passed``: it no longer needs rows whose stored end is
    up to that. ``steps`` counts its steps, those of its elders included.
    """

    saved = ("frontier", "due_from", "passed", "steps")
    bound_to = ("store",)

    def __init__(
        self,
        store: Store,
        columns: Mapping[str, str] | None = None,
        keys: Sequence[KeyOf] = (),
        longer: int = 0,
        since: int = int(BEFORE_TIME),
        pane: str = "",
    ) -> None:
        """``keys``: the keys by which it looks up rows; ``pane``: the window whose rows it sees."""
        self.store, self.longer, self._since, self._pane = store, longer, since, pane
        self.columns = dict(columns) if columns is not None else {n: n for n in store.schema.names}
        self.keys = [store.key_of(k) for k in keys]
        self.frontier = self.due_from = store.next
        self.passed = int(BEFORE_TIME)
        self.steps: int = store.stubs[0].steps if store.stubs else 0
        self.invalidation: Invalidation | None = None
        """When rows are to be freed, if it probes."""
        store.keep(self.columns.values())
        store.stubs.append(self)

    def state(self) -> dict[str, State]:
        """The steps count from those of the reader that has taken least: only differences matter."""
        steps = self.steps - min(s.steps for s in self.store.stubs)
        at = {name: self.store.saved_id(getattr(self, name)) for name in ("frontier", "due_from")}
        return {**super().state(), **at, "steps": steps}

    def read(self, rows: Int64s) -> None:
        """Read the rows that a step brought. The store may have later ones, of slices yet to come."""
        if len(rows):
            self.frontier = max(self.frontier, int(rows.max()) + 1)
            self.store.take_in(self.frontier)

    def view(self, min_end: int = int(BEFORE_TIME)) -> View:
        """Its view for probes: rows that it has read and that do not end before ``min_end``."""
        return View(min_end, self.frontier, self.longer, self._since, self.store.pane_number(self._pane))

    @property
    def lives(self) -> Int64s:
        """The lives of all rows, by slot, as it sees them."""
        return self.store.lives_in(self.view())

    @property
    def has_read_all(self) -> bool:
        """Whether the store has no rows for it that are yet to be read."""
        store = self.store
        if self.frontier == store.next or not store.pane_number(self._pane):
            return self.frontier == store.next
        rest = np.arange(max(self.frontier, store.base), store.next)
        return bool((store.life(rest, self._pane)[0] == FOREVER).all())

    def alive(self, now: int) -> Int64s:
        """The rows that it sees whose stored life does not end by ``now``."""
        return probing.alive(self.lives, self.store.base, self.store.next, self.store.mask, now)

    def life(self, rids: Int64s) -> tuple[Int64s, Int64s]:
        starts, ends = self.store.life(rids, self._pane)
        return starts, ends + self.longer if self.longer else ends

    def key(self, number: int, rids: Int64s) -> tuple[Int64s, Bools]:
        """One of its keys, and where it is not NULL."""
        return self.store.key(self.keys[number], rids)

    def gather(self, name: str, rids: Int64s) -> pa.Array:
        return self.store.gather(self.columns[name], rids)

    def due(self, now: int) -> Int64s:
        """The rows that end before ``now`` and did not at the last call; rows must be in the order of their
        ends.
        """
        first, store = self.due_from, self.store
        ring = (store.lives, first, self.frontier, store.mask)
        self.due_from = int(probing.first_alive(*ring, self._last_end(now)))
        return self.seen(np.arange(first, self.due_from))

    def seen(self, rids: Int64s) -> Int64s:
        """Those of the rows that it sees, without dropped ones."""
        starts = self.store.life(rids)[0]
        return rids[(starts >= self._since) & (starts < FOREVER)]

    def advance(self, now: int) -> None:
        """End a step: rows that end before ``now`` are no longer needed."""
        self.passed = self._last_end(now)
        self.steps += 1
        self.store.stepped()

    def prefer(self, invalidation: Invalidation) -> None:
        """Let the store free rows by this policy, if its other readers agree."""
        if self.invalidation is not invalidation:
            self.invalidation = invalidation
            self.store.agree()

    def _last_end(self, now: int) -> int:
        """The latest stored end of rows that end before ``now`` in its view."""
        return min(max(int(now) - 1 - self.longer, int(BEFORE_TIME)), int(FOREVER) - 1)
