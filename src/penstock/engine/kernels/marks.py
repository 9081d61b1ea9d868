"""Marks of the rows of a join: which rows a policy may let go, and toward which inputs they are closed."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s


@njit
def rows_held(
    lives: np.ndarray, seen: np.ndarray, marks: np.ndarray, base: int, until: int, mask: int, after: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """The rows whose life does not end by an instant: their ids, start and end as their reader sees them,
    and the first of their marks.
    """
    most = max(until - base, 0)
    rows, starts = np.empty(most, np.int64), np.empty(most, np.int64)
    ends, own = np.empty(most, np.int64), np.empty(most, np.int64)
    found = 0
    for rid in range(base, until):
        slot = rid & mask
        if lives[slot, 1] > after:
            rows[found], own[found] = rid, marks[slot, 0]
            starts[found], ends[found] = seen[slot, 0], seen[slot, 1]
            found += 1
    return rows[:found], starts[:found], ends[:found], own[:found]


@njit
def closed_toward(marks: Int64s, j: int) -> Bools:
    """Which rows have the mark of an input."""
    found = np.empty(len(marks), np.bool_)
    for row in range(len(marks)):
        found[row] = (marks[row] >> j) & 1
    return found


@njit
def close_toward(marks: Int64s, which: Bools, j: int) -> None:
    """Set the mark of an input."""
    for row in range(len(marks)):
        marks[row] |= np.int64(which[row]) << j
