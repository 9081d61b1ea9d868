"""Scans of rows in the order of time, for joins of streams with windows between them.

A buffer is the rows of one stream in the order of their timestamps: ``times`` and, by predicate, ``values``.
Each probing tuple ``i`` looks at the run ``firsts[i] .. stops[i]`` of it, at every row or by a hash table.
A row matches if each of its values is from ``least`` to ``most`` of the tuple, the same for an equality.
There is a predicate, and the first, often the only one, is one comparison: ``value - least <= most - least``
without sign. Matches are counted, then written: a loop that lets its arrays grow takes several times as
long, since it counts references at every turn.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import mix


@njit
def in_period(
    times: Int64s, values: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    least: np.ndarray, most: np.ndarray,
) -> tuple[Int64s, Int64s, int]:  # fmt: skip
    """The rows of each run whose timestamp is in the tuple's period and that match the tuple.

    Every row of the run is compared with the period, as a nested loop does. The tuple's place and the row's
    of each match, and the number of rows in periods.
    """
    found, tested = _count_in_period(times, values, firsts, stops, lows, highs, least, most)
    places, rows = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for i in range(len(firsts)):
        low, high = lows[i], highs[i]
        base, width = _range(least, most, i)
        for p in range(firsts[i], _stop(firsts, stops, least, most, i)):
            if (
                np.uint64(values[0, p]) - base <= width
                and low <= times[p]
                and times[p] <= high
                and _others(values, p, least, most, i)
            ):
                places[at], rows[at] = i, p
                at += 1
    return places, rows, tested


@njit
def _count_in_period(
    times: Int64s, values: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    least: np.ndarray, most: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """The matches of ``in_period``, and the rows in periods."""
    found = tested = 0
    for i in range(len(firsts)):
        low, high = lows[i], highs[i]
        base, width = _range(least, most, i)
        some = least[0, i] <= most[0, i]
        for p in range(firsts[i], stops[i]):
            near = (low <= times[p]) & (times[p] <= high)
            tested += near
            match = some & near & (np.uint64(values[0, p]) - base <= width)
            found += match & _others(values, p, least, most, i)
    return found, tested


@njit
def in_run(
    values: np.ndarray, firsts: Int64s, stops: Int64s, least: np.ndarray, most: np.ndarray
) -> tuple[Int64s, Int64s]:
    """The rows of each run that match the tuple; timestamps are not looked at."""
    found = _count_in_run(values, firsts, stops, least, most)
    places, rows = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for i in range(len(firsts)):
        base, width = _range(least, most, i)
        for p in range(firsts[i], _stop(firsts, stops, least, most, i)):
            if np.uint64(values[0, p]) - base <= width and _others(values, p, least, most, i):
                places[at], rows[at] = i, p
                at += 1
    return places, rows


@njit
def _count_in_run(
    values: np.ndarray, firsts: Int64s, stops: Int64s, least: np.ndarray, most: np.ndarray
) -> int:
    """The matches of ``in_run``."""
    found = 0
    for i in range(len(firsts)):
        base, width = _range(least, most, i)
        for p in range(firsts[i], _stop(firsts, stops, least, most, i)):
            match = np.uint64(values[0, p]) - base <= width
            found += bool(match & _others(values, p, least, most, i))
    return found


@njit(inline="always")
def _range(least: np.ndarray, most: np.ndarray, i: int) -> tuple[np.uint64, np.uint64]:
    """The first predicate of a tuple: its least value, and how much greater a value may be."""
    return np.uint64(least[0, i]), np.uint64(most[0, i]) - np.uint64(least[0, i])


@njit(inline="always")
def _stop(firsts: Int64s, stops: Int64s, least: np.ndarray, most: np.ndarray, i: int) -> int:
    """Where the run of a tuple ends: at once if no value satisfies its first predicate."""
    return stops[i] if least[0, i] <= most[0, i] else firsts[i]


@njit(inline="always")
def _others(values: np.ndarray, p: int, least: np.ndarray, most: np.ndarray, i: int) -> bool:
    """Whether a row satisfies the predicates of a tuple after the first."""
    found = True
    for k in range(1, len(values)):
        found &= (least[k, i] <= values[k, p]) & (values[k, p] <= most[k, i])
    return found


# by a hash table


@njit
def in_buckets(
    times: Int64s, values: np.ndarray, firsts: Int64s, stops: Int64s, lows: Int64s, highs: Int64s,
    least: np.ndarray, most: np.ndarray, hashed: int,
) -> tuple[Int64s, Int64s, int]:  # fmt: skip
    """As ``in_period``, by a hash table of the first ``hashed`` values, which are equalities.

    Only rows with a tuple's keys and in its period are visited: a bucket has its rows in the order of time,
    so the first in the period is found by halving.
    """
    base, stop = _extent(firsts, stops)
    begins, rows = _buckets(values, base, stop, hashed)
    heads = np.empty(len(firsts), np.int64)
    found = tested = 0
    for i in range(len(firsts)):
        bucket = _bucket(least, i, len(begins) - 1, hashed)
        heads[i] = _first_from(times, rows, begins[bucket], begins[bucket + 1], max(firsts[i], base), lows[i])
        for at in range(heads[i], begins[bucket + 1]):
            p = rows[at]
            if p >= stops[i] or times[p] > highs[i]:
                break
            tested += 1
            found += (values[0, p] == least[0, i]) & _others(values, p, least, most, i)
    places, matches = np.empty(found, np.int64), np.empty(found, np.int64)
    n = 0
    for i in range(len(firsts)):
        last = begins[_bucket(least, i, len(begins) - 1, hashed) + 1]
        for at in range(heads[i], last):
            p = rows[at]
            if p >= stops[i] or times[p] > highs[i]:
                break
            if values[0, p] == least[0, i] and _others(values, p, least, most, i):
                places[n], matches[n] = i, p
                n += 1
    return places, matches, tested


@njit
def _extent(firsts: Int64s, stops: Int64s) -> tuple[int, int]:
    """The first row of all runs, and the one after the last."""
    base, stop = 1 << 62, 0
    for i in range(len(firsts)):
        if firsts[i] < stops[i]:
            base, stop = min(base, int(firsts[i])), max(stop, int(stops[i]))
    return min(base, stop), stop


@njit
def _buckets(values: np.ndarray, base: int, stop: int, hashed: int) -> tuple[Int64s, Int64s]:
    """The rows from ``base`` to ``stop`` by bucket: where each begins, and the rows."""
    size = 1
    while size < stop - base:
        size *= 2
    begins = np.zeros(size + 1, np.int64)
    of_row = np.empty(stop - base, np.int64)
    for p in range(base, stop):
        of_row[p - base] = _bucket(values, p, size, hashed)
        begins[of_row[p - base] + 1] += 1
    for k in range(size):
        begins[k + 1] += begins[k]
    rows, filled = np.empty(stop - base, np.int64), begins.copy()
    for p in range(base, stop):
        k = of_row[p - base]
        rows[filled[k]] = p
        filled[k] += 1
    return begins, rows


@njit(inline="always")
def _bucket(values: np.ndarray, p: int, size: int, hashed: int) -> int:
    """The bucket of a row or tuple; ``size`` is a power of two."""
    mixed = mix(np.uint64(values[0, p]))
    for k in range(1, hashed):
        mixed = mix(mixed ^ np.uint64(values[k, p]))
    return int(mixed & np.uint64(size - 1))


@njit(inline="always")
def _first_from(times: Int64s, rows: Int64s, left: int, right: int, first: int, low: int) -> int:
    """In a bucket, the first place whose row is not before ``first`` and not earlier than ``low``."""
    while left < right:
        middle = (left + right) // 2
        if rows[middle] < first or times[rows[middle]] < low:
            left = middle + 1
        else:
            right = middle
    return left
