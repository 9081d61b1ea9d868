"""Ranks of rows in order, and how they change from instant to instant.

Rows have positions 0, 1, 2, ... in the order of their groups and, within a group, of their sort keys; equal
rows share one. ``tree`` is a Fenwick tree of their counts, so a prefix sum, the place of the n-th row and a
change take the logarithm of the number of positions. A *class* is a run of positions that are equal in the
sort keys: RANK and DENSE_RANK number classes, ROW_NUMBER rows. Ranks start with 0 here, and a row is shown if
``low <= rank < high``.

An instant changes what is shown of the rows that enter or leave, and of those that the two limits pass over;
if ranks are shown themselves, also of all rows behind the first change. Only these are visited.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s
from penstock.engine.kernels.fenwick import add, count_before, position_of

ROW_NUMBER, RANK, DENSE_RANK = range(3)
NO_LIMIT = 1 << 62


@njit
def less(codes: np.ndarray, one: int, other: int) -> bool:
    """Whether a row comes before another, by their codes from left to right."""
    for column in range(codes.shape[1]):
        if codes[one, column] != codes[other, column]:
            return bool(codes[one, column] < codes[other, column])
    return False


@njit
def places(codes: np.ndarray, order: Int64s, new: Int64s) -> Int64s:
    """Where new rows belong among rows in order."""
    out = np.empty(len(new), np.int64)
    for i in range(len(new)):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if less(codes, order[middle], new[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out


@njit
def starts(codes: np.ndarray, order: Int64s, width: int) -> Int64s:
    """The first positions of runs that are equal in the first ``width`` codes, and the end of the last."""
    out = np.empty(len(order) + 1, np.int64)
    found = 0
    for at in range(len(order)):
        same = at > 0
        for column in range(width):
            if not same or codes[order[at - 1], column] != codes[order[at], column]:
                same = False
                break
        if not same:
            out[found] = at
            found += 1
    out[found] = len(order)
    return out[: found + 1]


@njit
def _limit(
    tree: Int64s, class_tree: Int64s, class_of: Int64s, class_starts: Int64s,
    start: int, stop: int, kind: int, rank: int,
) -> int:  # fmt: skip
    """The first position of a group from which on rows have at least a rank; of ROW_NUMBER in part."""
    if kind == DENSE_RANK:
        first = count_before(class_tree, class_of[start])
        found = position_of(class_tree, first + rank)
        return min(class_starts[found], stop) if found < len(class_starts) - 1 else stop
    first = count_before(tree, start)
    at = position_of(tree, first + rank)
    if at >= stop:
        return stop
    if kind == RANK:
        begin = class_starts[class_of[at]]
        return begin if count_before(tree, begin) - first >= rank else class_starts[class_of[at] + 1]
    return at


@njit
def _apply(
    positions: Int64s, deltas: Int64s, begin: int, end: int, counts: Int64s, tree: Int64s,
    class_of: Int64s, class_counts: Int64s, class_tree: Int64s, kind: int, flips: Int64s,
) -> None:  # fmt: skip
    """Apply the changes of a segment.

    ``flips``: its class has appeared (1) or gone (-1), at its last change.
    """
    before = 0
    for e in range(begin, end):
        at, by = positions[e], deltas[e]
        counts[at] += by
        add(tree, at, by)
        flips[e] = 0
        if kind == DENSE_RANK:
            own = class_of[at]
            if e == begin or class_of[positions[e - 1]] != own:
                before = class_counts[own]
            class_counts[own] += by
            if e + 1 == end or class_of[positions[e + 1]] != own:
                flips[e] = np.int64(class_counts[own] > 0) - np.int64(before > 0)
                if flips[e]:
                    add(class_tree, own, flips[e])


@njit
def _grown(array: np.ndarray) -> np.ndarray:
    larger = np.empty((2 * len(array), array.shape[1]), np.int64)
    larger[: len(array)] = array
    return larger


@njit
def _emit(out: np.ndarray, found: int, segment: int, at: int, rank: int, times: int) -> np.ndarray:
    if found == len(out):
        out = _grown(out)
    out[found, 0], out[found, 1], out[found, 2], out[found, 3] = segment, at, rank, times
    return out


@njit
def _visited(tree: Int64s, positions: Int64s, begin: int, end: int, ranges: np.ndarray) -> Int64s:
    """The positions whose output may change, in order: those that change, and the occupied ones in ranges."""
    out, found = np.empty(2 * (end - begin) + 8, np.int64), 0
    for r in range(len(ranges) + 1):
        low, high = (ranges[r, 0], ranges[r, 1]) if r < len(ranges) else (len(tree), len(tree))
        at = position_of(tree, count_before(tree, low)) if low < high else high
        while True:
            while begin < end and positions[begin] < min(at, high):
                out[found] = positions[begin]
                found, begin = found + 1, begin + 1
            if at >= high:
                break
            begin += 1 if begin < end and positions[begin] == at else 0
            if found + end - begin + 1 >= len(out):
                larger = np.empty(2 * len(out), np.int64)
                larger[:found] = out[:found]
                out = larger
            out[found] = at
            found += 1
            at = position_of(tree, count_before(tree, at + 1))
    return out[:found]


@njit
def _intervals(
    out: np.ndarray, found: int, segment: int, at: int, numbered: bool, a: int, b: int, c: int, d: int
) -> tuple[np.ndarray, int]:
    """Emit the change from row numbers ``a .. b`` of a row to ``c .. d``."""
    b, d = max(a, b), max(c, d)
    if not numbered:
        if d - c != b - a:
            out = _emit(out, found, segment, at, 0, (d - c) - (b - a))
            found += 1
        return out, found
    for r in range(a, b):
        if not c <= r < d:
            out = _emit(out, found, segment, at, r, -1)
            found += 1
    for r in range(c, d):
        if not a <= r < b:
            out = _emit(out, found, segment, at, r, 1)
            found += 1
    return out, found


@njit
def _ranks(
    out: np.ndarray, found: int, segment: int, at: int, numbered: bool, was: int, gone: int, rank: int,
    come: int,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Emit the change from ``gone`` rows of one rank to ``come`` rows of another."""
    if was == rank or not numbered:
        come, gone = come - gone, 0
    if gone:
        out = _emit(out, found, segment, at, was, -gone)
        found += 1
    if come:
        out = _emit(out, found, segment, at, rank, come)
        found += 1
    return out, found


