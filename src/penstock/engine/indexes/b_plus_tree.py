"""B+tree on one key of a store: probes by equality and by range, a few nodes from the root to a leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.ordered import OrderedIndex, Places
from penstock.engine.kernels import b_plus_tree as kernel


class BPlusTree(OrderedIndex):
    """Leaves in key order, and inner nodes that lead to the leaf of a key."""

    name = "b+tree"

    def _load(self, keys: Int64s, rows: Int64s, per: int) -> None:
        nodes = 2 * len(self._counts) // max(2, per) + 8
        self._inner_keys = np.empty((nodes, self._node), np.int64)
        self._children = np.empty((nodes, self._node + 1), np.int64)
        self._inner_counts = np.zeros(nodes, np.int64)
        self._head = np.zeros(kernel.HEAD, np.int64)
        kernel.load(*self._arrays(keys, rows, max(2, per)))

    def _arrays(self, *more: Any) -> Any:
        leaves = (self._keys, self._rids, self._counts, self._nexts)
        return (self._head, *leaves, self._inner_keys, self._children, self._inner_counts, *more)

    def _insert(self, keys: Int64s, valid: Bools, done: int, first: int, base: int) -> int:
        return int(kernel.insert(*self._arrays(keys, valid, done, first, base)))

    def _locate(self, lows: Int64s, valid: Bools) -> Places:
        inner = (self._inner_keys, self._children, self._inner_counts)
        return kernel.locate(self._head, self._keys, self._counts, *inner, lows, valid)

    def _first(self) -> int:
        return 0

    def _entries(self) -> int:
        return int(self._head[kernel.ENTRIES])
