"""Rows of a matrix of keys among the rows of another: which are there, and the least value that they have."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

_EMPTY = -1
NONE = np.iinfo(np.int64).max
"""Above every value."""


@njit
def _hash(keys: np.ndarray, row: int) -> np.uint64:
    found = np.uint64(0)
    for c in range(keys.shape[1]):
        found = mix(found ^ np.uint64(keys[row, c]))
    return found


@njit
def _same(left: np.ndarray, i: int, right: np.ndarray, j: int) -> bool:
    for c in range(left.shape[1]):
        if left[i, c] != right[j, c]:
            return False
    return True


@njit
def _find(table: np.ndarray, held: np.ndarray, keys: np.ndarray, row: int) -> np.uint64:
    """The slot that has a row's key, or the empty one where it belongs."""
    mask = np.uint64(len(table) - 1)
    slot = _hash(keys, row) & mask
    while table[slot] != _EMPTY and not _same(held, table[slot], keys, row):
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit
def _table_of(rows: int) -> np.ndarray:
    size = 8
    while size < 2 * rows:
        size *= 2
    return np.full(size, _EMPTY, np.int64)


@njit
def _first_equal(keys: np.ndarray) -> tuple[Int64s, Int64s]:
    """A table of distinct rows, and for each row the one in the table that equals it."""
    table, equal = _table_of(len(keys)), np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        slot = _find(table, keys, keys, row)
        if table[slot] == _EMPTY:
            table[slot] = row
        equal[row] = table[slot]
    return table, equal


@njit
def _find_one(table: np.ndarray, key: int) -> np.uint64:
    """The same for keys of one column, which are in the table themselves, beside the number of their row."""
    mask = np.uint64(len(table) - 1)
    slot = mix(np.uint64(key)) & mask
    while table[slot, 1] != _EMPTY and table[slot, 0] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit
def _one_column(keys: Int64s) -> np.ndarray:
    """A table of keys, each with the number of its first row."""
    size = 8
    while size < 2 * len(keys):
        size *= 2
    table = np.full((size, 2), _EMPTY, np.int64)
    for row in range(len(keys)):
        slot = _find_one(table, keys[row])
        if table[slot, 1] == _EMPTY:
            table[slot, 0], table[slot, 1] = keys[row], row
    return table


@njit
def _among_one(held: Int64s, keys: Int64s) -> Bools:
    found = np.zeros(len(keys), np.bool_)
    if len(keys) < len(held):
        table = _one_column(keys)
        for row in range(len(held)):
            there = table[_find_one(table, held[row]), 1]
            if there != _EMPTY:
                found[there] = True
        for row in range(len(keys)):
            found[row] = found[table[_find_one(table, keys[row]), 1]]
        return found
    table = _one_column(held)
    for row in range(len(keys)):
        found[row] = table[_find_one(table, keys[row]), 1] != _EMPTY
    return found


@njit
def among(held: np.ndarray, keys: np.ndarray) -> Bools:
    """Which rows of ``keys`` are rows of ``held`` too; both are contiguous int64 matrices.

    The table is of those that are fewer, so that it stays in the processor's caches.
    """
    found = np.zeros(len(keys), np.bool_)
    if len(held) == 0 or len(keys) == 0:
        return found
    if keys.shape[1] == 1:
        return _among_one(held[:, 0], keys[:, 0])
    if len(keys) < len(held):
        table, equal = _first_equal(keys)
        for row in range(len(held)):
            there = table[_find(table, keys, held, row)]
            if there != _EMPTY:
                found[there] = True
        for row in range(len(keys)):
            found[row] = found[equal[row]]
        return found
    table, _ = _first_equal(held)
    for row in range(len(keys)):
        found[row] = table[_find(table, held, keys, row)] != _EMPTY
    return found


@njit
def joined_rows(held: np.ndarray, there: Bools, keys: np.ndarray, asking: Bools) -> Bools:
    """Which of the asking rows of ``keys`` equal one of the rows of ``held`` that are there."""
    found, one = np.zeros(len(keys), np.bool_), keys.shape[1] == 1
    others, own = 0, 0
    for row in range(len(held)):
        others += there[row]
    for row in range(len(keys)):
        own += asking[row]
    if others == 0 or own == 0:
        return found
    if own < others:
        _ask(held, there, keys, asking, own, found)
    elif one:
        pairs = _pairs_of(held[:, 0], there, others)
        for row in range(len(keys)):
            found[row] = asking[row] and pairs[_find_one(pairs, keys[row, 0]), 1] != _EMPTY
    else:
        table = _table_of(others)
        for row in range(len(held)):
            if there[row]:
                table[_find(table, held, held, row)] = row
        for row in range(len(keys)):
            found[row] = asking[row] and table[_find(table, held, keys, row)] != _EMPTY
    return found


