"""A direct-mapped cache of joined rows by key: find, create, insert, read, and compact.

``keys[bucket]`` has the words of the key that a bucket holds, ``spans[bucket] = (first, count, room)`` where
its value is in the pool; ``first`` is -1 for an empty bucket. A value is consecutive entries of the pool:
``rows[entry]`` are the row ids, one for each input of the cached join, ``lives[entry]`` its start and end.
``top`` is the first free entry. A value that outgrows its room moves to the top; what it leaves behind is
reclaimed by ``compact``. Entries with a row below its store's ``bases`` are dead: their rows are gone.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import mix
from penstock.engine.settings import CACHE_LOST_SAMPLE

_LEAST_ROOM = 2


@njit
def _bucket(words: np.ndarray, i: int, buckets: int) -> np.int64:
    h = np.uint64(0)
    for w in range(words.shape[1]):
        h = mix(np.uint64(words[i, w]) ^ h)
    return np.int64(h & np.uint64(buckets - 1))


@njit
def _same(keys: np.ndarray, bucket: np.int64, words: np.ndarray, i: int) -> bool:
    for w in range(words.shape[1]):
        if keys[bucket, w] != words[i, w]:
            return False
    return True


@njit
def find(keys: np.ndarray, spans: np.ndarray, words: np.ndarray) -> Int64s:
    """The bucket of each key, -1 for a miss.

    No branch depends on what is read, so that the reads of many keys are under way at once.
    """
    out = np.empty(len(words), np.int64)
    for i in range(len(words)):
        bucket = _bucket(words, i, len(keys))
        hit = spans[bucket, 0] >= 0
        for w in range(words.shape[1]):
            hit &= keys[bucket, w] == words[i, w]
        out[i] = bucket * hit - (not hit)
    return out


@njit
def values(spans: np.ndarray, buckets: Int64s) -> np.ndarray:
    """(first, count) of the values in some buckets; an empty one for -1."""
    out = np.zeros((len(buckets), 2), np.int64)
    for i in range(len(buckets)):
        if buckets[i] >= 0:
            out[i, 0], out[i, 1] = spans[buckets[i], 0], spans[buckets[i], 1]
    return out


@njit
def entries(spans: np.ndarray) -> int:
    """How many entries all values have."""
    found = np.int64(0)
    for bucket in range(len(spans)):
        found += spans[bucket, 1] * (spans[bucket, 0] >= 0)
    return int(found)


@njit
def distinct(words: np.ndarray) -> tuple[Int64s, Int64s]:
    """The place of the first of each different key, and for every key the number of its first."""
    size = 4
    while size < 2 * len(words):
        size *= 2
    table = np.full(size, -1, np.int64)
    firsts, numbers = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    found = 0
    for i in range(len(words)):
        at = _bucket(words, i, size)
        while table[at] >= 0 and not _same(words, firsts[table[at]], words, i):
            at = (at + 1) & (size - 1)
        if table[at] < 0:
            table[at] = found
            firsts[found] = i
            found += 1
        numbers[i] = table[at]
    return firsts[:found], numbers


@njit
def _stale(rows: np.ndarray, first: int, count: int, bases: Int64s) -> bool:
    """Whether a value is of rows that are gone, as far as its last entry tells."""
    for m in range(rows.shape[1]):
        if count > 0 and rows[first + count - 1, m] < bases[m]:
            return True
    return False


@njit
def create(
    keys: np.ndarray, spans: np.ndarray, rows: np.ndarray, lives: np.ndarray, top: int, bases: Int64s,
    words: np.ndarray, places: Int64s, counts: Int64s, found: tuple[Int64s, ...], starts: Int64s,
    ends: Int64s,
) -> tuple[np.ndarray, int, int]:  # fmt: skip
    """Add keys with their values; what a bucket held is replaced. The pool must have room.

    ``places``: for each joined row, which key it belongs to; ``counts`` has how many of each key. ``found``,
    ``starts`` and ``ends`` are their rows of each input and their lives.
    Returns (first, count) of each value, the new top, and of some keys how many replaced one that is in use.
    """
    out = np.empty((len(words), 2), np.int64)
    free = np.empty(len(words), np.int64)
    lost, begin = 0, top
    for i in range(len(words)):
        bucket = _bucket(words, i, len(keys))
        first, count = spans[bucket, 0], spans[bucket, 1]
        if i % CACHE_LOST_SAMPLE == 0 and first >= 0 and not _same(keys, bucket, words, i):
            lost += first >= begin or not _stale(rows, first, count, bases)
        for w in range(words.shape[1]):
            keys[bucket, w] = words[i, w]
        spans[bucket, 0], spans[bucket, 1], spans[bucket, 2] = top, counts[i], counts[i]
        out[i, 0], out[i, 1], free[i] = top, counts[i], top
        top += counts[i]
    for e in range(len(places)):
        at = free[places[e]]
        free[places[e]] += 1
        lives[at, 0], lives[at, 1] = starts[e], ends[e]
    for m in range(len(found)):
        column = found[m]
        for i in range(len(words)):
            free[i] = out[i, 0]
        for e in range(len(places)):
            rows[free[places[e]], m] = column[e]
            free[places[e]] += 1
    return out, top, lost


@njit
def _has(rows: np.ndarray, first: int, count: int, new_rows: np.ndarray, i: int) -> bool:
    for e in range(first, first + count):
        same = True
        for m in range(new_rows.shape[1]):
            same &= rows[e, m] == new_rows[i, m]
        if same:
            return True
    return False


@njit
def insert(
    keys: np.ndarray, spans: np.ndarray, rows: np.ndarray, lives: np.ndarray, top: int,
    words: np.ndarray, new_rows: np.ndarray, new_lives: np.ndarray, start: int, absent: bool,
) -> tuple[int, int]:  # fmt: skip
    """Add joined rows to the values of their keys, from ``start`` on; others are ignored.

    ``absent``: those that a value has already are ignored too.

    Returns how many were looked at, fewer than there are if the pool is full, and the new top.
    """
    for i in range(start, len(words)):
        bucket = _bucket(words, i, len(keys))
        if spans[bucket, 0] < 0 or not _same(keys, bucket, words, i):
            continue
        first, count, room = spans[bucket]
        if absent and _has(rows, first, count, new_rows, i):
            continue
        if count == room:
            grown = max(2 * room, _LEAST_ROOM)
            if top + grown > len(rows):
                return i, top
            rows[top : top + count] = rows[first : first + count]
            lives[top : top + count] = lives[first : first + count]
            first = top
            spans[bucket, 0], spans[bucket, 2] = top, grown
            top += grown
        for m in range(new_rows.shape[1]):
            rows[first + count, m] = new_rows[i, m]
        lives[first + count, 0], lives[first + count, 1] = new_lives[i, 0], new_lives[i, 1]
        spans[bucket, 1] = count + 1
    return len(words), top


@njit
def read(
    rows: np.ndarray, lives: np.ndarray, bases: Int64s, values: np.ndarray, starts: Int64s, ends: Int64s,
    stores: tuple[np.ndarray, ...], view: np.ndarray, later: bool,
) -> tuple[Int64s, np.ndarray, Int64s, Int64s]:  # fmt: skip
    """The entries of a value (first, count) for each tuple, alive together with the tuple.

    ``later``: ends have become known since; they are those in the ``stores`` of the inputs. ``view`` has for
    each of these the mask of a slot, by how much its rows live longer, and the least end that counts.
    Returns the places of the tuples, the rows of each input, starts and ends.
    """
    room, parts = 0, rows.shape[1]
    for i in range(len(values)):
        room += values[i, 1]
    places, out_rows = np.empty(room, np.int64), np.empty((parts, room), np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for i in range(len(values)):
        for e in range(values[i, 0], values[i, 0] + values[i, 1]):
            start, end = max(starts[i], lives[e, 0]), min(ends[i], lives[e, 1])
            alive = True
            for m in range(parts):
                row = rows[e, m]
                out_rows[m, found] = row
                alive &= row >= bases[m]
                if later:
                    leaves = stores[m][row & view[m, 0], 1] + view[m, 1]
                    alive &= leaves >= view[m, 2]
                    end = min(end, leaves)
            places[found], out_starts[found], out_ends[found] = i, start, end
            found += alive & (start < end)
    return places[:found], out_rows[:, :found], out_starts[:found], out_ends[:found]


@njit
def compact(
    spans: np.ndarray, rows: np.ndarray, lives: np.ndarray, bases: Int64s,
    new_rows: np.ndarray, new_lives: np.ndarray,
) -> int:  # fmt: skip
    """Copy all values to the new pool without their dead entries; returns its top."""
    top = 0
    for bucket in range(len(spans)):
        first, count = spans[bucket, 0], spans[bucket, 1]
        if first < 0:
            continue
        begin = top
        for e in range(first, first + count):
            alive = True
            for m in range(rows.shape[1]):
                alive &= rows[e, m] >= bases[m]
            if alive:
                for m in range(rows.shape[1]):
                    new_rows[top, m] = rows[e, m]
                new_lives[top, 0], new_lives[top, 1] = lives[e, 0], lives[e, 1]
                top += 1
        # A key whose rows are all gone is given up.
        spans[bucket, 0] = begin if top > begin or not count else -1
        spans[bucket, 1], spans[bucket, 2] = top - begin, top - begin
    return top


@njit
def evict(spans: np.ndarray, hand: int, excess: int) -> tuple[int, int]:
    """Empty buckets from ``hand`` on until ``excess`` entries are free; returns the hand, and the buckets."""
    emptied = 0
    for _ in range(len(spans)):
        if excess <= 0:
            break
        if spans[hand, 0] >= 0:
            excess -= spans[hand, 1]
            spans[hand, 0] = -1
            emptied += 1
        hand = (hand + 1) & (len(spans) - 1)
    return hand, emptied


@njit
def mark(bits: np.ndarray, words: np.ndarray) -> int:
    """Set the bit of each key in a Bloom filter; returns how many were not set before."""
    new = 0
    for i in range(len(words)):
        bit = _bucket(words, i, len(bits))
        new += not bits[bit]
        bits[bit] = True
    return new
