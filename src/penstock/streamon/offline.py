"""Orders computed from all statistics at once, for comparison: Greedy, and the optimum by trying all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.streamon.profile_window import Bits

MOST_FILTERS = 20
"""The optimum is looked for among the orders of up to so many."""


def cost(order: Sequence[int], drops: Bits, times: npt.NDArray[np.float64]) -> float:
    """Time to process all tuples (a row each, a bit a filter that drops it) in an order (equation 4.1)."""
    left = np.ones(len(drops), np.bool_)
    total = 0.0
    for f in order:
        total += times[f] * np.count_nonzero(left)
        left &= drops[:, f] == 0
    return total


def greedy(drops: Bits, times: npt.NDArray[np.float64]) -> list[int]:
    """Static Greedy (thesis 4.3): next is the filter that drops the most of what is left for its time."""
    order: list[int] = []
    left = drops
    rest = list(range(drops.shape[1]))
    while rest:
        ratios = left[:, rest].sum(axis=0) / times[rest]
        best = rest[int(np.argmax(ratios))]
        order.append(best)
        rest.remove(best)
        left = left[left[:, best] == 0]
    return order


def optimal(drops: Bits, times: npt.NDArray[np.float64]) -> list[int]:
    """The cheapest order of all.

    What an order costs up to a filter depends on the set of filters before it only, not on their order:
    so the best order of every set is found from those of its subsets, 2^n sets instead of n! orders.
    """
    n = drops.shape[1]
    if n > MOST_FILTERS:
        raise ValueError(f"the optimum of {n} filters is too long to look for; {MOST_FILTERS} is the most")
    last = _best_last(_passing(drops), np.asarray(times, np.float64))
    order, done = [], (1 << n) - 1
    while done:
        order.append(int(last[done]))
        done ^= 1 << order[-1]
    return order[::-1]


def _passing(drops: Bits) -> npt.NDArray[np.float64]:
    """For every set of filters (a bit each) the number of tuples that all of them let through."""
    n = drops.shape[1]
    passed_by = ((drops == 0) << np.arange(n)).sum(axis=1)
    found = np.bincount(passed_by, minlength=1 << n).astype(np.float64)
    for f in range(n):
        by = found.reshape(-1, 2, 1 << f)
        by[:, 0] += by[:, 1]
    return found


@njit(cache=True)
def _best_last(passing: npt.NDArray[np.float64], times: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """The last filter of the best order of every set."""
    best = np.full(len(passing), np.inf)
    last = np.full(len(passing), -1, np.int8)
    best[0] = 0.0
    for done in range(len(passing)):
        for f in range(len(times)):
            with_f = done | 1 << f
            total = best[done] + times[f] * passing[done]
            if with_f != done and total < best[with_f]:
                best[with_f], last[with_f] = total, f
    return last
