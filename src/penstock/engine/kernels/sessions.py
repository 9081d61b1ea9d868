"""Sessions: runs of rows of one key, each less than a gap after the one before."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s


@njit
def assign(
    keys: Int64s, ts: Int64s, gap: int, current: Int64s, starts: Int64s, lasts: Int64s, known: int
) -> tuple[Int64s, int]:
    """The session of each row, in timestamp order, and how many sessions there are then.

    ``current`` is the last session of each key, -1 for none. ``starts`` and ``lasts`` are the first and last
    timestamp of each of the ``known`` sessions, with room for one more per row.
    """
    sessions = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        session = current[keys[row]]
        if session < 0 or ts[row] - lasts[session] >= gap:
            session = known
            known += 1
            current[keys[row]] = session
            starts[session] = ts[row]
        lasts[session] = ts[row]
        sessions[row] = session
    return sessions, known
