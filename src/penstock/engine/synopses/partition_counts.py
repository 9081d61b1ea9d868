"""The partitions of a row window and the number of rows of each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.directory import Directory


class PartitionCounts(Stateful):
    """Counts rows per partition."""

    saved = ("_partitions", "_counts")

    def __init__(self, schema: pa.Schema, by: tuple[str, ...]) -> None:
        self._by = by
        self._partitions = Directory([schema.field(c).type for c in by])
        self._counts = np.zeros(1, np.int64)

    def assign(self, chunk: Chunk) -> tuple[Int64s, Int64s]:
        """Each row's partition, and the number of rows before it in that partition."""
        partitions = self._partitions.assign([chunk.column(c) for c in self._by], len(chunk))
        if len(self._partitions) > len(self._counts):
            grown = np.zeros(2 * len(self._partitions), np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown
        positions = self._counts[partitions] + _occurrence(partitions)
        np.add.at(self._counts, partitions, 1)
        return partitions, positions

    def state(self) -> dict[str, State]:
        """Without room for more."""
        return {**super().state(), "_counts": self._counts[: max(len(self._partitions), 1)]}

    def nbytes(self) -> int:
        return self._partitions.nbytes() + int(self._counts.nbytes)


def _occurrence(values: Int64s) -> Int64s:
    """The number of equal values before each value."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    run = np.arange(len(values)) - np.repeat(starts, np.diff(np.r_[starts, len(values)]))
    out = np.empty(len(values), np.int64)
    out[order] = run
    return out
