"""Frequencies of values in small space: counts decay, and only the most frequent values are kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.approx.settings import COUNTED_FROM, COUNTED_VALUES
from penstock.engine.snapshot import Stateful

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Counts(Stateful):
    """Decaying counts of int64 keys."""

    saved = ("_keys", "_counts", "total")

    def __init__(self, values: int = COUNTED_VALUES) -> None:
        self._most = values
        self._keys: Int64s = np.empty(0, np.int64)
        self._counts: Floats = np.empty(0, np.float64)
        self.total = 0.0

    def see(self, keys: Int64s) -> None:
        """Count the keys of tuples."""
        if not len(keys):
            return
        new, counts = np.unique(keys, return_counts=True)
        every = np.concatenate([self._keys, new])
        order = np.argsort(every, kind="stable")
        every, weights = every[order], np.concatenate([self._counts, counts])[order]
        first = np.concatenate(([True], every[1:] != every[:-1]))
        self._keys = every[first]
        self._counts = np.add.reduceat(weights, np.flatnonzero(first)).astype(np.float64)
        self.total += len(keys)
        self._trim()

    def _trim(self) -> None:
        """Drop the least frequent values, half of the table at a time."""
        if len(self._keys) > 2 * self._most:
            kept = np.sort(np.argpartition(-self._counts, self._most)[: self._most])
            self._keys, self._counts = self._keys[kept], self._counts[kept]

    def decay(self, factor: float) -> None:
        """Decay the counts."""
        self._counts *= factor
        self.total *= factor
        if len(self._keys) and self._counts.min() < COUNTED_FROM:
            kept = self._counts >= COUNTED_FROM
            self._keys, self._counts = self._keys[kept], self._counts[kept]

    def shares(self, keys: Int64s) -> Floats:
        """The share of the stream with each key: 0 before any count; half a tuple for an unseen key."""
        if not len(self._keys):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._counts[at], 0.5) / max(self.total, 1.0)

    def arrays(self) -> tuple[Int64s, Floats]:
        """The counted keys, and the share of the stream of each."""
        return self._keys, self._counts / max(self.total, 1.0)

    def known(self) -> dict[int, float]:
        """The shares by key."""
        keys, parts = self.arrays()
        return dict(zip(keys.tolist(), parts.tolist(), strict=True))

    def nbytes(self) -> int:
        return self._keys.nbytes + self._counts.nbytes
