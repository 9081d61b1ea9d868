"""SUM and AVG from the results in a sample, with bounds: what ``plan.estimates`` lets queries compute."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Estimate:
    """A value, and how far away its bounds are; NaN if nothing is known."""

    value: float
    reach: float

    def holds(self, truth: float) -> bool:
        """Whether the truth is within the bounds."""
        return abs(self.value - truth) <= self.reach


@dataclass(frozen=True)
class Clusters:
    """Of each cluster in a sample the total, the count and the weight."""

    total: Floats
    count: Floats
    weight: Floats

    @staticmethod
    def of(values: Floats, weights: Floats, clusters: npt.NDArray[np.int64]) -> Clusters:
        """From the results in a sample."""
        _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
        return Clusters(np.bincount(cluster, values), np.bincount(cluster) * 1.0, weights[first])

    def sum(self) -> Estimate:
        """The sum over all results."""
        variance = float(self._spread @ self.total**2)
        return Estimate(float(self.weight @ self.total), student(self._effective) * variance**0.5)

    def average(self) -> Estimate:
        """The average of all results."""
        count, m = float(self.weight @ self.count), len(self.total)
        if not m:
            return Estimate(np.nan, np.nan)
        average = float(self.weight @ self.total) / count
        variance = float(self._spread @ (self.total - average * self.count) ** 2)
        few = m / (m - 1) if m > 1 else np.nan
        return Estimate(average, student(self._effective - 1) * (variance * few) ** 0.5 / count)

    @property
    def _spread(self) -> Floats:
        return self.weight * (self.weight - 1)

    @property
    def _effective(self) -> float:
        """The number of clusters, less where some of them matter more than others."""
        beyond = (self.weight - 1) * self.count
        return float(beyond.sum() ** 2 / max(beyond @ beyond, 1e-300))


def student(degrees: float) -> float:
    """The quantile of Student's t up to which 97.5 % lie (Cornish and Fisher's expansion)."""
    terms = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
    )
    return Z + sum(term / max(degrees, 1.0) ** k for k, term in enumerate(terms, 1))
