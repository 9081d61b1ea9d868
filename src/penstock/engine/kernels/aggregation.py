"""Running aggregates over segments: what each group's value was before and is after each instant.

Events are sorted by group, then instant; segment s is events ``bounds[s] .. bounds[s+1]``, all of group
``groups[s]`` at one instant. ``sign`` is +1, -1, or 0 for an event that only marks an instant. Each
kernel adds and removes in the same loop, so that what was added is what is taken away.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.engine.element import Bools, Int64s


@njit(cache=True)
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


@njit(cache=True)
def sum_wide(
    bounds: Int64s,
    groups: Int64s,
    sign: np.ndarray,
    valid: Bools,
    low: np.ndarray,
    high: Int64s,
    totals: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of 128-bit integers given as (low, high) words; ``totals[group] = (low, high)``."""
    before, after = np.empty((len(groups), 2), np.int64), np.empty((len(groups), 2), np.int64)
    for s in range(len(groups)):
        lo, hi = np.uint64(totals[groups[s], 0]), totals[groups[s], 1]
        before[s, 0], before[s, 1] = totals[groups[s], 0], hi
        for i in range(bounds[s], bounds[s + 1]):
            if not valid[i] or sign[i] == 0:
                continue
            if sign[i] > 0:
                total = lo + low[i]
                hi += high[i] + (1 if total < lo else 0)
            else:
                total = lo - low[i]
                hi -= high[i] + (1 if total > lo else 0)
            lo = total
        totals[groups[s], 0], totals[groups[s], 1] = np.int64(lo), hi
        after[s, 0], after[s, 1] = np.int64(lo), hi
    return before, after


@njit(cache=True, inline="always")
def _add_exactly(high: float, low: float, value: float) -> tuple[float, float]:
    """Add to an unevaluated sum of two doubles (Knuth's two-sum, twice)."""
    total = high + value
    virtual = total - high
    error = (high - (total - virtual)) + (value - virtual)
    low += error
    new = total + low
    return new, low - (new - total)


@njit(cache=True)
def sum_float(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, values: np.ndarray,
    totals: np.ndarray, specials: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Sums of doubles as pairs of doubles, with NaN, +inf and -inf counted apart so that they can leave.

    ``totals[group] = (high, low)``, ``specials[group] = (NaNs, infinities, negative infinities)``.
    """
    before, after = np.empty((len(groups), 2)), np.empty((len(groups), 2))
    for s in range(len(groups)):
        g = groups[s]
        before[s, 0], before[s, 1] = _shown(totals[g], specials[g])
        for i in range(bounds[s], bounds[s + 1]):
            if not valid[i] or sign[i] == 0:
                continue
            value = values[i]
            if np.isnan(value):
                specials[g, 0] += sign[i]
            elif np.isinf(value):
                specials[g, 1 if value > 0 else 2] += sign[i]
            else:
                totals[g, 0], totals[g, 1] = _add_exactly(totals[g, 0], totals[g, 1], sign[i] * value)
        after[s, 0], after[s, 1] = _shown(totals[g], specials[g])
    return before, after


@njit(cache=True)
def _shown(total: np.ndarray, special: np.ndarray) -> tuple[float, float]:
    if special[0] > 0 or (special[1] > 0 and special[2] > 0):
        return np.nan, 0.0
    if special[1] > 0:
        return np.inf, 0.0
    if special[2] > 0:
        return -np.inf, 0.0
    return total[0] + 0.0, total[1] + 0.0


@njit(cache=True)
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


@njit(cache=True)
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
