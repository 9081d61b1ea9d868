"""A conjunction over the rows of chunks: pipelined filters in an order that adapts (thesis chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s
from penstock.engine.operators._predicates import Failed, Predicates, Read
from penstock.expression import Expression, columns
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.profiler import Evaluate


class _Kept:
    """Sampled rows of a chunk that are still there when the next chunks have come."""

    def __init__(self, chunk: Chunk, predicates: Predicates) -> None:
        self._chunk, self._predicates = chunk, predicates

    def take(self, rows: Int64s) -> dict[str, pa.Array]:
        """The columns that predicates read."""
        names = {name for predicate in self._predicates.free for name in columns(predicate)}
        return {name: self._chunk.column(name).take(pa.array(rows)) for name in names}

    def joined(self, parts: list[dict[str, pa.Array]]) -> Evaluate:
        """Which of all rows that were taken a predicate lets through."""
        whole = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}

        def read(name: str, rows: Int64s) -> pa.Array:
            return whole[name].take(pa.array(rows))

        return lambda f, rows: self._predicates.passes(f, read, rows)


class Conjunction:
    """Evaluates each predicate on what the ones before it left; ``algorithm`` orders them."""

    def __init__(self, conjuncts: Sequence[Expression], algorithm: str) -> None:
        self._algorithm = algorithm
        self._predicates = Predicates(conjuncts)
        self._filters = PipelinedFilters(len(conjuncts), algorithm)

    def rows(self, chunk: Chunk) -> Int64s:
        """The places of the rows for which every predicate is true."""

        def read(name: str, rows: Int64s) -> pa.Array:
            return chunk.column(name).take(pa.array(rows))

        kept = self._passing(len(chunk), read, _Kept(chunk, self._predicates))
        if self._predicates.guarded and len(kept):
            kept = kept[self._predicates.passes_guarded(read, kept)]
        return kept

    def _passing(self, count: int, read: Read, keep: _Kept) -> Int64s:
        """Rows that every free predicate lets through."""
        while self._predicates.free:
            try:
                return self._filters.run(
                    count, lambda f, rows: self._predicates.passes(f, read, rows), keep=keep
                )
            except Failed as failed:
                self._predicates.guard(failed.predicate)
                self._filters = PipelinedFilters(len(self._predicates.free), self._algorithm)
        return np.arange(count)

    def metrics(self) -> dict[str, Any]:
        """The order now and why, if there is one."""
        free, guarded = self._predicates.free, self._predicates.guarded
        if len(free) + len(guarded) < 2:
            return {}
        order = [*(free[f] for f in self._filters.order), *guarded]
        return {
            "orders": {"filters": [str(c) for c in order]},
            "streamon": {"filters": self._filters.metrics([str(c) for c in free])},
        }
