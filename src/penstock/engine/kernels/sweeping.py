"""Scans of rows in the order of time, for joins of streams with windows between them.

A buffer is the rows of one stream in the order of their timestamps: ``times`` and, by key, ``keys``. Each
probing tuple ``i`` looks at the run ``firsts[i] .. stops[i]`` of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Int64s
from penstock.engine.kernels.probing import _grown


@njit(cache=True)
def in_period(
    times: Int64s, keys: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    probes: np.ndarray,
) -> tuple[Int64s, Int64s, int]:  # fmt: skip
    """The rows of each run whose timestamp is in the tuple's period and whose keys equal the tuple's.

    Every row of the run is compared with the period, as a nested loop does. The tuple's place and the row's
    of each match, and the number of rows in periods.
    """
    room = max(len(firsts), 64)
    places, rows = np.empty(room, np.int64), np.empty(room, np.int64)
    found = tested = 0
    for i in range(len(firsts)):
        for p in range(firsts[i], stops[i]):
            if times[p] < lows[i] or times[p] > highs[i]:
                continue
            tested += 1
            if _equal(keys, p, probes, i):
                if found == room:
                    places, rows = _grown(places), _grown(rows)
                    room *= 2
                places[found], rows[found] = i, p
                found += 1
    return places[:found], rows[:found], tested


@njit(cache=True)
def in_run(keys: np.ndarray, firsts: Int64s, stops: Int64s, probes: np.ndarray) -> tuple[Int64s, Int64s]:
    """The rows of each run whose keys equal the tuple's; timestamps are not looked at."""
    room = max(len(firsts), 64)
    places, rows = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for i in range(len(firsts)):
        for p in range(firsts[i], stops[i]):
            if _equal(keys, p, probes, i):
                if found == room:
                    places, rows = _grown(places), _grown(rows)
                    room *= 2
                places[found], rows[found] = i, p
                found += 1
    return places[:found], rows[:found]


@njit(cache=True, inline="always")
def _equal(keys: np.ndarray, p: int, probes: np.ndarray, i: int) -> bool:
    for k in range(len(keys)):
        if keys[k, p] != probes[k, i]:
            return False
    return True
