"""The instants at which emitted tuples leave: i-stream cancels an equal tuple that enters at that instant.

Tuples are kept as 128-bit fingerprints, not payload. A tuple that leaves at τ had all its parts before τ, so
over streams that arrive in order its entry exists when the equal one enters.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk
from penstock.engine.kernels import leaving as kernel
from penstock.engine.kernels.hashing import hash_rows
from penstock.engine.overflow import filled, zeros
from penstock.engine.settings import MIN_STORE_ROWS
from penstock.engine.snapshot import State, Stateful


class Leaving(Stateful):
    """A bag of (fingerprint, instant at which it leaves)."""

    def __init__(self) -> None:
        self._count = 0
        self._now = self._all_gone_at = int(BEFORE_TIME)
        self._entries = np.zeros((MIN_STORE_ROWS, 5), np.int64)
        self._heads = np.full(MIN_STORE_ROWS, -1, np.int64)

    def __len__(self) -> int:
        return self._count

    def cancel(self, chunk: Chunk) -> Bools:
        """Record when these tuples leave; returns which of them replace an equal one that leaves as they
        enter.
        """
        columns = chunk.columns.columns
        a, b = hash_rows(columns, len(chunk), 1), hash_rows(columns, len(chunk), 2)
        assert chunk.end is not None
        self._add(np.stack([a, b, chunk.end, chunk.ts, chunk.ts], axis=1))
        return kernel.take_out(self._heads, self._entries, a, b, chunk.ts)

    def _add(self, entries: np.ndarray) -> None:
        need = self._count + len(entries)
        if need > len(self._entries):
            self._relayout(self._entries[: self._count], 2 * need)
        self._entries[self._count : need] = entries
        kernel.add(self._heads, self._entries, self._count, len(entries))
        self._count = need

    def forget(self, now: int) -> None:
        """Drop entries before ``now``, once a whole generation has left or the table is full."""
        self._now = now
        if now > self._all_gone_at or self._count > len(self._entries) // 2 > MIN_STORE_ROWS:
            entries = self._entries[: self._count]
            self._relayout(entries[entries[:, 2] >= now], 2 * self._count)

    def _relayout(self, entries: np.ndarray, room: int) -> None:
        capacity = 1 << max(int(room).bit_length(), 10)
        self._entries, kept = zeros((capacity, 5), np.int64), entries.copy()
        self._entries[: len(kept)] = kept
        self._heads = filled((capacity,), -1, np.int64)
        self._count = len(kept)
        self._all_gone_at = int(kept[:, 2].max()) if len(kept) else int(BEFORE_TIME)
        kernel.add(self._heads, self._entries, 0, len(kept))

    def state(self) -> dict[str, State]:
        entries = self._needed()
        return {"entries": entries[np.lexsort(entries.T[::-1])]}

    def _needed(self) -> np.ndarray:
        """The entries that may still cancel a tuple: others are there until they are dropped."""
        entries = self._entries[: self._count]
        return np.asarray(entries[(entries[:, 2] != BEFORE_TIME) & (entries[:, 2] >= self._now)])

    def _load(self, state: dict[str, State]) -> None:
        self._relayout(state["entries"], 2 * len(state["entries"]))

    def oldest(self) -> int:
        """The least timestamp of the tuples that may still leave."""
        return int(self._needed()[:, 3].min(initial=FOREVER))

    def nbytes(self) -> int:
        return int(self._entries.nbytes + self._heads.nbytes)
