"""The panes of a store: the lives of its rows as each of several row windows sees them.

Row windows of several sizes, or with several filters, have the same rows with different lives. Each has a
pane, a ring of lives beside the store's own, and the store counts for every row the windows that have it: its
own life of a row ends when the last window's does. With a single window the two are the same, and there is no
pane.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Int64s
from penstock.engine.synopses.columns import ring_put, ring_resized, ring_run

NO_LIFE = (FOREVER, BEFORE_TIME)
"""The life of a row that is not there: of one that is no longer kept, or that a window has not."""


class Panes:
    """The windows over a store by name, and their panes if there are several. Rows are given by slot."""

    def __init__(self) -> None:
        self._windows: list[str] = []
        self._lives: dict[str, Int64s] = {}
        self._uses = np.zeros(0, np.int64)
        """By row, how many windows have it; only if there are panes."""

    def __bool__(self) -> bool:
        return bool(self._lives)

    def open(self, name: str, lives: Int64s) -> None:
        """Add a window; ``lives`` are those of the store."""
        self._windows.append(name)
        if len(self._windows) == 2:
            self._lives = {self._windows[0]: lives.copy()}
            self._uses = (lives[:, 1] == FOREVER).astype(np.int64)
        if len(self._windows) > 1:
            self._lives[name] = np.full(lives.shape, NO_LIFE)

    def close(self, name: str) -> Int64s | None:
        """Remove a window. If one is left of several, returns its lives: they are now the store's."""
        self._windows.remove(name)
        if self._lives.pop(name, None) is None or len(self._windows) > 1:
            return None
        (last,) = self._lives.values()
        self._lives, self._uses = {}, np.zeros(0, np.int64)
        return last

    def enter(self, name: str, slots: Int64s, starts: Int64s) -> None:
        """A window has these rows."""
        self._lives[name][slots, 0] = starts
        self._lives[name][slots, 1] = FOREVER

    def end(self, name: str, slots: Int64s, ends: Int64s) -> None:
        """Set the end of rows in a window."""
        self._lives[name][slots, 1] = ends

    def release(self, slots: Int64s) -> Bools:
        """A window has no use for rows any more; returns which of them no other has."""
        self._uses[slots] -= 1
        return np.asarray(self._uses[slots] == 0)

    def put(self, first: int, count: int) -> None:
        """Make room for new rows: every window is yet to come to them."""
        ring_put(self._uses, first, np.full(count, len(self._windows)))
        for lives in self._lives.values():
            ring_put(lives, first, np.full((count, 2), NO_LIFE))

    def resize(self, base: int, stop: int, capacity: int) -> None:
        """Move the rings of rows ``base .. stop`` into larger or smaller ones."""
        self._lives = {n: ring_resized(lives, base, stop, capacity) for n, lives in self._lives.items()}
        self._uses = ring_resized(self._uses, base, stop, capacity)

    def number(self, name: str) -> int:
        """The number of a window's lives in a view; 0 for the store's own."""
        return list(self._lives).index(name) + 1 if name in self._lives else 0

    def numbered(self, number: int) -> Int64s:
        """The lives of that number."""
        return list(self._lives.values())[number - 1]

    def lives_of(self, name: str) -> Int64s | None:
        """The lives of a window, if it has its own."""
        return self._lives.get(name)

    def at(self, slots: Int64s) -> dict[str, Int64s]:
        """A copy of the lives of rows, by window."""
        return {name: lives[slots] for name, lives in self._lives.items()}

    def state(self, first: int, count: int) -> dict[str, Int64s]:
        """The lives of a run of rows, by window."""
        return {name: ring_run(lives, first, count) for name, lives in self._lives.items()}

    def load(self, first: int, count: int, saved: Mapping[str, Int64s], own: Int64s) -> Bools:
        """Set how the windows see a run of rows; ``own``: the lives of the store. Returns which of the rows
        no window has: those of windows that this store does not have.
        """
        mine = {name: saved[name] for name in self._windows if name in saved}
        if not mine:
            return np.zeros(count, np.bool_)
        uses = np.zeros(count, np.int64)
        for name, lives in mine.items():
            ring_put(self._lives.get(name, own), first, lives)
            uses += lives[:, 1] == FOREVER
        if self._lives:
            ring_put(self._uses, first, uses)
        return uses == 0

    def nbytes(self) -> int:
        return sum(lives.nbytes for lives in self._lives.values()) + self._uses.nbytes
