"""The frequency-based model: each value has a fixed share of a stream (Srivastava and Widom, 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Frequencies:
    """One window of a join: its own shares f1 and the other stream's f2 by value, rates, and its length W."""

    own: Mapping[Any, float]
    other: Mapping[Any, float]
    rate: float
    other_rate: float
    window: float

    @cached_property
    def _shares(self) -> tuple[Floats, Floats]:
        """f1 and f2, the most frequent values of the other stream first."""
        there = (value for value, share in self.own.items() if share > 0)
        values = sorted(there, key=lambda v: -self.other.get(v, 0.0))
        own = np.array([self.own[v] for v in values], dtype=np.float64)
        return own, np.array([self.other.get(v, 0.0) for v in values], dtype=np.float64)

    def results_of(self, value: Any) -> float:
        """n(s): the results of a tuple with this value before it expires (equation 1)."""
        return self.other_rate * self.window * self.other.get(value, 0.0)

    @property
    def all_results(self) -> float:
        """Results per unit of time with the whole window."""
        own, other = self._shares
        return self.rate * self.other_rate * self.window * float(own @ other)

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        """The cumulative share of the window's tuples, and of all pairs, by value."""
        own, other = self._shares
        return np.append(0.0, np.cumsum(own)), np.append(0.0, np.cumsum(own * other))

    def result_rate(self, memory: float | Floats) -> Floats:
        """Results per unit of time if PROB keeps this many tuples (3.3), including a part of those of one
        value.
        """
        tuples, pairs = self._kept
        share = np.asarray(memory) / (self.rate * self.window)
        return self.rate * self.other_rate * self.window * np.interp(share, tuples, pairs)

    def recall(self, memory: float) -> float:
        """The share of this window's results that PROB finds with this memory."""
        return float(self.result_rate(memory)) / self.all_results if self.all_results else 1.0

    def sample_memory(self, fraction: float, margin: float = 0.0) -> float:
        """The expected number of tuples that a uniform sample of this fraction keeps (theorem 4.2).

        With ``margin`` each is kept for more results than expected, since results are random.
        """
        own, other = self._shares
        joins, q = self.other_rate * self.window * other, 1 - fraction
        with np.errstate(divide="ignore", invalid="ignore"):
            if not margin or not q:
                waiting = 1 - q * (1 - q**joins) / (fraction * joins)
            else:
                beyond = q ** (limit(joins, margin) - joins)
                waiting = 1 - beyond * (1 - q**joins) / (-np.log(q) * joins)
        kept = np.where(joins > 0, waiting, 0.0)
        return self.rate * self.window * float(own @ kept)


def limit(expected: Floats, margin: float) -> Floats:
    """The number of results up to which a tuple of a uniform sample is kept for its next sampled result."""
    return np.ceil(expected * (1 + margin) - 1e-9)