@njit
def _ranges(
    positions: Int64s, flips: Int64s, begin: int, end: int, start: int, stop: int, kind: int,
    lows: tuple[int, int], highs: tuple[int, int], numbered: bool,
) -> np.ndarray:  # fmt: skip
    """The positions that the limits passed over; if ranks are shown, all from the first that moves on."""
    ranges = np.zeros((2, 2), np.int64)
    inclusive = 1 if kind == ROW_NUMBER else 0  # of equal rows a limit may show some
    if lows[0] > start or lows[1] > start:
        ranges[0, 0] = min(lows)
        ranges[0, 1] = min(max(lows) + inclusive, stop)
    ranges[1, 0] = min(highs)
    ranges[1, 1] = min(max(highs) + inclusive, stop)
    for e in range(begin, end):
        if numbered and (kind != DENSE_RANK or flips[e] != 0):
            ranges[1, 0] = min(ranges[1, 0], max(positions[e], min(lows)))
            break
    if ranges[1, 0] < ranges[0, 1]:
        ranges[1, 0] = min(ranges[0, 0], ranges[1, 0])
        ranges[1, 1] = max(ranges[0, 1], ranges[1, 1])
        ranges[0, 1] = ranges[0, 0]
    return ranges


@njit
def changes(
    bounds: Int64s, positions: Int64s, deltas: Int64s, group_starts: Int64s, groups: Int64s,
    counts: Int64s, tree: Int64s, class_of: Int64s, class_starts: Int64s, class_counts: Int64s,
    class_tree: Int64s, kind: int, low: int, high: int, numbered: bool,
) -> np.ndarray:  # fmt: skip
    """Changes of what is shown: rows of (segment, position, rank, times), where times is negative for −.

    Segment s is the changes ``bounds[s] .. bounds[s+1]``, of one group at one instant, in order of position.
    """
    out, found = np.empty((max(2 * len(positions), 16), 4), np.int64), 0
    flips = np.zeros(len(positions), np.int64)
    for s in range(len(groups)):
        begin, end = bounds[s], bounds[s + 1]
        start, stop = group_starts[groups[s]], group_starts[groups[s] + 1]
        group = (tree, class_tree, class_of, class_starts, start, stop, kind)
        lows, highs = _limit(*group, low) if low else start, _limit(*group, high)
        _apply(positions, deltas, begin, end, counts, tree, class_of, class_counts, class_tree, kind, flips)
        limits = (lows, _limit(*group, low) if low else start), (highs, _limit(*group, high))
        ranges = _ranges(positions, flips, begin, end, start, stop, kind, *limits, numbered)
        own, seen, shift = begin, begin, 0
        numbers = class_tree if kind == DENSE_RANK else tree
        first = count_before(numbers, class_of[start] if kind == DENSE_RANK else start)
        for at in _visited(tree, positions, begin, end, ranges):
            while own < end and positions[own] < at:
                own += 1
            now = counts[at]
            before = now - (deltas[own] if own < end and positions[own] == at else 0)
            head = at if kind == ROW_NUMBER else class_starts[class_of[at]]
            while seen < end and positions[seen] < head:
                shift += flips[seen] if kind == DENSE_RANK else deltas[seen]
                seen += 1
            rank = count_before(numbers, class_of[at] if kind == DENSE_RANK else head) - first
            was, shown = rank - shift, (out, found, s, at, numbered)
            if kind == ROW_NUMBER:
                rows = max(was, low), min(was + before, high), max(rank, low), min(rank + now, high)
                out, found = _intervals(*shown, *rows)
            else:
                gone, come = before if low <= was < high else 0, now if low <= rank < high else 0
                out, found = _ranks(*shown, was, gone, rank, come)
    return out[:found]
