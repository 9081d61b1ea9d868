"""A bag of (fingerprint, instant) pairs: add, take out, drop what is past."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix


@njit(inline="always")
def _bucket(a: int, b: int, when: int, buckets: int) -> np.int64:
    return np.int64(mix(np.uint64(a) ^ mix(np.uint64(b) + np.uint64(when))) & np.uint64(buckets - 1))


@njit
def add(heads: Int64s, entries: np.ndarray, first: int, count: int) -> None:
    """Chain entries ``first .. first + count``: (fingerprint, fingerprint, instant, oldest, next)."""
    for at in range(first, first + count):
        bucket = _bucket(entries[at, 0], entries[at, 1], entries[at, 2], len(heads))
        entries[at, 4] = heads[bucket]
        heads[bucket] = at


@njit
def take_out(heads: Int64s, entries: np.ndarray, a: Int64s, b: Int64s, when: Int64s) -> Bools:
    """For each pair in turn, take one equal pair out of the bag: whether there was one."""
    found = np.zeros(len(a), np.bool_)
    for i in range(len(a)):
        bucket = _bucket(a[i], b[i], when[i], len(heads))
        before, at = -1, heads[bucket]
        while at >= 0:
            if entries[at, 0] == a[i] and entries[at, 1] == b[i] and entries[at, 2] == when[i]:
                if before < 0:
                    heads[bucket] = entries[at, 4]
                else:
                    entries[before, 4] = entries[at, 4]
                entries[at, 2] = np.iinfo(np.int64).min
                found[i] = True
                break
            before, at = at, entries[at, 4]
    return found
