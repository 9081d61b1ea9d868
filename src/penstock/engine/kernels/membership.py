"""Which rows of a matrix of keys are among the rows of another; which repeat an earlier one of their own."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Bools
from penstock.engine.kernels.hashing import mix

_EMPTY = -1


@njit(cache=True)
def _hash(keys: np.ndarray, row: int) -> np.uint64:
    found = np.uint64(0)
    for c in range(keys.shape[1]):
        found = mix(found ^ np.uint64(keys[row, c]))
    return found


@njit(cache=True)
def _same(left: np.ndarray, i: int, right: np.ndarray, j: int) -> bool:
    for c in range(left.shape[1]):
        if left[i, c] != right[j, c]:
            return False
    return True


@njit(cache=True)
def _find(table: np.ndarray, held: np.ndarray, keys: np.ndarray, row: int) -> np.uint64:
    """The slot that has a row's key, or the empty one where it belongs."""
    mask = np.uint64(len(table) - 1)
    slot = _hash(keys, row) & mask
    while table[slot] != _EMPTY and not _same(held, table[slot], keys, row):
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True)
def _table_of(rows: int) -> np.ndarray:
    size = 8
    while size < 2 * rows:
        size *= 2
    return np.full(size, _EMPTY, np.int64)


@njit(cache=True)
def among(held: np.ndarray, keys: np.ndarray) -> Bools:
    """Which rows of ``keys`` are rows of ``held`` too; both are contiguous int64 matrices."""
    table = _table_of(len(held))
    for row in range(len(held)):
        table[_find(table, held, held, row)] = row
    found = np.empty(len(keys), np.bool_)
    for row in range(len(keys)):
        found[row] = table[_find(table, held, keys, row)] != _EMPTY
    return found


@njit(cache=True)
def repeats(keys: np.ndarray) -> Bools:
    """Which rows equal an earlier one."""
    table = _table_of(len(keys))
    found = np.empty(len(keys), np.bool_)
    for row in range(len(keys)):
        slot = _find(table, keys, keys, row)
        found[row] = table[slot] != _EMPTY
        if not found[row]:
            table[slot] = row
    return found
