"""Elements that may cancel within an instant."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int8s, Int64s
from penstock.engine.kernels.hashing import mix

_EMPTY = -1


@njit
def opposed(ts: Int64s, hashes: Int64s, sign: Int8s) -> Bools:
    """Which elements have another of the same instant and hash with the other sign."""
    size = 8
    while size < 2 * len(ts):
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, _EMPTY, np.int64)
    first = np.empty(len(ts), np.int64)
    signs = np.zeros(len(ts), np.int8)
    for i in range(len(ts)):
        slot = mix(np.uint64(hashes[i]) ^ mix(np.uint64(ts[i]))) & mask
        while table[slot] != _EMPTY and (ts[table[slot]] != ts[i] or hashes[table[slot]] != hashes[i]):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] == _EMPTY:
            table[slot] = i
        first[i] = table[slot]
        signs[first[i]] |= 1 if sign[i] > 0 else 2
    found = np.empty(len(ts), np.bool_)
    for i in range(len(ts)):
        found[i] = signs[first[i]] == 3
    return found
