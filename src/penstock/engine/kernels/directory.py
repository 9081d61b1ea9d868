"""Give each distinct hash a small number."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import mix


@njit
def assign(heads: Int64s, entries: np.ndarray, count: int, hashes: Int64s) -> tuple[Int64s, Int64s]:
    """The number of each hash, new ones counting up from ``count``; and where each new one stood first.

    ``entries[number] = (hash, next in bucket)``. Stops at the first new hash that has no room in it, so that
    there may be fewer numbers than hashes.
    """
    numbers = np.empty(len(hashes), np.int64)
    firsts = np.empty(len(hashes), np.int64)
    start = count
    buckets = np.uint64(len(heads) - 1)
    for i in range(len(hashes)):
        bucket = mix(np.uint64(hashes[i])) & buckets
        at = heads[bucket]
        while at >= 0 and entries[at, 0] != hashes[i]:
            at = entries[at, 1]
        if at < 0:
            if count == len(entries):
                return numbers[:i], firsts[: count - start]
            at = count
            entries[at, 0], entries[at, 1] = hashes[i], heads[bucket]
            heads[bucket] = at
            firsts[count - start] = i
            count += 1
        numbers[i] = at
    return numbers, firsts[: count - start]


@njit
def link(heads: Int64s, entries: np.ndarray, count: int) -> None:
    """Build the buckets anew for the hashes that ``entries`` holds."""
    buckets = np.uint64(len(heads) - 1)
    for at in range(count):
        bucket = mix(np.uint64(entries[at, 0])) & buckets
        entries[at, 1] = heads[bucket]
        heads[bucket] = at


@njit
def grouped(numbers: Int64s, bounds: Int64s) -> Int64s:
    """The places of rows by their numbers, equal ones in order; ``bounds`` are where each number begins."""
    free, order = bounds.copy(), np.empty(len(numbers), np.int64)
    for row in range(len(numbers)):
        order[free[numbers[row]]] = row
        free[numbers[row]] += 1
    return order
