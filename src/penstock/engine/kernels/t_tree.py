"""A T-tree in arrays: a balanced binary tree whose nodes are those of ``kernels.ordered``.

``links[node] = (least key, greatest key, left child, right child)``, side by side since a search reads them
together; a child that is not there is -1. A search goes left or right by the bounds of a node and into the
one node that bounds its key. ``heights`` keep the tree balanced as in an AVL tree; ``head`` holds the root,
the first node of the chain, the nodes in use and the entries. A node always keeps an entry, a dead one if
need be, so that it has bounds.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.ordered import lower, purge, put, upper

ROOT, FIRST, NODES, ENTRIES = range(4)
HEAD = 4
_LEAST, _GREATEST, _LEFT, _RIGHT = range(4)
_INSIDE = 4
_DEEPEST = 64


@njit
def locate(
    head: Int64s, keys: np.ndarray, counts: Int64s, links: np.ndarray, lows: Int64s, valid: Bools
) -> tuple[Int64s, Int64s]:
    """Where the range of each probe begins: (node, place); node -1 where there is nothing to find."""
    nodes, places = np.full(len(lows), -1, np.int64), np.zeros(len(lows), np.int64)
    if head[ENTRIES] == 0:
        return nodes, places
    for i in range(len(lows)):
        low, node = lows[i], head[ROOT] if valid[i] else -1
        while node >= 0:
            if low <= links[node, _LEAST]:
                nodes[i], places[i] = node, 0
                node = links[node, _LEFT]
            elif low > links[node, _GREATEST]:
                node = links[node, _RIGHT]
            else:
                nodes[i], places[i] = node, lower(keys, node, counts[node], low)
                break
    return nodes, places


@njit
def insert(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, links: np.ndarray,
    heights: Int64s, new: Int64s, valid: Bools, done: int, first: int, base: int,
) -> int:  # fmt: skip
    """Put rows ``first + done, ...`` in; how many are when there is no node left, or all."""
    size = keys.shape[1]
    path = np.empty(_DEEPEST, np.int64)
    for i in range(done, len(new)):
        if head[NODES] == len(keys):
            return i
        if not valid[i]:
            continue
        key, rid = new[i], first + i
        depth, side = _descend(head, links, path, key)
        node = path[depth - 1]
        if counts[node] == size:
            head[ENTRIES] -= _purge(keys, rids, counts, links, node, base)
        head[ENTRIES] += 1
        place = upper(keys, node, counts[node], key)
        if counts[node] < size:
            put(keys, rids, counts, node, place, key, rid)
            _bound(keys, counts, links, node)
        elif side == _INSIDE:
            least, row = keys[node, 0], rids[node, 0]
            for k in range(1, place):
                keys[node, k - 1] = keys[node, k]
                rids[node, k - 1] = rids[node, k]
            keys[node, place - 1], rids[node, place - 1] = key, rid
            _bound(keys, counts, links, node)
            _push_left(head, keys, rids, counts, nexts, links, heights, path, depth, least, row, base)
        else:
            _grow(head, keys, rids, counts, nexts, links, heights, path, depth, side, key, rid)
    return len(new)


@njit
def _descend(head: Int64s, links: np.ndarray, path: Int64s, key: int) -> tuple[int, int]:
    """The way to the node for a key: how many nodes, and on which side of the last it belongs."""
    node, depth = head[ROOT], 0
    while True:
        path[depth] = node
        depth += 1
        if key < links[node, _LEAST]:
            side = _LEFT
        elif key >= links[node, _GREATEST]:
            side = _RIGHT
        else:
            return depth, _INSIDE
        if links[node, side] < 0:
            return depth, side
        node = links[node, side]


@njit(inline="always")
def _bound(keys: np.ndarray, counts: Int64s, links: np.ndarray, node: int) -> None:
    links[node, _LEAST] = keys[node, 0]
    links[node, _GREATEST] = keys[node, counts[node] - 1]


@njit
def _purge(
    keys: np.ndarray, rids: np.ndarray, counts: Int64s, links: np.ndarray, node: int, base: int
) -> int:
    gone = purge(keys, rids, counts, node, base)
    if counts[node] == 0:
        counts[node] = 1
        gone -= 1
    _bound(keys, counts, links, node)
    return gone


@njit
def _push_left(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, links: np.ndarray,
    heights: Int64s, path: Int64s, depth: int, key: int, rid: int, base: int,
) -> None:  # fmt: skip
    """The least entry of a full node goes to the end of the node before it."""
    node = links[path[depth - 1], _LEFT]
    if node < 0:
        _grow(head, keys, rids, counts, nexts, links, heights, path, depth, _LEFT, key, rid)
        return
    while node >= 0:
        path[depth] = node
        depth += 1
        node = links[node, _RIGHT]
    node = path[depth - 1]
    if counts[node] == keys.shape[1]:
        head[ENTRIES] -= _purge(keys, rids, counts, links, node, base)
    if counts[node] < keys.shape[1]:
        put(keys, rids, counts, node, counts[node], key, rid)
        _bound(keys, counts, links, node)
    else:
        _grow(head, keys, rids, counts, nexts, links, heights, path, depth, _RIGHT, key, rid)


@njit
def _grow(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, links: np.ndarray,
    heights: Int64s, path: Int64s, depth: int, side: int, key: int, rid: int,
) -> None:  # fmt: skip
    """Hang a new node with one entry below the last of the path, and balance the path."""
    node, parent = head[NODES], path[depth - 1]
    head[NODES] += 1
    keys[node, 0], rids[node, 0], counts[node], heights[node] = key, rid, 1, 1
    links[node, _LEFT] = links[node, _RIGHT] = -1
    _bound(keys, counts, links, node)
    links[parent, side] = node
    if side == _RIGHT:
        nexts[node], nexts[parent] = nexts[parent], node
    else:
        nexts[node] = parent
        before = _before(links, path, depth)
        if before < 0:
            head[FIRST] = node
        else:
            nexts[before] = node
    _balance(head, links, heights, path, depth)


@njit
def _before(links: np.ndarray, path: Int64s, depth: int) -> int:
    """The node before the last of the path, which has no left subtree yet; -1 if it was the first."""
    for d in range(depth - 1, 0, -1):
        if links[path[d - 1], _RIGHT] == path[d]:
            return path[d - 1]
    return -1


@njit(inline="always")
def _height(heights: Int64s, node: int) -> int:
    return heights[node] if node >= 0 else 0


@njit
def _rotate(links: np.ndarray, heights: Int64s, node: int, side: int) -> int:
    """The child on a side takes the node's place."""
    other = _LEFT + _RIGHT - side
    child = links[node, side]
    links[node, side] = links[child, other]
    links[child, other] = node
    for n in (node, child):
        heights[n] = 1 + max(_height(heights, links[n, _LEFT]), _height(heights, links[n, _RIGHT]))
    return child


