"""Insert into and probe a window's rows by key: chains of row ids, newest first.

A row id counts up for ever; its *slot* in every array is ``rid & mask``. ``heads[bucket]`` is the newest
row of a bucket and ``entries[slot] = (key, next older row)``. Nothing is ever taken out: a chain is in
arrival order, so it ends at the first row older than ``base``, the oldest row still alive.

``lives[slot] = (start, end)``. Two rows are joined while both are alive, so a match narrows the life of
the joined tuple and is one only if something is left of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Int64s
from penstock.engine.kernels.hashing import mix

_BLOCK = 256


class View(NamedTuple):
    """What a reader sees of a store: rows before ``limit``, whose lives end ``longer`` after the stored end.

    Rows that end before ``min_end`` in this view, or begin before ``since``, are passed over. ``pane``: the
    number of the lives that it sees, of a store that has several.
    """

    min_end: int
    limit: int
    longer: int
    since: int = int(BEFORE_TIME)
    pane: int = 0


EVERYTHING = View(int(BEFORE_TIME), int(FOREVER), 0)


@njit
def insert(heads: Int64s, entries: np.ndarray, keys: Int64s, valid: Bools, first: int, mask: int) -> None:
    """Put rows ``first, first + 1, ...`` at the head of their chains. A NULL key is in no chain."""
    buckets = np.uint64(len(heads) - 1)
    for i in range(len(keys)):
        if valid[i]:
            slot = (first + i) & mask
            bucket = mix(np.uint64(keys[i])) & buckets
            entries[slot, 0] = keys[i]
            entries[slot, 1] = heads[bucket]
            heads[bucket] = first + i


@njit
def _grown(array: Int64s) -> Int64s:
    larger = np.empty(2 * len(array), np.int64)
    larger[: len(array)] = array
    return larger


@njit
def chain_heads(heads: Int64s, keys: Int64s, valid: Bools) -> Int64s:
    """Where the chain of each key begins; -1 for a NULL key."""
    out = np.empty(len(keys), np.int64)
    buckets = np.uint64(len(heads) - 1)
    for i in range(len(keys)):
        out[i] = heads[mix(np.uint64(keys[i])) & buckets] if valid[i] else -1
    return out


@njit
def first_matches(
    entries: np.ndarray, lives: np.ndarray, base: int, mask: int, chains: Int64s,
    keys: Int64s, starts: Int64s, ends: Int64s, view: View,
) -> Int64s:  # fmt: skip
    """The first row in each chain that the probing tuple joins, -1 for none: drop probing (thesis 5.2.2)."""
    out = np.full(len(keys), -1, np.int64)
    block = np.empty((4, _BLOCK), np.int64)
    for first in range(0, len(keys), _BLOCK):
        walking = _begin(chains, base, first, min(first + _BLOCK, len(keys)), block)
        while walking > 0:
            hits = _read_links(entries, mask, chains, keys, walking, block)
            for h in range(hits):
                w = block[_HITS, h]
                i, slot = block[_WALKING, w], chains[block[_WALKING, w]] & mask
                leaves = lives[slot, 1] + view.longer
                alive = max(starts[i], lives[slot, 0]) < min(ends[i], leaves)
                seen = chains[i] < view.limit and lives[slot, 0] >= view.since
                if alive and leaves >= view.min_end and seen:
                    out[i] = chains[i]
                    block[_NEXT, w] = -1
            walking = _go_on(chains, base, walking, block)
    return out


@njit
def probe_chains(
    entries: np.ndarray, lives: np.ndarray, base: int, mask: int, chains: Int64s,
    keys: Int64s, starts: Int64s, ends: Int64s, view: View,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """Matches of every probing tuple: (its place, row id, start, end) of each joined tuple.

    ``chains`` are used up.
    """
    places, rids = _with_equal_keys(entries, base, mask, chains, keys)
    out_starts, out_ends = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    found = 0
    for n in range(len(places)):
        i, rid = places[n], rids[n]
        slot = rid & mask
        leaves = lives[slot, 1] + view.longer
        start, end = max(starts[i], lives[slot, 0]), min(ends[i], leaves)
        places[found], rids[found] = i, rid
        out_starts[found], out_ends[found] = start, end
        seen = (rid < view.limit) & (lives[slot, 0] >= view.since)
        found += (start < end) & (leaves >= view.min_end) & seen
    return places[:found], rids[:found], out_starts[:found], out_ends[:found]


@njit
def _with_equal_keys(
    entries: np.ndarray, base: int, mask: int, chains: Int64s, keys: Int64s
) -> tuple[Int64s, Int64s]:
    """The rows with each tuple's key, whatever their lives: (its place, row id) of each.

    Probes go through their chains side by side, a block at a time, one link a round.
    """
    room = max(len(keys), 64)
    places, rids = np.empty(room, np.int64), np.empty(room, np.int64)
    block = np.empty((4, _BLOCK), np.int64)
    found = 0
    for first in range(0, len(keys), _BLOCK):
        walking = _begin(chains, base, first, min(first + _BLOCK, len(keys)), block)
        while walking > 0:
            hits = _read_links(entries, mask, chains, keys, walking, block)
            if found + hits > room:
                places, rids = _grown(places), _grown(rids)
                room *= 2
            _note_hits(chains, hits, block, places, rids, found)
            found += hits
            walking = _go_on(chains, base, walking, block)
    return places[:found], rids[:found]


# A block of probes: the places of those whose chains go on, the key and the next row of the row that each is
# at, and which of them found their key. The loops that read memory at random have no branch that depends on
# what they read: else the processor, having guessed wrong, throws away the reads that were under way, and
# a probe waits for each of its cache misses alone.
_WALKING, _KEY, _NEXT, _HITS = range(4)


@njit
def _begin(chains: Int64s, base: int, first: int, stop: int, block: np.ndarray) -> int:
    """Note which probes of a block have a row to look at; how many."""
    walking = 0
    for i in range(first, stop):
        block[_WALKING, walking] = i
        walking += chains[i] >= base
    return walking


@njit
def _read_links(
    entries: np.ndarray, mask: int, chains: Int64s, keys: Int64s, walking: int, block: np.ndarray
) -> int:
    """Read the rows that the chains are at; how many have the key that is looked for."""
    for w in range(walking):
        slot = chains[block[_WALKING, w]] & mask
        block[_KEY, w], block[_NEXT, w] = entries[slot, 0], entries[slot, 1]
    hits = 0
    for w in range(walking):
        block[_HITS, hits] = w
        hits += block[_KEY, w] == keys[block[_WALKING, w]]
    return hits


@njit
def _note_hits(
    chains: Int64s, hits: int, block: np.ndarray, places: Int64s, rids: Int64s, found: int
) -> None:
    """A function of its own: a loop that binds arrays anew counts their references at every turn."""
    for h in range(hits):
        i = block[_WALKING, block[_HITS, h]]
        places[found + h], rids[found + h] = i, chains[i]


@njit
def _go_on(chains: Int64s, base: int, walking: int, block: np.ndarray) -> int:
    """Take every chain to its next row; how many have one."""
    still = 0
    for w in range(walking):
        i, after = block[_WALKING, w], block[_NEXT, w]
        chains[i] = after
        block[_WALKING, still] = i
        still += after >= base
    return still


@njit
def probe_scan(
    lives: np.ndarray, base: int, stop: int, mask: int, starts: Int64s, ends: Int64s, view: View
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Like ``probe_chains`` with every row a match: for joins that no equality narrows."""
    room = max(len(starts), 64)
    places, rids = np.empty(room, np.int64), np.empty(room, np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for i in range(len(starts)):
        for rid in range(base, min(stop, view.limit)):
            slot = rid & mask
            leaves = lives[slot, 1] + view.longer
            start = max(starts[i], lives[slot, 0])
            end = min(ends[i], leaves)
            if start < end and leaves >= view.min_end and lives[slot, 0] >= view.since:
                if found == room:
                    places, rids = _grown(places), _grown(rids)
                    out_starts, out_ends = _grown(out_starts), _grown(out_ends)
                    room *= 2
                places[found], rids[found] = i, rid
                out_starts[found], out_ends[found] = start, end
                found += 1
    return places[:found], rids[:found], out_starts[:found], out_ends[:found]


@njit
def find_rows(heads: Int64s, entries: np.ndarray, base: int, mask: int, keys: Int64s) -> Int64s:
    """The newest row of each key, -1 where there is none (for keys that are unique)."""
    out = np.full(len(keys), -1, np.int64)
    buckets = np.uint64(len(heads) - 1)
    for i in range(len(keys)):
        rid = heads[mix(np.uint64(keys[i])) & buckets]
        while rid >= base:
            if entries[rid & mask, 0] == keys[i]:
                out[i] = rid
                break
            rid = entries[rid & mask, 1]
    return out


@njit
def lives_of(lives: np.ndarray, mask: int, rids: Int64s) -> tuple[Int64s, Int64s]:
    """Start and end of rows."""
    starts, ends = np.empty(len(rids), np.int64), np.empty(len(rids), np.int64)
    for i in range(len(rids)):
        slot = rids[i] & mask
        starts[i], ends[i] = lives[slot, 0], lives[slot, 1]
    return starts, ends


@njit
def first_alive(lives: np.ndarray, base: int, stop: int, mask: int, now: int) -> int:
    """The oldest row whose life does not end by ``now``."""
    while base < stop and lives[base & mask, 1] <= now:
        base += 1
    return base


@njit
def alive(lives: np.ndarray, base: int, stop: int, mask: int, now: int) -> Int64s:
    """All rows whose life does not end by ``now``, in arrival order."""
    out = np.empty(stop - base, np.int64)
    found = 0
    for rid in range(base, stop):
        if lives[rid & mask, 1] > now:
            out[found] = rid
            found += 1
    return out[:found]
