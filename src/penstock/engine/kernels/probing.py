"""Insert into and probe a window's rows by key: chains of row ids, newest first.

A row id counts up for ever; its *slot* in every array is ``rid & mask``. ``heads[bucket]`` is the newest
row of a bucket and ``entries[slot] = (key, next older row)``. Nothing is ever taken out: a chain is in
arrival order, so it ends at the first row older than ``base``, the oldest row still alive.

``lives[slot] = (start, end)``. Two rows are joined while both are alive, so a match narrows the life of
the joined tuple and is one only if something is left of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

_BLOCK = 256


@njit(cache=True)
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


@njit(cache=True)
def _grown(array: Int64s) -> Int64s:
    larger = np.empty(2 * len(array), np.int64)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
def chain_heads(heads: Int64s, keys: Int64s, valid: Bools) -> Int64s:
    """Where the chain of each key begins; -1 for a NULL key."""
    out = np.empty(len(keys), np.int64)
    buckets = np.uint64(len(heads) - 1)
    for i in range(len(keys)):
        out[i] = heads[mix(np.uint64(keys[i])) & buckets] if valid[i] else -1
    return out


@njit(cache=True)
def first_matches(
    entries: np.ndarray, lives: np.ndarray, base: int, mask: int, chains: Int64s,
    keys: Int64s, starts: Int64s, ends: Int64s, min_end: int,
) -> Int64s:  # fmt: skip
    """The first row in each chain that the probing tuple joins, -1 for none: drop probing (thesis 5.2.2)."""
    out = np.full(len(keys), -1, np.int64)
    for first in range(0, len(keys), _BLOCK):
        stop = min(first + _BLOCK, len(keys))
        walking = stop - first
        while walking > 0:
            walking = 0
            for i in range(first, stop):
                rid = chains[i]
                if rid < base or out[i] >= 0:
                    continue
                slot = rid & mask
                if entries[slot, 0] == keys[i] and lives[slot, 1] >= min_end:
                    if max(starts[i], lives[slot, 0]) < min(ends[i], lives[slot, 1]):
                        out[i] = rid
                        continue
                chains[i] = entries[slot, 1]
                if chains[i] >= base:
                    walking += 1
    return out


@njit(cache=True)
def probe_chains(
    entries: np.ndarray, lives: np.ndarray, base: int, mask: int, chains: Int64s,
    keys: Int64s, starts: Int64s, ends: Int64s, min_end: int,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """Matches of every probing tuple: (its place, row id, start, end) of each joined tuple.

    Rows whose life ended before ``min_end`` are passed over. Probes go through their chains side by side,
    a block at a time, one link a round: their cache misses overlap, which halves the time of a probe.
    ``chains`` are used up.
    """
    room = max(len(keys), 64)
    places, rids = np.empty(room, np.int64), np.empty(room, np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for first in range(0, len(keys), _BLOCK):
        stop = min(first + _BLOCK, len(keys))
        walking = stop - first
        while walking > 0:
            # A round finds one match a probe at most.
            if found + walking > room:
                places, rids = _grown(places), _grown(rids)
                out_starts, out_ends = _grown(out_starts), _grown(out_ends)
                room *= 2
            walking, found = _one_link(
                entries, lives, base, mask, chains, keys, starts, ends, min_end,
                places, rids, out_starts, out_ends, first, stop, found,
            )  # fmt: skip
    return places[:found], rids[:found], out_starts[:found], out_ends[:found]


@njit(cache=True)
def _one_link(
    entries: np.ndarray, lives: np.ndarray, base: int, mask: int, chains: Int64s,
    keys: Int64s, starts: Int64s, ends: Int64s, min_end: int,
    places: Int64s, rids: Int64s, out_starts: Int64s, out_ends: Int64s, first: int, stop: int, found: int,
) -> tuple[int, int]:  # fmt: skip
    """One link of every chain of a block: how many chains go on, and how many matches there are.

    A function of its own: a loop that binds arrays anew counts their references at every turn.
    """
    walking = 0
    for i in range(first, stop):
        rid = chains[i]
        if rid < base:
            continue
        slot = rid & mask
        chains[i] = entries[slot, 1]
        if chains[i] >= base:
            walking += 1
        if entries[slot, 0] != keys[i]:
            continue
        start = max(starts[i], lives[slot, 0])
        end = min(ends[i], lives[slot, 1])
        if start < end and lives[slot, 1] >= min_end:
            places[found], rids[found] = i, rid
            out_starts[found], out_ends[found] = start, end
            found += 1
    return walking, found


@njit(cache=True)
def probe_scan(
    lives: np.ndarray, base: int, stop: int, mask: int, starts: Int64s, ends: Int64s, min_end: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Like ``probe_chains`` with every row a match: for joins that no equality narrows."""
    room = max(len(starts), 64)
    places, rids = np.empty(room, np.int64), np.empty(room, np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for i in range(len(starts)):
        for rid in range(base, stop):
            slot = rid & mask
            start = max(starts[i], lives[slot, 0])
            end = min(ends[i], lives[slot, 1])
            if start < end and lives[slot, 1] >= min_end:
                if found == room:
                    places, rids = _grown(places), _grown(rids)
                    out_starts, out_ends = _grown(out_starts), _grown(out_ends)
                    room *= 2
                places[found], rids[found] = i, rid
                out_starts[found], out_ends[found] = start, end
                found += 1
    return places[:found], rids[:found], out_starts[:found], out_ends[:found]


@njit(cache=True)
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


@njit(cache=True)
def first_alive(lives: np.ndarray, base: int, stop: int, mask: int, now: int) -> int:
    """The oldest row whose life does not end by ``now``."""
    while base < stop and lives[base & mask, 1] <= now:
        base += 1
    return base


@njit(cache=True)
def alive(lives: np.ndarray, base: int, stop: int, mask: int, now: int) -> Int64s:
    """All rows whose life does not end by ``now``, in arrival order."""
    out = np.empty(stop - base, np.int64)
    found = 0
    for rid in range(base, stop):
        if lives[rid & mask, 1] > now:
            out[found] = rid
            found += 1
    return out[:found]
