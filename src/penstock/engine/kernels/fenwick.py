"""A Fenwick tree of counts by position: sums, the place of the n-th and changes take logarithmic time."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s


@njit
def tree_of(counts: Int64s) -> Int64s:
    """The tree of counts."""
    tree = np.zeros(len(counts) + 1, np.int64)
    for i in range(1, len(tree)):
        tree[i] += counts[i - 1]
        above = i + (i & -i)
        if above < len(tree):
            tree[above] += tree[i]
    return tree


@njit
def add(tree: Int64s, position: int, by: int) -> None:
    """Change the count of a position."""
    i = position + 1
    while i < len(tree):
        tree[i] += by
        i += i & -i


@njit
def count_before(tree: Int64s, position: int) -> int:
    """The sum of the counts before a position."""
    total, i = 0, position
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@njit
def position_of(tree: Int64s, number: int) -> int:
    """The position of the one with a number from 0 on; the number of positions if there are fewer."""
    at, step = 0, 1
    while 2 * step < len(tree):
        step *= 2
    while step:
        if at + step < len(tree) and tree[at + step] <= number:
            at += step
            number -= tree[at]
        step //= 2
    return at
