"""The common part of the B+tree and the T-tree: probes by a range of one key.

A row is inserted when it arrives and skipped once it is older than the store's ``base``. Dead entries are
removed when their node is full, and all of them when they outnumber the live ones: the entries are then read
in order and packed into a new tree, which costs a few nanoseconds per row.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.index import Matches, RangeIndex
from penstock.engine.kernels import ordered
from penstock.engine.kernels.probing import View
from penstock.engine.overflow import filled, zeros
from penstock.engine.settings import MIN_TREE_NODES, TREE_NODE_ROWS

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store

Places = tuple[Int64s, Int64s]


class OrderedIndex(RangeIndex):
    """Sorted entries of the first of ``keys``."""

    def __init__(self, store: Store, keys: tuple[int, ...], node: int = TREE_NODE_ROWS) -> None:
        self.keys = keys
        self._node = node
        self._head = np.empty(0, np.int64)
        self._fill(*self._sorted(store))

    def _sorted(self, store: Store) -> tuple[Int64s, Int64s]:
        """Keys and row ids of the store's rows, in order."""
        keys, valid = store.key_run(self.keys[0], store.base, store.next - store.base)
        rows = np.flatnonzero(valid)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        return keys[rows], rows + store.base

    def _fill(self, keys: Int64s, rows: Int64s) -> None:
        """A new tree of these entries, its nodes three quarters full."""
        per = max(1, 3 * self._node // 4)
        nodes = max(MIN_TREE_NODES, 2 * (len(keys) // per + 1))
        self._counts, self._nexts = zeros((nodes,), np.int64), filled((nodes,), -1, np.int64)
        self._keys, self._rids = (zeros((nodes, self._node), np.int64) for _ in range(2))
        self._load(keys, rows, per)

    def rebuild(self, store: Store) -> None:
        """Nothing to do when the store's rings move: entries name rows, not slots."""

    def insert(self, store: Store, first: int, count: int) -> None:
        keys, valid = store.key_run(self.keys[0], first, count)
        done = self._insert(keys, valid, 0, first, store.base)
        while done < count:
            self._more_nodes()
            done = self._insert(keys, valid, done, first, store.base)
        if self._entries() > 2 * (store.next - store.base) + self._node * MIN_TREE_NODES:
            chain = (self._keys, self._rids, self._counts, self._nexts)
            self._fill(*ordered.entries(*chain, self._first(), store.base))

    def _more_nodes(self) -> None:
        """Twice as many nodes."""
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray) and array is not self._head:
                larger = zeros((2 * len(array), *array.shape[1:]), np.int64)
                larger[: len(array)] = array
                setattr(self, name, larger)

    def probe_range(
        self, store: Store, lows: Int64s, highs: Int64s, valid: Bools,
        starts: Int64s, ends: Int64s, view: View,
    ) -> Matches:  # fmt: skip
        return ordered.collect(*self._walk(store, lows, valid, highs, starts, ends, view))

    def first(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Int64s:
        return ordered.first_in_order(*self._walk(store, keys, valid, keys, starts, ends, view))

    def _walk(self, store: Store, lows: Int64s, valid: Bools, *more: Any) -> Any:
        chain = (self._keys, self._rids, self._counts, self._nexts)
        lives = store.lives_in(more[-1])
        return (*chain, lives, store.base, store.mask, *self._locate(lows, valid), *more)

    def nbytes(self) -> int:
        return sum(int(a.nbytes) for a in vars(self).values() if isinstance(a, np.ndarray))

    @abstractmethod
    def _load(self, keys: Int64s, rows: Int64s, per: int) -> None:
        """Build a new tree above the nodes from sorted entries."""

    @abstractmethod
    def _insert(self, keys: Int64s, valid: Bools, done: int, first: int, base: int) -> int:
        """Insert rows until the nodes are used up; returns the number inserted."""

    @abstractmethod
    def _locate(self, lows: Int64s, valid: Bools) -> Places:
        """Where each range begins."""

    @abstractmethod
    def _first(self) -> int:
        """The first node of the chain."""

    @abstractmethod
    def _entries(self) -> int:
        """The number of entries, including dead ones."""
