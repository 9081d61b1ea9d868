"""Bags of rows per group, kept sorted: what the row at a rank is, and which rows there are.

A bag is two arrays: ``rows``, sorted, of a group and the keys of a value, and ``times``, how often each
occurs. A step merges the rows of its events in, at ``times`` 0, and then plays the events in order:
``places`` has for each event the number of its row, -1 for an event that has none. A Fenwick tree over
``times`` finds the row at a rank. Events and segments are those of
:mod:`penstock.engine.kernels.aggregation`.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s
from penstock.engine.kernels.fenwick import add, count_before, position_of


@njit(inline="always")
def _compare(a: Int64s, b: Int64s) -> int:
    """-1, 0 or 1, by the first column in which two rows differ."""
    for c in range(len(a)):
        if a[c] < b[c]:
            return -1
        if a[c] > b[c]:
            return 1
    return 0


@njit
def merge(
    rows: np.ndarray, times: Int64s, events: np.ndarray, order: Int64s
) -> tuple[np.ndarray, Int64s, Int64s]:
    """Sorted rows and the rows of events, in this order sorted: all rows, their times, the events' places."""
    known, new = len(rows), len(events)
    merged, counts = np.empty((known + new, rows.shape[1]), np.int64), np.zeros(known + new, np.int64)
    places = np.empty(new, np.int64)
    i = j = size = 0
    while i < known or j < new:
        earlier = 1 if i == known else -1 if j == new else _compare(rows[i], events[order[j]])
        if earlier <= 0:
            merged[size], counts[size] = rows[i], times[i]
            i += 1
        else:
            merged[size] = events[order[j]]
        while j < new and _compare(merged[size], events[order[j]]) == 0:
            places[order[j]] = size
            j += 1
        size += 1
    return merged[:size].copy(), counts[:size].copy(), places


@njit(inline="always")
def _ranks(count: int, fraction: float, whole: bool) -> tuple[int, int, float]:
    """The ranks around a fraction of a count, and the part of the way from the one to the other."""
    if whole:
        rank = max(int(np.ceil(fraction * count)) - 1, 0)
        return rank, rank, 0.0
    place = fraction * (count - 1)
    low = int(np.floor(place))
    return low, int(np.ceil(place)), place - low


@njit
def ranked(
    bounds: Int64s, sign: np.ndarray, places: Int64s, starts: Int64s, ends: Int64s, tree: Int64s,
    fraction: float, whole: bool,
) -> tuple[Int64s, np.ndarray]:  # fmt: skip
    """The places of the rows at a fraction of each bag, before and after each segment, -1 if it is empty.

    Two places, between which the value lies at the part of the way that is returned beside them; with
    ``whole`` both are that of the least row with at least this fraction of the rows up to it.
    """
    found, parts = np.full((len(starts), 4), -1, np.int64), np.zeros((len(starts), 2))
    for s in range(len(starts)):
        for after in range(2):
            if after:
                for i in range(bounds[s], bounds[s + 1]):
                    if places[i] >= 0:
                        add(tree, places[i], sign[i])
            first = count_before(tree, starts[s])
            count = count_before(tree, ends[s]) - first
            if count > 0:
                low, high, parts[s, after] = _ranks(count, fraction, whole)
                found[s, 2 * after] = position_of(tree, first + low)
                found[s, 2 * after + 1] = position_of(tree, first + high)
    return found, parts


