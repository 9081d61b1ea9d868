"""A cache of a join subresult (thesis 5.4): for some keys, all joined rows of a segment of inputs.

Consistency (definition 5.4.1), by lives: for every key that the cache has, the entries of its value that are
alive at an instant are the joined rows of the segment with that key at that instant. A value may also have
entries that are no longer alive: whoever reads it passes them over, so rows that leave need no update. The
cache promises nothing about which keys it has. It can be cleared at any time.

Values are row ids in the stores of the inputs, never copies. The ids of a store change when it moves its rows
up; then the cache is cleared. It is no state: it is in no snapshot, and a rebuilt engine starts without.

>>> cache = Cache(words=1, parts=2, limit=1 << 16)
>>> key = np.array([[7]])
>>> bases = np.zeros(2, np.int64)
>>> cache.find(key)
array([-1])
>>> row = np.array([3]), np.array([4])
>>> cache.create(key, np.array([0]), row, (np.array([0]), np.array([9])), bases).tolist()
[[0, 1]]
>>> cache.insert(key, np.array([[3, 5]]), np.array([[2, 9]]), bases)
>>> stores = (np.zeros((8, 2), np.int64),) * 2
>>> alive = np.array([1]), np.array([9]), bases, stores, np.zeros((2, 3), np.int64)
>>> cache.read(cache.values(cache.find(key)), *alive)[1].tolist()
[[3, 3], [4, 5]]
"""

from __future__ import annotations

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.kernels import caching
from penstock.engine.settings import (
    CACHE_BUCKETS_SHARE,
    CACHE_LOST_PART,
    CACHE_LOST_SAMPLE,
    CACHE_ROOM_PART,
    MIN_CACHE_BUCKETS,
    MIN_CACHE_ROWS,
)


