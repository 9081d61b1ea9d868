"""Scans of rows in the order of time, for joins of streams with windows between them.

A buffer is the rows of one stream in the order of their timestamps: ``times`` and, by key, ``keys``. Each
probing tuple ``i`` looks at the run ``firsts[i] .. stops[i]`` of it. Matches are counted, then written: a
loop that lets its arrays grow takes several times as long, since it counts references at every turn.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Int64s


@njit(cache=True)
def in_period(
    times: Int64s, keys: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    probes: np.ndarray,
) -> tuple[Int64s, Int64s, int]:  # fmt: skip
    """The rows of each run whose timestamp is in the tuple's period and whose keys equal the tuple's.

    Every row of the run is compared with the period, as a nested loop does. The tuple's place and the row's
    of each match, and the number of rows in periods.
    """
    found, tested = _count_in_period(times, keys, firsts, stops, lows, highs, probes)
    places, rows = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for i in range(len(firsts)):
        low, high = lows[i], highs[i]
        for p in range(firsts[i], stops[i]):
            if low <= times[p] and times[p] <= high and _equal(keys, p, probes, i):
                places[at], rows[at] = i, p
                at += 1
    return places, rows, tested


@njit(cache=True)
def _count_in_period(
    times: Int64s, keys: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    probes: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """The matches of ``in_period``, and the rows in periods."""
    found = tested = 0
    for i in range(len(firsts)):
        low, high = lows[i], highs[i]
        for p in range(firsts[i], stops[i]):
            near = low <= times[p] and times[p] <= high
            tested += near
            found += near and _equal(keys, p, probes, i)
    return found, tested


@njit(cache=True)
def in_run(keys: np.ndarray, firsts: Int64s, stops: Int64s, probes: np.ndarray) -> tuple[Int64s, Int64s]:
    """The rows of each run whose keys equal the tuple's; timestamps are not looked at."""
    found = _count_in_run(keys, firsts, stops, probes)
    places, rows = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for i in range(len(firsts)):
        for p in range(firsts[i], stops[i]):
            if _equal(keys, p, probes, i):
                places[at], rows[at] = i, p
                at += 1
    return places, rows


@njit(cache=True)
def _count_in_run(keys: np.ndarray, firsts: Int64s, stops: Int64s, probes: np.ndarray) -> int:
    """The matches of ``in_run``."""
    found = 0
    for i in range(len(firsts)):
        for p in range(firsts[i], stops[i]):
            found += _equal(keys, p, probes, i)
    return found


@njit(cache=True, inline="always")
def _equal(keys: np.ndarray, p: int, probes: np.ndarray, i: int) -> bool:
    """Whether a row has the keys of a tuple; most joins have one key or none."""
    if len(keys) == 0:
        return True
    same = keys[0, p] == probes[0, i]
    for k in range(1, len(keys)):
        same = same and keys[k, p] == probes[k, i]
    return same
