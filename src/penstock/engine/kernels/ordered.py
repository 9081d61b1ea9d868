"""What the ordered indexes share: nodes of sorted entries, chained in order.

``keys[node, place]`` and ``rids[node, place]`` are an entry, ``counts[node]`` the entries of a node and
``nexts[node]`` the node after it, -1 for the last. An index finds where a range begins; from there on the
chain is walked. Entries of equal keys are in arrival order.

Expiry is lazy: an entry is dead once its row id is below ``base``, and is passed over until its node is
full or the index is packed anew.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.probing import View, _grown

BLOCK = 256
"""Probes that go through an index side by side."""


@njit(inline="always")
def lower(keys: np.ndarray, node: int, count: int, key: int) -> int:
    """The entries of a node whose key is less, by halving without branches."""
    if count == 0:
        return 0
    at = 0
    while count > 1:
        half = count >> 1
        at += half if keys[node, at + half - 1] < key else 0
        count -= half
    return at + (1 if keys[node, at] < key else 0)


@njit(inline="always")
def upper(keys: np.ndarray, node: int, count: int, key: int) -> int:
    """The entries of a node whose key is not greater."""
    if count == 0:
        return 0
    at = 0
    while count > 1:
        half = count >> 1
        at += half if keys[node, at + half - 1] <= key else 0
        count -= half
    return at + (1 if keys[node, at] <= key else 0)


@njit(inline="always")
def purge(keys: np.ndarray, rids: np.ndarray, counts: Int64s, node: int, base: int) -> int:
    """Take a node's dead entries out; how many."""
    kept = 0
    count = counts[node]
    for place in range(count):
        if rids[node, place] >= base:
            keys[node, kept] = keys[node, place]
            rids[node, kept] = rids[node, place]
            kept += 1
    counts[node] = kept
    return count - kept


@njit(inline="always")
def put(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, node: int, place: int, key: int, rid: int
) -> None:
    """Put an entry at its place in a node that has room."""
    for k in range(counts[node], place, -1):
        keys[node, k] = keys[node, k - 1]
        rids[node, k] = rids[node, k - 1]
    keys[node, place] = key
    rids[node, place] = rid
    counts[node] += 1


@njit
def entries(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, node: int, base: int
) -> tuple[Int64s, Int64s]:
    """Keys and row ids of the live entries from a node on, in order."""
    room = 1024
    out_keys, out_rids = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    while node >= 0:
        if found + counts[node] > room:
            out_keys, out_rids = _grown(out_keys), _grown(out_rids)
            room *= 2
        for place in range(counts[node]):
            if rids[node, place] >= base:
                out_keys[found], out_rids[found] = keys[node, place], rids[node, place]
                found += 1
        node = nexts[node]
    return out_keys[:found], out_rids[:found]


