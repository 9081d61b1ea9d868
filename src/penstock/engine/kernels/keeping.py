"""Which tuples of a window stay in memory, one arrival after the other, where not all of them may.

Rows are gone through in arrival order: ``old`` of a window's were there before, the others arrive. What is
set is ``until``, the instant at which a row is given up: for one that never is the end of its life, for one
that is not even taken in its start.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

Floats = np.ndarray
Pair = tuple[np.ndarray, np.ndarray]
"""An array for each of the two windows."""


@njit(inline="always")
def _before(priority: Floats, a: int, b: int) -> bool:
    """Whether row a is given up before row b: less priority, of equal ones the older."""
    return priority[a] < priority[b] or (priority[a] == priority[b] and a < b)


@njit
def _push(heap: Int64s, size: int, row: int, priority: Floats) -> int:
    at = size
    heap[at] = row
    while at > 0 and _before(priority, heap[at], heap[(at - 1) // 2]):
        above = (at - 1) // 2
        heap[at], heap[above] = heap[above], heap[at]
        at = above
    return size + 1


@njit
def _pop(heap: Int64s, size: int, priority: Floats) -> int:
    """Take the first row out; it is at the place after the others."""
    size -= 1
    heap[0], heap[size] = heap[size], heap[0]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            return size
        if below + 1 < size and _before(priority, heap[below + 1], heap[below]):
            below += 1
        if not _before(priority, heap[below], heap[at]):
            return size
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@njit(inline="always")
def _slot(ts: int, step: float, slots: int) -> int:
    return np.int64(np.floor(ts / step)) % slots  # type: ignore[return-value]


@njit
def _least_slot(counts: Int64s, newest: int, priorities: Floats) -> int:
    """The slot of held rows that promises least; of equal ones the oldest."""
    slots = len(counts)
    best = -1
    least = np.inf
    for age in range(slots - 1, -1, -1):
        slot = (newest - age) % slots
        if counts[slot] > 0 and priorities[min(age, len(priorities) - 1)] < least:
            least = priorities[min(age, len(priorities) - 1)]
            best = slot
    return best


@njit
def _least_by_age(
    held: Bools,
    ts: Int64s,
    now: int,
    new: int,
    step: float,
    priorities: Floats,
    counts: Int64s,
    firsts: Int64s,
) -> int:
    """The row whose age promises least; it no longer counts. ``new``: the row that has just come, if any."""
    slots = len(counts)
    slot = _least_slot(counts, _slot(now, step, slots), priorities)
    counts[slot] -= 1
    # Of the rows of its own slot the new one goes: the others have been there for longer.
    if new >= 0 and slot == _slot(ts[new], step, slots):
        return new
    row = firsts[slot]
    while not held[row]:
        row += 1
    firsts[slot] = row + 1
    return row


@njit
def _expire(
    held: Bools, watched: Bools, ts: Int64s, ends: Int64s, now: int, first: int, stop: int, step: float,
    counts: Int64s,
) -> tuple[int, int, int]:  # fmt: skip
    """Rows from ``first`` on whose life is over: the first that lives, how many were held, or watched."""
    gone = unwatched = 0
    while first < stop and ends[first] <= now:
        if held[first]:
            held[first] = False
            gone += 1
            if step > 0:
                counts[_slot(ts[first], step, len(counts))] -= 1
        else:
            unwatched += watched[first]
        first += 1
    return first, gone, unwatched


@njit
def keep_within(
    ts: Pair, ends: Pair, until: Pair, watched: Pair, priority: Pair, tables: Pair, steps: Floats,
    old: Int64s, rooms: Floats, total: int, at: int,
) -> Int64s:  # fmt: skip
    """Keep at most ``total`` rows of two windows; the row of each that was given up last, -1 if none was.

    Rows that are ``watched`` stay in memory till the end of their lives, also those that are given up.

    Where one is too many, the window gives one up that has more for its part of ``rooms``: the row of least
    ``priority``, or where ``steps`` is positive the one whose age promises least, ``tables[k]`` at an age of
    k steps. A row whose ``until`` is its start is left out from the beginning.
    """
    heaps = (np.empty(len(ts[0]) + 1, np.int64), np.empty(len(ts[1]) + 1, np.int64))
    held = (np.zeros(len(ts[0]), np.bool_), np.zeros(len(ts[1]), np.bool_))
    counts = (np.zeros(len(tables[0]) + 1, np.int64), np.zeros(len(tables[1]) + 1, np.int64))
    firsts = (np.zeros(len(tables[0]) + 1, np.int64), np.zeros(len(tables[1]) + 1, np.int64))
    size, many = np.zeros(2, np.int64), np.zeros(2, np.int64)
    alive, next_row = np.zeros(2, np.int64), np.zeros(2, np.int64)
    last = np.full(2, -1)
    apart = 0  # rows that are there because they are watched, and for nothing else
    while next_row[0] < len(ts[0]) or next_row[1] < len(ts[1]):
        side, now = _next_arrival(ts, old, next_row, at)
        row = next_row[side]
        next_row[side] += 1
        for i in range(2):
            alive[i], gone, unwatched = _expire(
                held[i], watched[i], ts[i], ends[i], now, alive[i], next_row[i], steps[i], counts[i]
            )
            many[i] -= gone
            apart -= unwatched
        if until[side][row] <= now:
            apart += watched[side][row]
        else:
            held[side][row] = True
            many[side] += 1
        if held[side][row] and steps[side] > 0:
            slot = _slot(ts[side][row], steps[side], len(counts[side]))
            if counts[side][slot] == 0:
                firsts[side][slot] = row
            counts[side][slot] += 1
        elif held[side][row]:
            size[side] = _push(heaps[side], size[side], row, priority[side])
        while many[0] + many[1] + apart > total and many[0] + many[1] > 0:
            out = 0 if many[0] * rooms[1] >= many[1] * rooms[0] else 1
            if many[out] == 0:  # there may be less room than was planned with
                out = 1 - out
            if steps[out] > 0:
                new = row if out == side and held[side][row] else -1
                gone = _least_by_age(
                    held[out], ts[out], now, new, steps[out], tables[out], counts[out], firsts[out]
                )
            else:
                size[out] = _pop(heaps[out], size[out], priority[out])
                gone = heaps[out][size[out]]
            if held[out][gone]:
                held[out][gone] = False
                until[out][gone] = now
                many[out] -= 1
                apart += watched[out][gone]
                last[out] = gone
    return last


@njit
def _next_arrival(ts: Pair, old: Int64s, next_row: Int64s, at: int) -> tuple[int, int]:
    """The window whose turn it is, and the time: rows that were there first, then by time, then the first."""
    for side in range(2):
        if next_row[side] < old[side]:
            return side, at
    if next_row[1] >= len(ts[1]):
        return 0, ts[0][next_row[0]]
    if next_row[0] >= len(ts[0]) or ts[1][next_row[1]] < ts[0][next_row[0]]:
        return 1, ts[1][next_row[1]]
    return 0, ts[0][next_row[0]]


@njit
def watch(ts: Int64s, ends: Int64s, wanted: Bools, old: int, room: int) -> Bools:
    """Which rows are kept for life to learn from: those that are wanted, never more than ``room`` at once."""
    out = wanted.copy()
    alive = count = 0
    for row in range(len(ts)):
        while alive < row and ends[alive] <= ts[row]:
            count -= out[alive]
            alive += 1
        if row >= old:
            out[row] = wanted[row] and count < room
        count += out[row]
    return out


@njit
def _skip(seed: np.uint64, number: int, fraction: float) -> float:
    """How many results further the next one of the sample is: a geometric draw for the number-th result."""
    if fraction >= 1.0:
        return 1.0
    draw = (np.float64(mix(seed + np.uint64(number)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return 1.0 + np.floor(np.log(draw) / np.log1p(-fraction))


@njit
def decide_first(
    seeds: np.ndarray, fraction: float, expected: Floats, ts: Int64s, following: Floats, until: Int64s
) -> None:
    """UNIFORM's DecideNextJoin for rows that arrive: the first result that is sampled, or give it up."""
    for row in range(len(ts)):
        following[row] = _skip(seeds[row], 0, fraction)
        if following[row] > expected[row]:
            until[row] = ts[row]


@njit
def sample_results(
    rows: Int64s, times: Int64s, alive: Bools, seeds: np.ndarray, fractions: Floats, expected: Floats,
    number: Int64s, following: Floats, until: Int64s,
) -> Bools:  # fmt: skip
    """UNIFORM's Join, in order of time: ``rows[k]`` gives a result at ``times[k]``; which are sampled."""
    out = np.zeros(len(rows), np.bool_)
    for k in range(len(rows)):
        row = rows[k]
        if not alive[row]:
            continue
        number[row] += 1
        if number[row] != following[row]:
            continue
        out[k] = True
        following[row] = number[row] + _skip(seeds[row], number[row], fractions[row])
        if following[row] > expected[row]:
            until[row] = times[k]
            alive[row] = False
    return out
