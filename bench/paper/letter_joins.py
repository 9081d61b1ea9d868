"""NLW-join to the letter of figure 5: a left-deep tree of two-way joins, counted and not timed.

Penstock's NLW-join is one operator over all streams, and rows come to it in the order of time, so that its
buffers hold no row that is out of the new row's window. The paper's joins two streams at a time: results of
lower joins are kept in buffers of their own, and a tuple leaves a buffer only when that is iterated
and the tuple is more than the window from the last tuple of *every* stream on the other side. A slow stream
so leaves many tuples in the buffers of others, which every arrival iterates over. This counts comparisons:
one comparison for each timestamp that IsOut looks at until one is near, two for IsIn, one for the predicate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s

ROOM = 1 << 16
"""Tuples that a buffer may hold."""


@njit
def _arrive(level, left, lows, highs, value, now, sizes, low, high, key, window, counts, out):
    """A tuple comes to the join of a level from one side: insert it, and iterate over the other side.

    ``lows``, ``highs``, ``value``: by level and side the buffers, by the least and greatest timestamp of a
    tuple. ``now``: the last timestamp of each stream. Matches are written to ``out``; returns their number.
    """
    mine, other = (0, 1) if left else (1, 0)
    at = sizes[level, mine]
    lows[level, mine, at], highs[level, mine, at], value[level, mine, at] = low, high, key
    sizes[level, mine] += 1
    # V: the streams below the left side, or the one of the right side.
    first, stop = (0, level + 1) if left else (level + 1, level + 2)
    kept = found = 0
    for k in range(sizes[level, other]):
        a, b, v = lows[level, other, k], highs[level, other, k], value[level, other, k]
        out_of_all = True
        for s in range(first, stop):
            counts[0] += 1
            # No tuple to come is before the last one of its stream.
            if now[s] <= a + window:
                out_of_all = False
                break
        if out_of_all:
            continue
        lows[level, other, kept], highs[level, other, kept], value[level, other, kept] = a, b, v
        kept += 1
        counts[0] += 2
        if b <= low + window and a >= high - window:
            counts[1] += 1
            if v == key:
                out[found, 0], out[found, 1] = min(a, low), max(b, high)
                found += 1
    sizes[level, other] = kept
    return found


@njit
def _join(times, streams, keys, n, window, room):
    """Timestamps compared, predicates tested, and results, of streams merged in the order of time."""
    shape = (n - 1, 2, room)
    lows, highs, value = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    sizes = np.zeros((n - 1, 2), np.int64)
    now = np.full(n, -(1 << 60))
    counts, results = np.zeros(2, np.int64), 0
    pending, some = np.zeros((room, 2), np.int64), np.zeros((room, 2), np.int64)
    for i in range(len(times)):
        t, s, key = times[i], streams[i], keys[i]
        now[s] = t
        level, held, left = max(s - 1, 0), 1, s == 0
        pending[0, 0] = pending[0, 1] = t
        while level < n - 1 and held:
            found = 0
            for p in range(held):
                low, high = pending[p, 0], pending[p, 1]
                found += _arrive(level, left, lows, highs, value, now, sizes, low, high, key, window, counts,
                                 some[found:])  # fmt: skip
            pending, some, held, left = some, pending, found, True
            level += 1
        results += held
    return counts[0], counts[1], results


def counted(rows: Mapping[str, tuple[Int64s, Int64s]], window: int) -> tuple[float, float, int]:
    """Per row that arrives: timestamps compared and predicates tested; and the results."""
    every = [(t, np.full(len(t), s), v) for s, (t, v) in enumerate(rows.values())]
    times, streams, keys = (np.concatenate(parts) for parts in zip(*every, strict=True))
    order = np.lexsort((streams, times))
    compared, tested, results = _join(times[order], streams[order], keys[order], len(rows), window, ROOM)
    return compared / len(times), tested / len(times), results