@njit
def collect(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, lives: np.ndarray, base: int,
    mask: int, nodes: Int64s, places: Int64s, highs: Int64s, starts: Int64s, ends: Int64s, view: View,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """Matches of every probing tuple, from where its range begins up to the key ``highs``.

    (its place, row id, start, end) of each joined tuple, as ``probing.probe_chains`` gives them. A probe
    that begins at node -1 finds nothing. ``nodes`` and ``places`` are used up.
    """
    room = max(len(nodes), 64)
    out, rows = np.empty(room, np.int64), np.empty(room, np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    probe, found = _collect_some(
        keys, rids, counts, nexts, lives, base, mask, nodes, places, highs, starts, ends, view,
        out, rows, out_starts, out_ends, 0, 0,
    )  # fmt: skip
    while probe < len(nodes):
        out, rows, out_starts, out_ends = _grown(out), _grown(rows), _grown(out_starts), _grown(out_ends)
        probe, found = _collect_some(
            keys, rids, counts, nexts, lives, base, mask, nodes, places, highs, starts, ends, view,
            out, rows, out_starts, out_ends, probe, found,
        )  # fmt: skip
    return out[:found], rows[:found], out_starts[:found], out_ends[:found]


@njit
def _collect_some(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, lives: np.ndarray, base: int,
    mask: int, nodes: Int64s, places: Int64s, highs: Int64s, starts: Int64s, ends: Int64s, view: View,
    out: Int64s, rows: Int64s, out_starts: Int64s, out_ends: Int64s, first: int, found: int,
) -> tuple[int, int]:  # fmt: skip
    """As many matches as there is room for: the probe to go on with, and how many there are.

    A function of its own: a loop that binds arrays anew counts their references at every turn.
    """
    for i in range(first, len(nodes)):
        node, place = nodes[i], places[i]
        while node >= 0:
            if place >= counts[node]:
                node, place = nexts[node], 0
                continue
            if keys[node, place] > highs[i]:
                break
            rid = rids[node, place]
            if base <= rid < view.limit:
                slot = rid & mask
                leaves = lives[slot, 1] + view.longer
                start = max(starts[i], lives[slot, 0])
                end = min(ends[i], leaves)
                if start < end and leaves >= view.min_end and lives[slot, 0] >= view.since:
                    if found == len(out):
                        nodes[i], places[i] = node, place
                        return i, found
                    out[found], rows[found] = i, rid
                    out_starts[found], out_ends[found] = start, end
                    found += 1
            place += 1
    return len(nodes), found


@njit
def first_in_order(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, lives: np.ndarray, base: int,
    mask: int, nodes: Int64s, places: Int64s, highs: Int64s, starts: Int64s, ends: Int64s, view: View,
) -> Int64s:  # fmt: skip
    """The first match of every probing tuple, -1 for none."""
    out = np.full(len(nodes), -1, np.int64)
    for i in range(len(nodes)):
        node, place = nodes[i], places[i]
        while node >= 0:
            if place >= counts[node]:
                node, place = nexts[node], 0
                continue
            if keys[node, place] > highs[i]:
                break
            rid = rids[node, place]
            place += 1
            slot = rid & mask
            leaves = lives[slot, 1] + view.longer
            seen = base <= rid < view.limit and lives[slot, 0] >= view.since
            if seen and leaves >= view.min_end:
                if max(starts[i], lives[slot, 0]) < min(ends[i], leaves):
                    out[i] = rid
                    break
    return out


@njit
def _next_within(keys: Int64s, low: int, high: int, at: int, stop: int) -> int:
    """The next place from ``at`` on with a key from ``low`` to ``high``, else ``stop``; eight at a time."""
    while at + 8 <= stop:
        any_of_them = False
        for k in range(at, at + 8):
            any_of_them |= (keys[k] >= low) & (keys[k] <= high)
        if any_of_them:
            break
        at += 8
    while at < stop and not low <= keys[at] <= high:
        at += 1
    return at


@njit
def scan(
    keys: Int64s, valid: Bools, lives: np.ndarray, base: int, stop: int, mask: int,
    lows: Int64s, highs: Int64s, wanted: Bools, starts: Int64s, ends: Int64s, view: View,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """The same matches with no index: every key between ``base`` and ``stop`` is read.

    The ring is read as the two runs it is at most, so that keys are read in the order of memory.
    """
    room = max(len(lows), 64)
    out, rows = np.empty(room, np.int64), np.empty(room, np.int64)
    out_starts, out_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    stop = min(stop, view.limit)
    for i in range(len(lows)):
        begin = base if wanted[i] else stop
        while begin < stop:
            slot = begin & mask
            after = slot + min(stop - begin, mask + 1 - slot)
            k = _next_within(keys, lows[i], highs[i], slot, after)
            while k < after:
                leaves = lives[k, 1] + view.longer
                start = max(starts[i], lives[k, 0])
                end = min(ends[i], leaves)
                seen = valid[k] and lives[k, 0] >= view.since
                if seen and start < end and leaves >= view.min_end:
                    if found == room:
                        out, rows = _grown(out), _grown(rows)
                        out_starts, out_ends = _grown(out_starts), _grown(out_ends)
                        room *= 2
                    out[found], rows[found] = i, begin + k - slot
                    out_starts[found], out_ends[found] = start, end
                    found += 1
                k = _next_within(keys, lows[i], highs[i], k + 1, after)
            begin += after - slot
    return out[:found], rows[:found], out_starts[:found], out_ends[:found]