@njit
def _balance(head: Int64s, links: np.ndarray, heights: Int64s, path: Int64s, depth: int) -> None:
    for d in range(depth - 1, -1, -1):
        node = path[d]
        left, right = _height(heights, links[node, _LEFT]), _height(heights, links[node, _RIGHT])
        if abs(left - right) < 2:
            if heights[node] == 1 + max(left, right):
                return
            heights[node] = 1 + max(left, right)
            continue
        side = _LEFT if left > right else _RIGHT
        other = _LEFT + _RIGHT - side
        child = links[node, side]
        if _height(heights, links[child, other]) > _height(heights, links[child, side]):
            links[node, side] = _rotate(links, heights, child, other)
        top = _rotate(links, heights, node, side)
        if d == 0:
            head[ROOT] = top
        else:
            above = path[d - 1]
            links[above, _LEFT if links[above, _LEFT] == node else _RIGHT] = top
        return


@njit
def load(
    head: Int64s, keys: np.ndarray, rids: np.ndarray, counts: Int64s, nexts: Int64s, links: np.ndarray,
    heights: Int64s, new: Int64s, rows: Int64s, per: int,
) -> None:  # fmt: skip
    """Make a new tree of sorted entries, ``per`` to a node."""
    nodes = max(1, -(-len(new) // per))
    for node in range(nodes):
        at = node * per
        counts[node] = min(per, len(new) - at)
        keys[node, : counts[node]] = new[at : at + counts[node]]
        rids[node, : counts[node]] = rows[at : at + counts[node]]
        nexts[node] = node + 1 if node + 1 < nodes else -1
        links[node] = -1
        if len(new):
            _bound(keys, counts, links, node)
    head[FIRST], head[NODES], head[ENTRIES] = 0, nodes, len(new)
    # Ranges of nodes still to be hung, each with the parent and side it hangs from.
    todo = np.empty((_DEEPEST, 4), np.int64)
    todo[0] = (0, nodes, -1, -1)
    left = 1
    while left > 0:
        left -= 1
        begin, end, parent, side = todo[left]
        if begin == end:
            continue
        middle = (begin + end) // 2
        if parent < 0:
            head[ROOT] = middle
        else:
            links[parent, side] = middle
        size = end - begin
        heights[middle] = 0
        while size > 0:
            heights[middle] += 1
            size >>= 1
        todo[left] = (begin, middle, middle, _LEFT)
        todo[left + 1] = (middle + 1, end, middle, _RIGHT)
        left += 2
