"""Orders computed from all statistics at once, for tests and benchmarks: Greedy, and the optimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.compiled import njit
from penstock.streamon.orderings import Ordering
from penstock.streamon.profile import Bits

MOST_FILTERS = 20
"""The optimum is found by a table of all subsets of the filters, which grows as 2^n."""


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


def matrix_view(ordering: Ordering) -> npt.NDArray[np.int64]:
    """V recounted from the profile window: V[i, j] tuples dropped by the filter at j, not before i.

    The definition of thesis 4.3.2, by brute force; algorithms maintain what they need of it.
    """
    n, bits = ordering.n, ordering.window.tuples()[:, ordering.order]
    view = np.zeros((n, n), np.int64)
    for i in range(n):
        left = bits[~bits[:, :i].any(axis=1)]
        view[i, i:] = left[:, i:].sum(axis=0)
    return view


def optimal(drops: Bits, times: npt.NDArray[np.float64]) -> list[int]:
    """The cheapest order of all.

    What an order costs up to a filter depends on the set of filters before it only, not on their order:
    so the best order of every set is found from those of its subsets, 2^n sets instead of n! orders.
    """
    n = drops.shape[1]
    if n > MOST_FILTERS:
        raise ValueError(f"cannot search the optimum of {n} filters; the limit is {MOST_FILTERS}")
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


@njit
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
