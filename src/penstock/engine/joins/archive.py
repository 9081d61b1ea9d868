"""Rows on disk that a join has probably no need of, behind Bloom filters in memory (thesis 6.1.6).

Rows are written in pieces, each of which is sorted by every join key; pieces are merged with later ones that
are not much smaller. A look-up reads from the disk only in pieces whose filter has the key. What is found is
removed, since it goes back to the join.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import bloom
from penstock.engine.kernels.membership import among
from penstock.engine.overflow import Memory
from penstock.engine.snapshot import State, Stateful
from penstock.engine.stage import MemoryLimit
from penstock.engine.synopses.store import Kept


class _Piece:
    """Rows in files; in memory are a filter per key and which rows are gone."""

    payload = True

    def __init__(self, rows: Kept, memory: Memory, classes: int) -> None:
        order = [np.argsort(rows.keys[:, c], kind="stable") for c in range(classes)]
        self._sorted = [memory.moved(np.ascontiguousarray(rows.keys[o, c])) for c, o in enumerate(order)]
        self._order = [memory.moved(o) for o in order]
        lives, keys, marks = (
            memory.moved(np.ascontiguousarray(a)) for a in (rows.lives, rows.keys, rows.marks)
        )
        self._rows = Kept(lives, keys, marks, [memory.moved(c) for c in rows.columns])
        self._filters = [bloom.empty(len(rows)) for _ in range(classes)]
        for c, words in enumerate(self._filters):
            bloom.add(words, np.ascontiguousarray(rows.keys[:, c]))
        self._gone = np.zeros(-(-len(rows) // 8), np.uint8)
        self.left, self._last = len(rows), int(rows.lives[:, 1].max())

    def __len__(self) -> int:
        return len(self._rows)

    def _there(self, rows: Int64s) -> Bools:
        return (self._gone[rows >> 3] >> (rows & 7).astype(np.uint8)) & 1 == 0

    def find(self, classes: Sequence[int], keys: np.ndarray) -> Int64s:
        """The rows that have one of the keys, a line of values of these classes each."""
        asked = np.unique(
            keys[bloom.may_have(self._filters[classes[0]], np.ascontiguousarray(keys[:, 0])), 0]
        )
        low, high = (np.searchsorted(self._sorted[classes[0]], asked, side) for side in ("left", "right"))
        runs = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True) if a < b]
        if not runs:
            return np.empty(0, np.int64)
        rows = np.asarray(self._order[classes[0]][np.concatenate(runs)])
        rows = rows[self._there(rows)]
        own = np.ascontiguousarray(self._rows.keys[rows][:, list(classes)])
        return np.sort(rows[among(np.ascontiguousarray(keys), own)])

    def remove(self, rows: Int64s) -> Kept:
        np.bitwise_or.at(self._gone, rows >> 3, (1 << (rows & 7)).astype(np.uint8))
        self.left -= len(rows)
        return self._rows.take(rows)

    def alive(self, now: int) -> Kept:
        """The rows that are still there and have not ended by ``now``."""
        rows = np.arange(len(self))
        return self._rows.take(rows[self._there(rows) & (self._rows.lives[:, 1] > now)])

    def over(self, now: int) -> bool:
        return not self.left or self._last <= now

    def nbytes(self) -> int:
        return self._gone.nbytes + sum(f.nbytes for f in self._filters)


class Archive(Stateful):
    """The rows of one input; ``classes``: of the keys of its rows, so many join."""

    def __init__(self, classes: int, directory: str | None, empty: Kept) -> None:
        self._classes, self._empty = classes, empty
        self._memory = Memory(MemoryLimit(0, directory))
        self._pieces: list[_Piece] = []

    def __len__(self) -> int:
        return sum(p.left for p in self._pieces)

    def put(self, rows: Kept, now: int) -> None:
        """Write rows; those that have ended by ``now`` are not kept."""
        pending = [rows] if len(rows) else []
        while self._pieces and pending and len(self._pieces[-1]) <= 2 * sum(map(len, pending)):
            pending.insert(0, self._pieces.pop().alive(now))
        pending = [p for p in pending if len(p)]
        if pending:
            self._pieces.append(_Piece(Kept.concat(pending), self._memory, self._classes))

    def take(self, classes: Sequence[int], keys: np.ndarray, now: int) -> Kept:
        """Remove and return the rows that have one of these keys, and have not ended by ``now``."""
        found = []
        for piece in self._pieces:
            rows = piece.find(classes, keys)
            if len(rows):
                found.append(piece.remove(rows))
        if not found:
            return self._empty
        back = Kept.concat(found)
        return back.take(np.flatnonzero(back.lives[:, 1] > now))

    def expire(self, now: int) -> None:
        """Delete pieces of which nothing is needed any more."""
        self._pieces = [p for p in self._pieces if not p.over(now)]

    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(p.nbytes() for p in self._pieces)

    @property
    def on_disk(self) -> int:
        return self._memory.on_disk

    def state(self) -> dict[str, State]:
        rows = Kept.concat([self._empty, *(p.alive(-(1 << 62)) for p in self._pieces)])
        return {"lives": rows.lives, "keys": rows.keys, "marks": rows.marks, "columns": rows.columns}

    def _load(self, state: dict[str, State]) -> None:
        self._pieces = []
        self.put(Kept(state["lives"], state["keys"], state["marks"], state["columns"]), -(1 << 62))