@njit
def listed(
    bounds: Int64s, sign: np.ndarray, places: Int64s, starts: Int64s, ends: Int64s, times: Int64s, once: bool
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """The places of each bag's rows before and after each segment, as lists: their ends, and all places.

    With ``once`` equal rows are listed once. The lists before are the even ones. Changes ``times``.
    """
    lengths, out, size = np.empty(2 * len(starts), np.int64), np.empty(1024, np.int64), 0
    for s in range(len(starts)):
        for after in range(2):
            if after:
                for i in range(bounds[s], bounds[s + 1]):
                    if places[i] >= 0:
                        times[places[i]] += sign[i]
            for place in range(starts[s], ends[s]):
                for _ in range(min(times[place], 1) if once else times[place]):
                    if size == len(out):
                        larger = np.empty(2 * size, np.int64)
                        larger[:size] = out
                        out = larger
                    out[size] = place
                    size += 1
            lengths[2 * s + after] = size
    return lengths, out[:size].copy()


@njit
def counted(
    bounds: Int64s, sign: np.ndarray, places: Int64s, starts: Int64s, ends: Int64s, times: Int64s,
    rows: np.ndarray, registers: int,
) -> np.ndarray:  # fmt: skip
    """Estimates of how many distinct values there are, before and after each segment. Changes ``times``.

    A row is (group, register, rank): of the values of a register the rarest hash, as in HyperLogLog, but all
    ranks are kept with their times, so that values can leave.
    """
    estimates, histogram = np.zeros((len(starts), 2)), np.zeros(66, np.int64)
    for s in range(len(starts)):
        for after in range(2):
            if after:
                for i in range(bounds[s], bounds[s + 1]):
                    if places[i] >= 0:
                        times[places[i]] += sign[i]
            histogram[:] = 0
            last = -1
            # From the end, the first row of each register has its largest rank.
            for place in range(ends[s] - 1, starts[s] - 1, -1):
                if times[place] > 0 and rows[place, 1] != last:
                    last = rows[place, 1]
                    histogram[rows[place, 2]] += 1
            histogram[0] = registers - histogram.sum()
            estimates[s, after] = estimate(histogram, registers)
    return estimates


@njit
def estimate(histogram: Int64s, registers: int) -> float:
    """The number of distinct values, of how many registers have each rank (Ertl 2017, algorithm 6)."""
    if histogram[0] == registers:
        return 0.0
    bits = int(np.round(np.log2(registers)))
    most = 64 - bits
    total = registers * _tau(1.0 - histogram[most + 1] / registers)
    for rank in range(most, 0, -1):
        total = 0.5 * (total + histogram[rank])
    total += registers * _sigma(histogram[0] / registers)
    return registers / (2.0 * np.log(2.0)) * registers / total


@njit
def _sigma(x: float) -> float:
    if x == 1.0:
        return np.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


@njit
def _tau(x: float) -> float:
    if x == 0.0 or x == 1.0:
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x = np.sqrt(x)
        before = z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3.0


SKEWNESS, KURTOSIS = range(2)


@njit
def shaped(
    bounds: Int64s, sign: np.ndarray, places: Int64s, starts: Int64s, ends: Int64s, times: Int64s,
    values: np.ndarray, kind: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The skewness or kurtosis of each bag's values before and after each segment, and whether there is one.

    Changes ``times``.
    """
    found, known = np.zeros((len(starts), 2)), np.zeros((len(starts), 2), np.bool_)
    for s in range(len(starts)):
        for after in range(2):
            if after:
                for i in range(bounds[s], bounds[s + 1]):
                    if places[i] >= 0:
                        times[places[i]] += sign[i]
            elif s > 0 and starts[s] == starts[s - 1]:
                found[s, 0], known[s, 0] = found[s - 1, 1], known[s - 1, 1]
                continue
            known[s, after], found[s, after] = _shape(values, times, starts[s], ends[s], kind)
    return found, known


@njit
def _shape(values: np.ndarray, times: Int64s, start: int, end: int, kind: int) -> tuple[bool, float]:
    """From the central moments, of differences to the mean scaled to at most 1, so that none overflows."""
    count, mean, scale = 0, 0.0, 0.0
    for i in range(start, end):
        if times[i] > 0:
            if not np.isfinite(values[i]):
                return True, np.nan
            count += times[i]
            mean += (values[i] - mean) * (times[i] / count)
    for i in range(start, end):
        if times[i] > 0:
            scale = max(scale, abs(values[i] - mean))
    if scale == 0.0:
        return False, 0.0
    second = third = fourth = 0.0
    for i in range(start, end):
        if times[i] > 0:
            apart = (values[i] - mean) / scale
            second += times[i] * apart * apart
            third += times[i] * apart * apart * apart
            fourth += times[i] * apart * apart * apart * apart
    if kind == SKEWNESS:
        return True, np.sqrt(float(count)) * third / np.sqrt(second * second * second)
    return True, count * fourth / (second * second) - 3.0
