"""Running aggregates over segments: what each group's value was before and is after each instant.

Events are sorted by group, then instant; segment s is events ``bounds[s] .. bounds[s+1]``, all of group
``groups[s]`` at one instant. ``sign`` is +1, -1, or 0 for an event that only marks an instant. Each
kernel adds and removes in the same loop, so that what was added is what is taken away.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s


@njit
def count(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, counts: Int64s
) -> tuple[Int64s, Int64s]:
    """Number of valid values before and after each segment."""
    before, after = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    for s in range(len(groups)):
        total = counts[groups[s]]
        before[s] = total
        for i in range(bounds[s], bounds[s + 1]):
            if valid[i]:
                total += sign[i]
        after[s] = total
        counts[groups[s]] = total
    return before, after


@njit
def extreme_growing(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, keys: Int64s, best: Int64s
) -> tuple[Int64s, Int64s]:
    """The least key of each group where nothing ever leaves; the largest int64 stands for none."""
    before, after = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    for s in range(len(groups)):
        least = best[groups[s]]
        before[s] = least
        for i in range(bounds[s], bounds[s + 1]):
            if valid[i] and sign[i] > 0 and keys[i] < least:
                least = keys[i]
        best[groups[s]] = least
        after[s] = least
    return before, after


@njit
def first_and_last(numbers: Int64s, sign: np.ndarray, times: Int64s) -> np.ndarray:
    """Of the events of numbered values, those that bring the first or take the last; others become 0."""
    out = np.zeros(len(numbers), np.int8)
    for i in range(len(numbers)):
        before = times[numbers[i]]
        times[numbers[i]] = before + sign[i]
        if sign[i] > 0 and before == 0:
            out[i] = 1
        elif sign[i] < 0 and before == 1:
            out[i] = -1
    return out