class Cache:
    """Keys of ``words`` integers; values of rows of ``parts`` inputs, in ``limit`` bytes between steps.

    Each bucket holds one key: a new key replaces it. There are buckets for the ``expected`` keys; while many
    new keys replace others that are in use, their number is multiplied, and the cache begins anew.
    """

    def __init__(self, words: int, parts: int, limit: int, expected: int = 0) -> None:
        self._words, self._parts = words, parts
        self._expected = expected
        self.limit = limit
        self.hits = self.misses = self.updates = self.evicted = 0
        self.operations = 0
        """Keys looked up or added, and entries read or added."""
        self._reset()

    def _reset(self) -> None:
        buckets = max(MIN_CACHE_BUCKETS, min(self._most_buckets(), 4 * self._expected))
        self._keys, self._spans = self._buckets(1 << (buckets.bit_length() - 1))
        self.rows = np.empty((MIN_CACHE_ROWS, self._parts), np.int64)
        self.lives = np.empty((MIN_CACHE_ROWS, 2), np.int64)
        self._top = self._hand = self._created = self._lost = self._added = self._kept = 0

    def _buckets(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and spans of empty buckets, those of a bucket beside each other: a look-up reads both."""
        buckets = np.full((count, self._words + 3), -1, np.int64)
        return buckets[:, : self._words], buckets[:, self._words :]

    def _most_buckets(self) -> int:
        """As many as a part of the memory has room for, a power of two."""
        room = max(int(self.limit * CACHE_BUCKETS_SHARE) // (8 * self._words + 24), MIN_CACHE_BUCKETS)
        return 1 << (room.bit_length() - 1)

    def __len__(self) -> int:
        """The number of keys."""
        return int((self._spans[:, 0] >= 0).sum())

    def nbytes(self) -> int:
        return int(self._keys.nbytes + self._spans.nbytes + self.rows.nbytes + self.lives.nbytes)

    def clear(self) -> None:
        """Remove everything."""
        self._spans[:, 0] = -1
        self._top = 0

    def find(self, words: np.ndarray) -> Int64s:
        """The bucket of each key, -1 for a miss. Buckets are valid until the next ``create``."""
        self.operations += len(words)
        return caching.find(self._keys, self._spans, words)

    def values(self, buckets: Int64s) -> np.ndarray:
        """(first entry, number of entries) of the values in some buckets; an empty one for -1."""
        return caching.values(self._spans, buckets)

    def create(
        self,
        words: np.ndarray,
        places: Int64s,
        found: tuple[Int64s, ...],
        lives: tuple[Int64s, Int64s],
        bases: Int64s,
    ) -> np.ndarray:
        """Add keys, each with the joined rows whose place is its own; returns their values until ``trim``.

        ``found``: the rows of each input; ``lives``: their starts and ends.
        """
        self.reserve(len(places), bases)
        pool = self._keys, self._spans, self.rows, self.lives, self._top, bases
        counts = np.bincount(places, minlength=len(words))
        values, self._top, lost = caching.create(*pool, words, places, counts, found, *lives)
        self._created += len(words)
        self._lost += CACHE_LOST_SAMPLE * lost
        self.operations += len(words) + len(places)
        return values

    def insert(
        self, words: np.ndarray, rows: np.ndarray, lives: np.ndarray, bases: Int64s, absent: bool = False
    ) -> None:
        """Add joined rows to the values of those keys that the cache has; ``absent``: only new ones."""
        done = 0
        while done < len(words):
            pool = self._keys, self._spans, self.rows, self.lives, self._top
            done, self._top = caching.insert(*pool, words, rows, lives, done, absent)
            if done < len(words):
                # The value that has no room needs twice its entries at most.
                self.reserve(2 * int(self._spans[:, 2].max()) + 2, bases)
        self.updates += len(words)
        self.operations += len(words)
        self._added += len(words)

    def read(
        self,
        values: np.ndarray,
        starts: Int64s,
        ends: Int64s,
        bases: Int64s,
        stores: tuple[np.ndarray, ...],
        view: np.ndarray,
        later: bool = False,
    ) -> tuple[Int64s, np.ndarray, Int64s, Int64s]:
        """The rows of values that are alive with the tuples that read them: places, rows, starts, ends.

        ``stores``, ``view``, ``later``: as in ``kernels.caching.read``.
        """
        found = caching.read(self.rows, self.lives, bases, values, starts, ends, stores, view, later)
        self.operations += len(found[0])
        return found

    def reserve(self, count: int, bases: Int64s) -> None:
        """Make room for more entries, without giving up any key."""
        if self._top + count > len(self.rows):
            # Packing reads every bucket: it pays to have room for as many entries as a part of those.
            most = (self.limit - self._keys.nbytes - self._spans.nbytes) // (8 * (self._parts + 2))
            room = min(len(self._keys), max(most, 0)) // CACHE_ROOM_PART
            self._repack(max(count, len(self.rows) // 2, room) + self._live(), bases)

    def _live(self) -> int:
        return caching.entries(self._spans)

    def _repack(self, room: int, bases: Int64s) -> None:
        rows, lives = np.empty((room, self._parts), np.int64), np.empty((room, 2), np.int64)
        self._top = caching.compact(self._spans, self.rows, self.lives, bases, rows, lives)
        self.rows, self.lives = rows, lives
        self._added, self._kept = 0, self._top

    def trim(self, bases: Int64s) -> None:
        """Return to the limit: dead entries go first, then keys, one after the other.

        Dead entries also go when as many were added as there are others: whoever reads passes them over.
        """
        if self._added > max(self._kept, MIN_CACHE_ROWS):
            self._repack(len(self.rows), bases)
        if self._created > len(self._keys):
            self._more_buckets()
        if self.nbytes() <= self.limit:
            return
        each = 8 * (self._parts + 2)
        most = max((self.limit - self._keys.nbytes - self._spans.nbytes) // each, 0)
        if self._top > most // 2:
            self._repack(max(self._live(), 1), bases)
        if self._top > most // 2:
            excess = self._top - most // 2
            self._hand, emptied = caching.evict(self._spans, self._hand, excess)
            self.evicted += emptied
        self._repack(max(min(most, 2 * self._live()), self._live(), 1), bases)

    def _more_buckets(self) -> None:
        """Begin anew with more buckets, if the memory allows and many keys have replaced others in use. Those
        whose rows are gone are no loss, and buckets that nobody needs make every look-up slower.
        """
        created, lost = self._created, self._lost
        self._created = self._lost = 0
        if lost > created // CACHE_LOST_PART and len(self._keys) < self._most_buckets():
            self._expected = max(self._expected, created)
            self._reset()

    def resize(self, limit: int, bases: Int64s) -> None:
        """Use another amount of memory from now on."""
        self.limit = limit
        if len(self._keys) > (most := self._most_buckets()):
            self._fold(most)
        self.trim(bases)

    def _fold(self, buckets: int) -> None:
        """Use fewer buckets. Of the keys that now share one, the last stays."""
        held = np.flatnonzero(self._spans[:, 0] >= 0)
        keys, spans = self._buckets(buckets)
        # A bucket is the last bits of its key's hash.
        keys[held & (buckets - 1)], spans[held & (buckets - 1)] = self._keys[held], self._spans[held]
        self._keys, self._spans = keys, spans
        self._hand = 0
