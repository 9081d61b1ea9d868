"""Running co-moments of pairs of doubles: what was added can be taken away without a trace that shows.

Sums are pairs of doubles (Dekker), of the differences to the first pair of a group, so little cancels. Pairs
with a NaN, an infinity or a number whose square is near overflow are only counted: while one is there the
result is NaN.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s

SUMS = 12
"""Columns of a group: the first x and y, then high and low of the sums of x, y, xy, xx and yy."""
COVAR_POP, COVAR_SAMP, CORR = range(3)
_LARGE = 1e150
_SPLIT = 134217729.0


@njit(inline="always")
def _two_sum(a: float, b: float) -> tuple[float, float]:
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


@njit(inline="always")
def _two_product(a: float, b: float) -> tuple[float, float]:
    product = a * b
    part = _SPLIT * a
    ah = part - (part - a)
    part = _SPLIT * b
    bh = part - (part - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


@njit(inline="always")
def _plus(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    high, low = _two_sum(ah, bh)
    return _two_sum(high, low + (al + bl))


@njit
def _add(sums: np.ndarray, column: int, high: float, low: float) -> None:
    sums[column], sums[column + 1] = _plus(sums[column], sums[column + 1], high, low)


@njit
def _moment(sums: np.ndarray, product: int, left: int, right: int, count: int) -> float:
    """The sum of products less the product of sums over the count."""
    high, low = _two_product(sums[left], sums[right])
    low += sums[left] * sums[right + 1] + sums[left + 1] * sums[right]
    quotient = high / count
    back, error = _two_product(quotient, float(count))
    rest = ((high - back) - error + low) / count
    total, left_over = _plus(sums[product], sums[product + 1], -quotient, -rest)
    return total + left_over


@njit
def _value(sums: np.ndarray, count: int, specials: int, kind: int) -> float:
    if specials > 0:
        return np.nan
    together = _moment(sums, 6, 2, 4, count)
    if kind == COVAR_POP:
        return together / count
    if kind == COVAR_SAMP:
        return together / max(count - 1, 1)
    spread = max(_moment(sums, 8, 2, 2, count), 0.0) * max(_moment(sums, 10, 4, 4, count), 0.0)
    return max(-1.0, min(1.0, together / np.sqrt(spread))) if spread > 0.0 else np.nan


@njit
def co_moments(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, xs: np.ndarray, ys: np.ndarray,
    counts: Int64s, specials: Int64s, sums: np.ndarray, kind: int, least: int,
) -> tuple[np.ndarray, Bools]:  # fmt: skip
    """Values before and after each segment, and which are known: of ``least`` pairs, none of them 0 / 0."""
    shown, known = np.zeros((len(groups), 2)), np.zeros((len(groups), 2), np.bool_)
    for s in range(len(groups)):
        g = groups[s]
        for after in range(2):
            if after:
                for i in range(bounds[s], bounds[s + 1]):
                    if valid[i] and sign[i] != 0:
                        _take(xs[i], ys[i], sign[i], g, counts, specials, sums)
            if counts[g] >= least:
                shown[s, after] = _value(sums[g], counts[g], specials[g], kind)
                known[s, after] = specials[g] > 0 or not np.isnan(shown[s, after])
    return shown, known


@njit
def _take(x: float, y: float, sign: int, g: int, counts: Int64s, specials: Int64s, sums: np.ndarray) -> None:
    """Add or remove a pair; a group without pairs has no state."""
    if counts[g] == specials[g]:
        sums[g] = 0.0
        sums[g, 0], sums[g, 1] = x, y
    counts[g] += sign
    if not (abs(x) < _LARGE and abs(y) < _LARGE):
        specials[g] += sign
        return
    dx, dy = x - sums[g, 0], y - sums[g, 1]
    _add(sums[g], 2, sign * dx, 0.0)
    _add(sums[g], 4, sign * dy, 0.0)
    for column, a, b in ((6, dx, dy), (8, dx, dx), (10, dy, dy)):
        high, low = _two_product(a, b)
        _add(sums[g], column, sign * high, sign * low)
    if counts[g] == specials[g]:
        sums[g] = 0.0
