"""Streams for measuring joins: uniform keys from a domain sized for a known number of matches per row.

Each stream has the columns ``k BIGINT`` (the join key), ``v INT`` (the row's number in its stream, so that no
two results are equal) and ``ts TIMESTAMP``, evenly spaced; wide ones also strings ``s0``, ``s1``, ...  A
slice is what one micro-batch reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

_WORDS = pa.array([f"a string of some length, number {n}" for n in range(1000)])

HEAVY_KEY = 0
"""The key with most rows, in a workload that has one."""


@dataclass(frozen=True)
class JoinWorkload:
    """``streams`` streams that are joined on ``k`` over windows of ``window_seconds``.

    ``rows`` is the number of rows of all streams together in a slice of ``slice_seconds``. An arriving row
    finds ``matches`` rows, on average, in the window of each other stream, and carries ``strings`` strings.
    Of the first stream the part ``heavy`` of the rows has one key; of the others so many rows in every slice
    have it that each of those finds ``heavy_matches``.
    """

    streams: int = 2
    rows: int = 400_000
    slice_seconds: float = 10.0
    window_seconds: float = 10.0
    matches: float = 0.5
    strings: int = 0
    heavy: float = 0.0
    heavy_matches: int = 1
    seed: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """A, B, C, ..."""
        return tuple("ABCDEFGH"[: self.streams])

    @property
    def schema(self) -> pa.Schema:
        narrow = [("k", pa.int64()), ("v", pa.int32()), ("ts", TIMESTAMP)]
        return pa.schema(narrow + [(f"s{n}", pa.string()) for n in range(self.strings)])

    @property
    def ddl(self) -> str:
        """The columns of each stream, for Spark."""
        return ", ".join(["k BIGINT, v INT, ts TIMESTAMP", *(f"s{n} STRING" for n in range(self.strings))])

    @property
    def payload(self) -> list[str]:
        """The columns that a result has of each stream, beside the key that all share."""
        return [name for name in self.schema.names if name != "k"]

    @property
    def rows_per_stream(self) -> int:
        """Rows of one stream in a slice."""
        return self.rows // self.streams

    @property
    def window_rows(self) -> int:
        """Rows of one stream in its window."""
        return round(self.rows_per_stream * self.window_seconds / self.slice_seconds)

    @property
    def keys(self) -> int:
        return max(1, round(self.window_rows / self.matches))

    def slice(self, number: int) -> dict[str, pa.Table]:
        """The rows of every stream in one slice; the same for the same seed and number."""
        return {name: self._table(i, number) for i, name in enumerate(self.names)}

    def slices(self, count: int, first: int = 0) -> Iterator[dict[str, pa.Table]]:
        return (self.slice(n) for n in range(first, first + count))

    def _heavy_rows(self) -> np.ndarray:
        """Evenly spaced."""
        part = self.slice_seconds / self.window_seconds
        each = max(1, round(self.heavy_matches * part))
        return np.arange(each) * self.rows_per_stream // each + self.rows_per_stream // (2 * each)

    def _table(self, stream: int, number: int) -> pa.Table:
        count = self.rows_per_stream
        rng = np.random.default_rng((self.seed, stream, number))
        key = rng.integers(0, self.keys, count, dtype=np.int64)
        if self.heavy:
            key[key == HEAVY_KEY] += 1
            key[rng.random(count) < self.heavy if stream == 0 else self._heavy_rows()] = HEAVY_KEY
        row = np.arange(number * count, (number + 1) * count, dtype=np.int64)
        # Evenly spaced over the slice, each stream shifted by a part of the gap: ties are for the tests.
        gap = self.slice_seconds * MICROS / count
        ts = EPOCH + np.floor((row + stream / self.streams) * gap).astype(np.int64)
        strings = [_WORDS.take(pa.array(rng.integers(0, len(_WORDS), count))) for _ in range(self.strings)]
        numbers = [pa.array(key), pa.array(row.astype(np.int32)), pa.array(ts).cast(TIMESTAMP)]
        return pa.table([*numbers, *strings], schema=self.schema)
