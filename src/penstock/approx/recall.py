"""Memory against recall: the split between a join's two windows, and between joins (ALLOC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.approx.settings import MEMORY_BISECTIONS, SPLITS_TRIED

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One window: its results per unit of time by memory, and the memory it can use.

    All splits of a join's memory are evaluated at once, so ``result_rate`` takes an array.
    """

    result_rate: Callable[[float | Floats], Floats]
    need: float


@dataclass(frozen=True)
class Join:
    """A join of two windows; ``weight`` is its importance relative to others."""

    sides: tuple[Side, Side]
    weight: float = 1.0

    @property
    def need(self) -> float:
        """Memory with which nothing is lost."""
        return self.sides[0].need + self.sides[1].need

    def split(self, memory: float) -> tuple[float, float]:
        """The memory of each window with the most results (3.2.2)."""
        a, b = self.sides
        if memory >= self.need:
            return a.need, b.need
        low, high = max(0.0, memory - b.need), min(memory, a.need)
        tried = np.linspace(low, high, SPLITS_TRIED)
        results = a.result_rate(tried) + b.result_rate(memory - tried)
        best = float(tried[int(np.argmax(results))])
        return best, memory - best

    def recall(self, memory: float) -> float:
        """The share of the join's results with this memory in the best split."""
        return self.recall_of(self.split(memory))

    def recall_of(self, rooms: tuple[float, float]) -> float:
        """The share of the join's results with this memory of each window."""
        a, b = self.sides
        whole = a.result_rate(a.need) + b.result_rate(b.need)
        in_a, in_b = rooms
        return float((a.result_rate(in_a) + b.result_rate(in_b)) / whole) if whole else 1.0

    def memory_for(self, recall: float) -> float:
        """The least memory with this recall: the f(q) of section 5."""
        return _least(lambda memory: self.recall(memory) >= recall, self.need)


class Demand(Protocol):
    """A consumer of a shared memory."""

    @property
    def weight(self) -> float:
        """Its importance relative to others."""

    def memory_for(self, recall: float) -> float:
        """The least memory with this recall."""


@dataclass(frozen=True)
class ReportedDemand:
    """The demand of a join that reported its recall at some memories, in ascending order."""

    memories: tuple[float, ...]
    recalls: tuple[float, ...]
    weight: float = 1.0

    def memory_for(self, recall: float) -> float:
        """The least memory with this recall, with linear interpolation between the reported values."""
        return float(np.interp(recall, self.recalls, self.memories))


def alloc(joins: Sequence[Demand], memory: float) -> list[float]:
    """The memory of each join that maximizes the least recall by weight: all are equal (theorem 5.1)."""

    def needed(level: float) -> list[float]:
        return [join.memory_for(min(1.0, join.weight * level)) for join in joins]

    most = max(1.0 / join.weight for join in joins)
    if sum(needed(most)) <= memory:
        return needed(most)
    low, high = 0.0, most
    for _ in range(MEMORY_BISECTIONS):
        level = (low + high) / 2
        low, high = (level, high) if sum(needed(level)) <= memory else (low, level)
    parts = needed(low)
    # The binary search stops slightly short, by up to a tuple of a small memory.
    return [part * memory / sum(parts) for part in parts] if sum(parts) else parts


def proportional(needs: Sequence[float], memory: float) -> list[float]:
    """PROP, for comparison: each join gets the same share of its need."""
    share = min(1.0, memory / sum(needs))
    return [share * need for need in needs]


def _least(holds: Callable[[float], bool], most: float) -> float:
    """The smallest value up to ``most`` that satisfies a condition that holds from some value on."""
    low, high = 0.0, most
    for _ in range(MEMORY_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