@njit
def _ask(held: np.ndarray, there: Bools, keys: np.ndarray, asking: Bools, own: int, found: Bools) -> None:
    """The same where fewer rows ask than are there: the table is of those that ask."""
    any_found = False
    if keys.shape[1] == 1:
        pairs = _pairs_of(keys[:, 0], asking, own)
        for row in range(len(held)):
            if there[row]:
                first = pairs[_find_one(pairs, held[row, 0]), 1]
                if first != _EMPTY:
                    found[first] = any_found = True
        for row in range(len(keys) if any_found else 0):
            if asking[row]:
                found[row] = found[pairs[_find_one(pairs, keys[row, 0]), 1]]
        return
    table, equal = _table_of(own), _firsts(keys, asking)
    for row in range(len(keys)):
        if asking[row] and equal[row] == row:
            table[_find(table, keys, keys, row)] = row
    for row in range(len(held)):
        if there[row]:
            first = table[_find(table, keys, held, row)]
            if first != _EMPTY:
                found[first] = any_found = True
    for row in range(len(keys) if any_found else 0):
        if asking[row]:
            found[row] = found[equal[row]]


@njit
def _pairs_of(keys: Int64s, some: Bools, count: int) -> np.ndarray:
    """A table of the keys of some rows, each with the number of its first row."""
    size = 8
    while size < 2 * count:
        size *= 2
    table = np.full((size, 2), _EMPTY, np.int64)
    for row in range(len(keys)):
        if some[row]:
            slot = _find_one(table, keys[row])
            if table[slot, 1] == _EMPTY:
                table[slot, 0], table[slot, 1] = keys[row], row
    return table


def are_in(held: Int64s, keys: Int64s) -> Bools:
    """Which keys are among others."""
    return among(_matrix(held), _matrix(keys))


def _matrix(keys: Int64s) -> np.ndarray:
    return np.ascontiguousarray(keys).reshape(-1, 1)


@njit
def clusters(
    held: Int64s, first: Int64s, rows: Int64s, keys: Int64s, at: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Add rows to clusters, of which there are keys, the least ``at`` and the rows; those that are there are
    changed. Returns the places of the keys of new clusters; and for each row, how far it is behind the first
    of its cluster, and the rows of the cluster before it.

    New clusters follow those that are there, and have their place in ``first`` and ``rows``.
    """
    table, count = _one_column(keys), len(held)
    number = np.full(len(keys), _EMPTY, np.int64)
    for n in range(len(held)):
        row = table[_find_one(table, held[n]), 1]
        if row != _EMPTY:
            number[row] = n
    new, far = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    before = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        firsts = table[_find_one(table, keys[row]), 1]
        if number[firsts] == _EMPTY:
            number[firsts] = count
            new[count - len(held)], first[count], rows[count] = row, at[row], 0
            count += 1
        number[row] = number[firsts]
        first[number[row]] = min(first[number[row]], at[row])
    for row in range(len(keys)):  # times may come in any order
        n = number[row]
        far[row], before[row] = at[row] - first[n], rows[n]
        rows[n] += 1
    return new[: count - len(held)], far, before


@njit
def least(held: np.ndarray, values: Int64s, keys: np.ndarray) -> Int64s:
    """For each row of ``keys``, the least value of the rows of ``held`` that equal it; NONE if none does."""
    found = np.full(len(keys), NONE, np.int64)
    if len(held) == 0 or len(keys) == 0:
        return found
    if len(keys) < len(held):
        table, equal = _first_equal(keys)
        for row in range(len(held)):
            there = table[_find(table, keys, held, row)]
            if there != _EMPTY and values[row] < found[there]:
                found[there] = values[row]
        for row in range(len(keys)):
            found[row] = found[equal[row]]
        return found
    table, equal = _first_equal(held)
    lowest = values.copy()
    for row in range(len(held)):
        if values[row] < lowest[equal[row]]:
            lowest[equal[row]] = values[row]
    for row in range(len(keys)):
        there = table[_find(table, held, keys, row)]
        if there != _EMPTY:
            found[row] = lowest[there]
    return found


@njit
def _firsts(keys: np.ndarray, some: Bools) -> Int64s:
    """Of some rows, the first that equals each."""
    count = 0
    for row in range(len(keys)):
        count += some[row]
    firsts = np.zeros(len(keys), np.int64)
    if keys.shape[1] == 1:
        pairs = _pairs_of(keys[:, 0], some, count)
        for row in range(len(keys)):
            if some[row]:
                firsts[row] = pairs[_find_one(pairs, keys[row, 0]), 1]
        return firsts
    table = _table_of(count)
    for row in range(len(keys)):
        if some[row]:
            slot = _find(table, keys, keys, row)
            if table[slot] == _EMPTY:
                table[slot] = row
            firsts[row] = table[slot]
    return firsts


@njit
def repeats(keys: np.ndarray, there: Bools, new: Bools) -> int:
    """How many of the new rows that are there equal an older one, or an earlier new one."""
    some = there & new
    again, others = np.zeros(len(keys), np.bool_), there & ~new
    firsts = _firsts(keys, some)
    for row in range(len(keys)):
        again[row] = some[row] and firsts[row] != row
    joined = joined_rows(keys, others, keys, some)
    found = 0
    for row in range(len(keys)):
        found += some[row] and (again[row] or joined[row])
    return found
