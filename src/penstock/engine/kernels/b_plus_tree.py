"""A B+tree in arrays: leaves as ``kernels.ordered`` has them, inner nodes above.

``inner_keys[node, :n]`` separate the ``n + 1`` children ``children[node]``: child c holds the keys from
separator c - 1 on and before separator c; entries that are equal to a separator may also end the child
before it. ``head`` holds the root, the levels of inner nodes above the leaves, the leaves and inner nodes
in use, and the entries. Leaf 0 is always the first of the chain: a leaf splits to its right.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.ordered import BLOCK, lower, purge, put, upper

ROOT, LEVELS, LEAVES, INNERS, ENTRIES = range(5)
HEAD = 5
_MOST_LEVELS = 24


@njit
def locate(
    head: Int64s, keys: np.ndarray, counts: Int64s, inner_keys: np.ndarray, children: np.ndarray,
    inner_counts: Int64s, lows: Int64s, valid: Bools,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """Where the range of each probe begins: (leaf, place); leaf -1 where there is nothing to look for.

    Probes go down side by side, a block at a time, so that their cache misses overlap.
    """
    nodes, places = np.full(len(lows), -1, np.int64), np.zeros(len(lows), np.int64)
    for first in range(0, len(lows), BLOCK):
        stop = min(first + BLOCK, len(lows))
        for i in range(first, stop):
            nodes[i] = head[ROOT]
        for _ in range(head[LEVELS]):
            for i in range(first, stop):
                node = nodes[i]
                nodes[i] = children[node, lower(inner_keys, node, inner_counts[node], lows[i])]
        for i in range(first, stop):
            places[i] = lower(keys, nodes[i], counts[nodes[i]], lows[i])
            if not valid[i]:
                nodes[i] = -1
    return nodes, places


@njit
def insert(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, inner_keys: np.ndarray,
    children: np.ndarray, inner_counts: Int64s, new: Int64s, valid: Bools, done: int, first: int, base: int,
) -> int:  # fmt: skip
    """Put rows ``first + done, ...`` in; how many are when there is no node left, or all."""
    size = keys.shape[1]
    path, turns = np.empty(_MOST_LEVELS, np.int64), np.empty(_MOST_LEVELS, np.int64)
    for i in range(done, len(new)):
        if head[LEAVES] == len(keys) or head[INNERS] + head[LEVELS] + 1 > len(inner_keys):
            return i
        if not valid[i]:
            continue
        key, node = new[i], head[ROOT]
        for level in range(head[LEVELS]):
            turn = upper(inner_keys, node, inner_counts[node], key)
            path[level], turns[level] = node, turn
            node = children[node, turn]
        full = counts[node] == size
        if full:
            head[ENTRIES] -= purge(keys, rids, counts, node, base)
        place = upper(keys, node, counts[node], key)
        # A leaf that is still nearly full without its dead would soon be looked through again.
        if full and 4 * counts[node] > 3 * size:
            other = head[LEAVES]
            head[LEAVES] += 1
            # Keys that only grow fill their leaves.
            keep = counts[node] if place == counts[node] and nexts[node] < 0 else counts[node] // 2
            moved = counts[node] - keep
            keys[other, :moved] = keys[node, keep : counts[node]]
            rids[other, :moved] = rids[node, keep : counts[node]]
            counts[node], counts[other] = keep, moved
            nexts[other], nexts[node] = nexts[node], other
            divider = key if moved == 0 else keys[other, 0]
            _divide(head, inner_keys, children, inner_counts, path, turns, divider, other)
            if place >= keep and key >= divider:
                node, place = other, place - keep
        put(keys, rids, counts, node, place, key, first + i)
        head[ENTRIES] += 1
    return len(new)


@njit
def _divide(
    head: Int64s, inner_keys: np.ndarray, children: np.ndarray, inner_counts: Int64s, path: Int64s,
    turns: Int64s, divider: int, other: int,
) -> None:  # fmt: skip
    """Hang a new right-hand node into the tree, dividing inner nodes that are full."""
    size = inner_keys.shape[1]
    for level in range(head[LEVELS] - 1, -1, -1):
        node, turn = path[level], turns[level]
        count = inner_counts[node]
        if count < size:
            _hang(inner_keys, children, inner_counts, node, turn, divider, other)
            return
        right = head[INNERS]
        head[INNERS] += 1
        keep = count // 2
        up = inner_keys[node, keep]
        inner_counts[node], inner_counts[right] = keep, count - keep - 1
        inner_keys[right, : count - keep - 1] = inner_keys[node, keep + 1 : count]
        children[right, : count - keep] = children[node, keep + 1 : count + 1]
        if turn <= keep:
            _hang(inner_keys, children, inner_counts, node, turn, divider, other)
        else:
            _hang(inner_keys, children, inner_counts, right, turn - keep - 1, divider, other)
        divider, other = up, right
    root = head[INNERS]
    head[INNERS] += 1
    inner_counts[root] = 1
    inner_keys[root, 0] = divider
    children[root, 0], children[root, 1] = head[ROOT], other
    head[ROOT] = root
    head[LEVELS] += 1


@njit(inline="always")
def _hang(
    inner_keys: np.ndarray, children: np.ndarray, inner_counts: Int64s, node: int, turn: int,
    divider: int, other: int,
) -> None:  # fmt: skip
    for k in range(inner_counts[node], turn, -1):
        inner_keys[node, k] = inner_keys[node, k - 1]
        children[node, k + 1] = children[node, k]
    inner_keys[node, turn] = divider
    children[node, turn + 1] = other
    inner_counts[node] += 1


@njit
def load(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, inner_keys: np.ndarray,
    children: np.ndarray, inner_counts: Int64s, new: Int64s, rows: Int64s, per: int,
) -> None:  # fmt: skip
    """Make a new tree of sorted entries, ``per`` to a node."""
    leaves = max(1, -(-len(new) // per))
    for leaf in range(leaves):
        at = leaf * per
        counts[leaf] = min(per, len(new) - at)
        keys[leaf, : counts[leaf]] = new[at : at + counts[leaf]]
        rids[leaf, : counts[leaf]] = rows[at : at + counts[leaf]]
        nexts[leaf] = leaf + 1 if leaf + 1 < leaves else -1
    below, lows = np.arange(leaves), keys[:leaves, 0].copy()
    inners = levels = 0
    while len(below) > 1:
        groups = -(-len(below) // per)
        level, level_lows = np.empty(groups, np.int64), np.empty(groups, np.int64)
        for g in range(groups):
            begin, end = g * len(below) // groups, (g + 1) * len(below) // groups
            children[inners, : end - begin] = below[begin:end]
            inner_keys[inners, : end - begin - 1] = lows[begin + 1 : end]
            inner_counts[inners] = end - begin - 1
            level[g], level_lows[g] = inners, lows[begin]
            inners += 1
        below, lows = level, level_lows
        levels += 1
    head[ROOT], head[LEVELS], head[LEAVES], head[INNERS] = below[0], levels, leaves, inners
    head[ENTRIES] = len(new)
