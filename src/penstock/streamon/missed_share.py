"""The share of a join's results that are missed while monitored constraints are wrong, from a sample of keys.

A result is in the sample if all its join keys are, each by its hash. So what is sampled are keys, and results
that share a key are seen together: they are clusters, and count for less than as many results that are drawn
one by one. The variance is therefore that between groups of keys. Results are counted by group, a hash of
their key modulo ``GROUPS``, for each class of keys: of N_g results in group g, X_g are missed; with R = X / N
the share in the sample, the variance is

    V = G / (G - 1) * sum over g of (X_g - R N_g)^2 / N^2

summed over the classes, less that of single results, R (1 - R) / N, for each class but one, which the sum has
several times. V is worth the same as that of R (1 - R) / V results drawn one by one, and Wilson's interval
for so many is that of the share. It also says how little is known where nothing was missed. Results of the
sample itself are never missed, so the share among all is smaller by the sampled part.

>>> seen = MissedShare(classes=1, sample=0.01)
>>> seen.see([np.arange(400)], np.arange(400) % 8 == 0)
>>> low, high = seen.interval()
>>> round(seen.share, 4), round(low, 3), round(high, 3)
(0.1237, 0.095, 0.16)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from penstock.engine.snapshot import Stateful
from penstock.streamon.settings import MISSED_GROUPS, MISSED_Z

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class MissedShare(Stateful):
    """Results of the sample and those of them that would have been missed, by group of keys."""

    saved = ("results", "missed", "_counts")

    def __init__(self, classes: int, sample: float) -> None:
        self.results = self.missed = 0
        self._sample = sample
        self._counts = np.zeros((classes, 2, MISSED_GROUPS), np.int64)

    def see(self, keys: Sequence[npt.NDArray[np.integer]], missed: Bools) -> None:
        """Results of the sample: for each class the hashes of their keys, and which of them are missed."""
        self.results += len(missed)
        self.missed += int(missed.sum())
        for counts, hashes in zip(self._counts, keys, strict=True):
            group = (hashes % MISSED_GROUPS).astype(np.int64)
            counts[0] += np.bincount(group, minlength=MISSED_GROUPS)
            counts[1] += np.bincount(group[missed], minlength=MISSED_GROUPS)

    @property
    def share(self) -> float:
        """The estimate."""
        return (1 - self._sample) * self.missed / max(self.results, 1)

    def interval(self) -> tuple[float, float]:
        """Bounds that have the share of all results with a probability of 95 %."""
        z2, part, n = MISSED_Z**2, self.missed / max(self.results, 1), self._worth()
        if not n:
            return 0.0, 1.0
        middle = (part + z2 / (2 * n)) / (1 + z2 / n)
        half = MISSED_Z * sqrt(part * (1 - part) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low, high = (
            min(max((1 - self._sample) * float(v), 0.0), 1.0) for v in (middle - half, middle + half)
        )
        return low, high

    def _worth(self) -> float:
        """How many results drawn one by one would tell as much."""
        part = self.missed / max(self.results, 1)
        single, rest = part * (1 - part), 1 - self._sample
        # As if all results of a group were missed together, or none.
        least = min((c[0].sum() ** 2 / max((c[0] ** 2).sum(), 1) for c in self._counts), default=0.0)
        if not single:
            return rest * float(least)
        apart = [
            ((c[1] - part * c[0]) ** 2).sum() * MISSED_GROUPS / (MISSED_GROUPS - 1) / self.results**2
            for c in self._counts
        ]
        variance = max(sum(apart) - (len(apart) - 1) * single / self.results, max(apart))
        return rest * min(single / max(variance, 1e-300), float(self.results))

    def nbytes(self) -> int:
        return self._counts.nbytes
