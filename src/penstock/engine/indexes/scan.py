"""No index: a probe reads the key of every row. Nothing is kept, so arrivals cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.index import Matches, RangeIndex
from penstock.engine.kernels import ordered, probing
from penstock.engine.kernels.probing import View

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store


class Scan(RangeIndex):
    """Compares the first of ``keys``; with none, every row alive at the same time is a match."""

    name = "none"

    def __init__(self, store: Store, keys: tuple[int, ...]) -> None:
        self.keys = keys

    def rebuild(self, store: Store) -> None:
        """Nothing to keep."""

    def insert(self, store: Store, first: int, count: int) -> None:
        """Nothing to keep."""

    def probe_range(
        self, store: Store, lows: Int64s, highs: Int64s, valid: Bools,
        starts: Int64s, ends: Int64s, view: View,
    ) -> Matches:  # fmt: skip
        place = (store.lives_in(view), store.base, store.next, store.mask)
        if not self.keys:
            return probing.probe_scan(*place, starts, ends, view)
        key = self.keys[0]
        ring = (store.keys[key], store.key_valid[key], *place)
        return ordered.scan(*ring, lows, highs, valid, starts, ends, view)

    def first(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Int64s:
        out = np.full(len(keys), -1, np.int64)
        places, rids, _, _ = self.probe(store, keys, valid, starts, ends, view)
        out[places] = rids
        return out

    def nbytes(self) -> int:
        return 0
