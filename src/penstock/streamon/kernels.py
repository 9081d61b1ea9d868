"""The inner loops of profiling: a filter's survivors and samples, the matrix view, the Greedy Invariant."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
NEVER = 1 << 62


@njit(cache=True)
def gap(draw: Int64s, share: float) -> int:
    """Dropped tuples to pass over before the next profiled one: geometric; ``draw[1]`` is the seed."""
    x = np.uint64(draw[1])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    draw[1] = np.int64(x)
    if share <= 0.0:
        return NEVER
    if share >= 1.0:
        return 0
    uniform = (float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return int(math.log(uniform) / math.log1p(-share))


@njit(cache=True)
def split(
    rows: Int64s, passes: npt.NDArray[np.bool_], draw: Int64s, share: float, kept: Int64s, sampled: Int64s
) -> tuple[int, int]:
    """Rows that pass into ``kept``, a share of the others into ``sampled``; how many of each.

    ``draw[0]`` dropped tuples are yet to be passed over, so that sampling goes on across calls.
    """
    k, s = np.int64(0), 0
    skip = draw[0]
    for i in range(len(rows)):
        kept[k] = rows[i]
        k += np.int64(passes[i])
        skip -= np.int64(not passes[i])
        if skip < 0:
            sampled[s] = rows[i]
            s += 1
            skip = gap(draw, share)
    draw[0] = skip
    return int(k), s


@njit(cache=True)
def count(view: Int64s, order: Int64s, profile: Bits, by: int) -> None:
    """Figure 4.5: add profile tuples to the matrix view (or take them out of it, ``by`` -1)."""
    n = len(order)
    for t in range(len(profile)):
        first = 0
        while first < n and profile[t, order[first]] == 0:
            first += 1
        for c in range(first, n):
            weight = by * np.int64(profile[t, order[c]])
            if weight:
                for r in range(first + 1):
                    view[r, c] += weight


@njit(cache=True)
def violated(view: Int64s, times: npt.NDArray[np.float64], alpha: float) -> int:
    """Figure 4.6 with equation 4.4: the first position that violates the Greedy Invariant, -1 if none."""
    n = len(times)
    for i in range(n - 1):
        here = view[i, i] / times[i]
        for j in range(i + 1, n):
            if here < alpha * view[i, j] / times[j]:
                return i
    return -1


@njit(cache=True)
def correct(
    view: Int64s, order: Int64s, profile: Bits, times: npt.NDArray[np.float64], position: int
) -> None:
    """Figure 4.7: choose anew from ``position`` on, as far as the choice disturbs what follows.

    ``times`` is by filter. Afterwards ``view`` has the rows of the new order.
    """
    n = len(order)
    last = position
    r = position
    drops = np.zeros(n, np.int64)
    while r <= last:
        drops[:] = 0
        for t in range(len(profile)):
            c = 0
            while c < r and profile[t, order[c]] == 0:
                c += 1
            if c == r:
                for c in range(r, n):
                    drops[c] += profile[t, order[c]]
        best = r
        for c in range(r + 1, n):
            if drops[c] / times[order[c]] > drops[best] / times[order[best]]:
                best = c
        last = max(last, best)
        chosen = order[best]
        order[r + 1 : best + 1] = order[r:best].copy()
        order[r] = chosen
        r += 1
    view[:] = 0
    count(view, order, profile, 1)
