"""Heavy keys of a stream, found in a sample of its rows.

A Misra-Gries summary of at most ``HEAVY_COUNTERS`` values: a value in more than 1 / HEAVY_COUNTERS of the
sampled rows is in it, and its count is too low by at most that share. It shows skew between partitions; query
results do not depend on it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.streamon.settings import HEAVY_COUNTERS, HEAVY_PART, HEAVY_SAMPLE_ROWS

NULL = "NULL"
"""How a missing key is shown."""


class HeavyHitters:
    """The frequent values of one key."""

    def __init__(self) -> None:
        self._counts: dict[Any, float] = {}
        self._seen = 0.0

    def see(self, key: pa.Array) -> None:
        """Sample the rows of a batch; each sampled row stands for those up to the next."""
        if not len(key):
            return
        if pa.types.is_string(key.type):
            key = key.cast(pa.binary())  # strings may come that are no UTF-8
        step = -(-len(key) // HEAVY_SAMPLE_ROWS)
        some = key.take(pa.array(range(0, len(key), step))) if step > 1 else key
        weight = len(key) / len(some)
        for counted in pc.value_counts(some).to_pylist():
            value = counted["values"]
            self._counts[value] = self._counts.get(value, 0.0) + weight * counted["counts"]
        self._seen += len(key)
        self._forget()

    def _forget(self) -> None:
        """Subtract the largest surplus count from all, and remove values without a count."""
        if len(self._counts) > HEAVY_COUNTERS:
            least = sorted(self._counts.values(), reverse=True)[HEAVY_COUNTERS]
            self._counts = {v: n - least for v, n in self._counts.items() if n > least}

    def parts(self) -> dict[str, float]:
        """The values with more than ``HEAVY_PART`` of the rows, as text, with their shares."""
        if not self._seen:
            return {}
        found = {v: n / self._seen for v, n in self._counts.items() if n > HEAVY_PART * self._seen}
        return {_shown(v): round(part, 3) for v, part in sorted(found.items(), key=lambda f: -f[1])}


def _shown(value: Any) -> str:
    if value is None:
        return NULL
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
