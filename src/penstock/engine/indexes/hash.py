"""Hash index on one or several keys of a store: a probe reads only rows with an equal key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.index import Index, Matches
from penstock.engine.kernels import probing
from penstock.engine.kernels.probing import View
from penstock.engine.overflow import filled, zeros
from penstock.engine.settings import HASH_BUCKET_ROWS

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store


class HashIndex(Index):
    """Chains of rows in arrival order per bucket; expiry costs nothing.

    About ``bucket`` rows share a bucket when the store is half full: larger buckets save memory and cost
    time.
    """

    name = "hash"

    def __init__(self, store: Store, keys: tuple[int, ...], bucket: float = HASH_BUCKET_ROWS) -> None:
        self.keys = keys
        self._bucket = bucket
        self._heads = np.empty(0, np.int64)
        self._entries = np.empty((0, 2), np.int64)
        self.rebuild(store)

    def rebuild(self, store: Store) -> None:
        """Resize to the store and insert its live rows."""
        buckets = max(1, int(store.capacity / (2 * self._bucket)))
        self._heads = filled((1 << (buckets.bit_length() - 1),), -1, np.int64)
        self._entries = zeros((store.capacity, 2), np.int64)
        self.insert(store, store.base, store.next - store.base)

    def insert(self, store: Store, first: int, count: int) -> None:
        keys, valid = combine([store.key_run(k, first, count) for k in self.keys])
        probing.insert(self._heads, self._entries, keys, valid, first, store.mask)

    def prepare(self, keys: Sequence[tuple[Int64s, Bools]]) -> tuple[Int64s, Bools]:
        """Combine all keys into one."""
        return combine(keys)

    def probe(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Matches:
        chains = probing.chain_heads(self._heads, keys, valid)
        return self.probe_from(store, chains, keys, starts, ends, view)

    def probe_from(
        self, store: Store, firsts: Int64s, keys: Int64s, starts: Int64s, ends: Int64s, view: View
    ) -> Matches:
        place = (self._entries, store.lives_in(view), store.base, store.mask)
        return probing.probe_chains(*place, firsts, keys, starts, ends, view)

    def first(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Int64s:
        chains = probing.chain_heads(self._heads, keys, valid)
        place = (self._entries, store.lives_in(view), store.base, store.mask)
        return probing.first_matches(*place, chains, keys, starts, ends, view)

    def find(self, store: Store, keys: Int64s) -> Int64s:
        """Return the row of each key, -1 if there is none. Keys must be unique."""
        return probing.find_rows(self._heads, self._entries, store.base, store.mask, keys)

    def nbytes(self) -> int:
        return int(self._heads.nbytes + self._entries.nbytes)


def combine(keys: Sequence[tuple[Int64s, Bools]]) -> tuple[Int64s, Bools]:
    """Combine several (key, valid) into one by hashing; unequal keys may collide."""
    if len(keys) == 1:
        return keys[0]
    words = keys[0][0].view(np.uint64)
    for key, _ in keys[1:]:
        words = _mix_arrays(words, key.view(np.uint64))
    return words.view(np.int64), np.logical_and.reduce([valid for _, valid in keys])


def _mix_arrays(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = (a ^ (a >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + b
        x = (x ^ (x >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
