"""T-tree on one key of a store: a balanced binary tree whose nodes each hold a run of sorted entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.ordered import OrderedIndex, Places
from penstock.engine.kernels import t_tree as kernel


class TTree(OrderedIndex):
    """Two comparisons per node on the way down, and a binary search in the node that bounds the key."""

    name = "t-tree"

    def _load(self, keys: Int64s, rows: Int64s, per: int) -> None:
        nodes = len(self._counts)
        self._links, self._heights = np.empty((nodes, 4), np.int64), np.zeros(nodes, np.int64)
        self._head = np.zeros(kernel.HEAD, np.int64)
        kernel.load(*self._arrays(keys, rows, per))

    def _arrays(self, *more: Any) -> Any:
        nodes = (self._keys, self._rids, self._counts, self._nexts)
        return (self._head, *nodes, self._links, self._heights, *more)

    def _insert(self, keys: Int64s, valid: Bools, done: int, first: int, base: int) -> int:
        return int(kernel.insert(*self._arrays(keys, valid, done, first, base)))

    def _locate(self, lows: Int64s, valid: Bools) -> Places:
        return kernel.locate(self._head, self._keys, self._counts, self._links, lows, valid)

    def _first(self) -> int:
        return int(self._head[kernel.FIRST])

    def _entries(self) -> int:
        return int(self._head[kernel.ENTRIES])
