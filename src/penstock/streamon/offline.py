"""Orders computed from all statistics at once, for comparison: Greedy, and the optimum by trying all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from penstock.streamon.profile_window import Bits

MOST_FILTERS = 8
"""The optimum is looked for among up to 8! orders."""


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
    """The cheapest order of all."""
    n = drops.shape[1]
    if n > MOST_FILTERS:
        raise ValueError(f"the optimum of {n} filters is too long to look for; {MOST_FILTERS} is the most")
    patterns, counts = np.unique(drops, axis=0, return_counts=True)

    def weighted(order: Iterable[int]) -> float:
        left = counts.astype(np.float64)
        total = 0.0
        for f in order:
            total += times[f] * left.sum()
            left = np.where(patterns[:, f] == 0, left, 0.0)
        return total

    return list(min(permutations(range(n)), key=weighted))
