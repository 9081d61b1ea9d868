"""The age-based model: the results of a tuple of a window by its age (Srivastava and Widom, 2.2).

For joins whose values change over time, such as bids on open auctions: results depend on a tuple's age, not
on its value. Ages are counted in steps of equal length, from 1; rates are tuples per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgeCurve:
    """``results[k - 1]`` is p(k): the results of a tuple between the ages of k - 1 and k."""

    results: tuple[float, ...]

    @property
    def window(self) -> int:
        """The age at which a tuple expires, W."""
        return len(self.results)

    @cached_property
    def cumulative(self) -> Floats:
        """C(k) for k = 0 ... W: the results by age k."""
        return np.concatenate(([0.0], np.cumsum(self.results)))

    @property
    def total(self) -> float:
        """n: the results of a tuple that is kept until it expires."""
        return float(self.cumulative[-1])

    @cached_property
    def best_age(self) -> int:
        """k_opt: the age up to which a tuple has the most results per step."""
        ages = np.arange(1, self.window + 1)
        return int(ages[np.argmax(self.cumulative[1:] / ages)])

    @cached_property
    def priorities(self) -> Floats:
        """For each age 0 ... W: the highest rate of results that a tuple can still reach (3.2.1)."""
        c, last = self.cumulative, self.window
        found = np.zeros(last + 1)
        for age in range(last):
            found[age] = ((c[age + 1 :] - c[age]) / np.arange(1, last - age + 1)).max()
        return found

    def result_rate(self, memory: float | Floats, rate: float) -> Floats:
        """Results per step for each given number of tuples in memory (equation 3)."""
        age, best = np.asarray(memory) / rate, self.best_age
        return np.where(age <= best, rate * age * self.cumulative[best] / best, rate * self.at(age))[()]

    def recall(self, memory: float, rate: float) -> float:
        """The share of this window's results that AGE finds with this memory."""
        return float(self.result_rate(memory, rate) / (rate * self.total)) if self.total else 1.0

    def at(self, age: Floats) -> Floats:
        """C at any age, with linear interpolation."""
        return np.interp(age, np.arange(self.window + 1), self.cumulative)

    def age_of(self, count: int) -> int:
        """The inverse of C: the smallest age by which a tuple has this many results."""
        return int(np.searchsorted(self.cumulative, count - 1e-9))

    def sample_memory(self, fraction: float, rate: float, margin: float = 0.0) -> float:
        """The expected number of tuples that a uniform sample of this fraction keeps (theorem 4.3).

        With ``margin`` each is kept for more results than expected, since results are random.
        """
        if margin:
            given = (self.cumulative[1:] + self.cumulative[:-1]) / 2
            return rate * float(
                np.sum(1 - (1 - fraction) ** (np.ceil(self.total * (1 + margin) - 1e-9) - given))
            )
        n = round(self.total)
        counts = np.arange(1, n + 1)
        ages = np.array([self.age_of(int(i)) for i in counts], dtype=np.float64)
        return rate * float(np.sum(fraction * (1 - fraction) ** (n - counts) * ages))
