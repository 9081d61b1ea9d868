"""One heap of distinct values a group, in shared arrays: the least value survives insertions and deletions.

A node is (group, key, how often it is there, two heap children, next in its hash bucket). Heaps are skew
heaps. A value that is there no more stays in its heap until it comes to the top; the owner rebuilds all
when such values are the greater part.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import mix

GROUP, KEY, COUNT, LEFT, RIGHT, NEXT = range(6)
NONE = np.iinfo(np.int64).max
"""Shown as the least key of an empty heap."""


@njit(inline="always")
def _bucket(group: int, key: int, buckets: int) -> np.int64:
    return np.int64(mix(np.uint64(key) + mix(np.uint64(group))) & np.uint64(buckets - 1))


@njit
def _meld(nodes: np.ndarray, a: int, b: int) -> int:
    if a < 0:
        return b
    if b < 0:
        return a
    if nodes[b, KEY] < nodes[a, KEY]:
        a, b = b, a
    root = a
    while True:
        right = nodes[a, RIGHT]
        nodes[a, RIGHT] = nodes[a, LEFT]
        if right < 0:
            nodes[a, LEFT] = b
            return root
        if nodes[b, KEY] < nodes[right, KEY]:
            right, b = b, right
        nodes[a, LEFT] = right
        a = right


@njit
def _change(
    nodes: np.ndarray, heads: Int64s, roots: Int64s, free: Int64s, room: Int64s, group: int, key: int, by: int
) -> None:
    """Count one value up or down; ``room = (nodes used, free list's head)``."""
    bucket = _bucket(group, key, len(heads))
    at = heads[bucket]
    while at >= 0 and (nodes[at, GROUP] != group or nodes[at, KEY] != key):
        at = nodes[at, NEXT]
    if at < 0:
        if room[1] >= 0:
            at = room[1]
            room[1] = free[at]
        else:
            at = room[0]
            room[0] += 1
        nodes[at, GROUP], nodes[at, KEY], nodes[at, COUNT] = group, key, 0
        nodes[at, LEFT], nodes[at, RIGHT], nodes[at, NEXT] = -1, -1, heads[bucket]
        heads[bucket] = at
        roots[group] = _meld(nodes, roots[group], at)
    nodes[at, COUNT] += by


@njit
def _settle(nodes: np.ndarray, heads: Int64s, roots: Int64s, free: Int64s, room: Int64s, group: int) -> int:
    """Take values that are there no more off the top; the least that is."""
    top = roots[group]
    while top >= 0 and nodes[top, COUNT] <= 0:
        roots[group] = _meld(nodes, nodes[top, LEFT], nodes[top, RIGHT])
        bucket = _bucket(group, nodes[top, KEY], len(heads))
        at = heads[bucket]
        if at == top:
            heads[bucket] = nodes[top, NEXT]
        else:
            while nodes[at, NEXT] != top:
                at = nodes[at, NEXT]
            nodes[at, NEXT] = nodes[top, NEXT]
        nodes[top, GROUP] = -1
        free[top] = room[1]
        room[1] = top
        top = roots[group]
    return NONE if top < 0 else nodes[top, KEY]


@njit
def extreme_changing(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, keys: Int64s,
    nodes: np.ndarray, heads: Int64s, roots: Int64s, free: Int64s, room: Int64s,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """The least key of each group before and after each segment."""
    before, after = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    for s in range(len(groups)):
        before[s] = _settle(nodes, heads, roots, free, room, groups[s])
        for i in range(bounds[s], bounds[s + 1]):
            if valid[i] and sign[i] != 0:
                _change(nodes, heads, roots, free, room, groups[s], keys[i], sign[i])
        after[s] = _settle(nodes, heads, roots, free, room, groups[s])
    return before, after


@njit
def fill(
    groups: Int64s, keys: Int64s, counts: Int64s,
    nodes: np.ndarray, heads: Int64s, roots: Int64s, free: Int64s, room: Int64s,
) -> None:  # fmt: skip
    """Put counted values into empty heaps."""
    for i in range(len(groups)):
        _change(nodes, heads, roots, free, room, groups[i], keys[i], counts[i])
