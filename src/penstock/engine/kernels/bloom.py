"""Bloom filters (thesis 6.1.6): which keys may be in a set, of which only some bits are in memory."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

_BITS_PER_KEY, _PROBES = 10, 5
"""About one in a hundred keys that are not in the set passes."""


def empty(keys: int) -> np.ndarray:
    """A filter for so many keys, as words of 64 bits."""
    return np.zeros(1 << max(int(_BITS_PER_KEY * keys - 1).bit_length() - 6, 0), np.uint64)


@njit
def add(words: np.ndarray, keys: Int64s) -> None:
    """Put keys into the set."""
    mask = np.uint64(len(words) * 64 - 1)
    for key in keys:
        bit = np.uint64(mix(np.uint64(key)))
        step = np.uint64(mix(bit)) | np.uint64(1)
        for _ in range(_PROBES):
            words[(bit & mask) >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
            bit += step


@njit
def may_have(words: np.ndarray, keys: Int64s) -> Bools:
    """Which keys may be in the set; all that are in it are among them."""
    mask = np.uint64(len(words) * 64 - 1)
    found = np.ones(len(keys), np.bool_)
    for i in range(len(keys)):
        bit = np.uint64(mix(np.uint64(keys[i])))
        step = np.uint64(mix(bit)) | np.uint64(1)
        for _ in range(_PROBES):
            if words[(bit & mask) >> np.uint64(6)] & (np.uint64(1) << (bit & np.uint64(63))) == 0:
                found[i] = False
                break
            bit += step
    return found
