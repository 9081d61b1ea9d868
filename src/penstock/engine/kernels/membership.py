"""Rows of a matrix of keys among the rows of another: which are there, and the least value that they have."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

_EMPTY = -1
NONE = np.iinfo(np.int64).max
"""Above every value."""


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


@njit(cache=True)
def least(held: np.ndarray, values: Int64s, keys: np.ndarray) -> Int64s:
    """For each row of ``keys``, the least value of the rows of ``held`` that equal it; NONE if none does."""
    table = _table_of(len(held))
    lowest = np.empty(len(held), np.int64)
    for row in range(len(held)):
        slot = _find(table, held, held, row)
        if table[slot] == _EMPTY:
            table[slot] = row
            lowest[row] = values[row]
        elif values[row] < lowest[table[slot]]:
            lowest[table[slot]] = values[row]
    found = np.full(len(keys), NONE, np.int64)
    for row in range(len(keys)):
        slot = _find(table, held, keys, row)
        if table[slot] != _EMPTY:
            found[row] = lowest[table[slot]]
    return found
