"""select: keeps the elements whose tuple satisfies every predicate. No synopsis.

Predicates commute, so they are pipelined filters, whose order adapts to the stream (thesis chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s, Pattern
from penstock.engine.operator import Clock, Operator
from penstock.engine.operators._predicates import Failed, Predicates, Read
from penstock.engine.operators._unary import Unary
from penstock.expression import Expression
from penstock.streamon.pipelined_filters import PipelinedFilters


@dataclass(frozen=True)
class Select(Unary):
    """A conjunction of predicates over one input; ``filters`` is the algorithm that orders them."""

    conjuncts: tuple[Expression, ...]
    filters: str = field(default="a-greedy", repr=False)

    name = "select"

    @property
    def pattern(self) -> Pattern:
        """Its input's."""
        return self.input.pattern

    def describe(self) -> str:
        """The predicates."""
        return " AND ".join(str(c) for c in self.conjuncts)

    @property
    def adapts(self) -> bool:
        """Whether there is an order to change."""
        return len(self.conjuncts) > 1 and self.filters != "static"

    @property
    def has_ids(self) -> bool:
        """If its input's do."""
        return self.input.has_ids

    def start(self) -> Operator:
        """Evaluates each predicate on what the ones before it left, in an order that adapts."""
        return _Select(self)


class _Select(Operator):
    def __init__(self, node: Select) -> None:
        self._node = node
        self._predicates = Predicates(node.conjuncts)
        self._filters = PipelinedFilters(len(node.conjuncts), node.filters)
        self._seen = self._kept = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        self._seen += len(chunk)
        if len(chunk):
            chunk = self._filtered(chunk)
        self._kept += len(chunk)
        return chunk

    def _filtered(self, chunk: Chunk) -> Chunk:
        def read(name: str, rows: Int64s) -> pa.Array:
            return chunk.column(name).take(pa.array(rows))

        kept = self._passing(len(chunk), read)
        if self._predicates.guarded and len(kept):
            kept = kept[self._predicates.passes_guarded(read, kept)]
        return chunk if len(kept) == len(chunk) else chunk.take(kept)

    def _passing(self, count: int, read: Read) -> Int64s:
        """Rows that every free predicate lets through."""
        while self._predicates.free:
            try:
                return self._filters.run(count, lambda f, rows: self._predicates.passes(f, read, rows))
            except Failed as failed:
                self._predicates.guard(failed.predicate)
                self._filters = PipelinedFilters(len(self._predicates.free), self._node.filters)
        return np.arange(count)

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = {"in": self._seen, "out": self._kept}
        if len(self._node.conjuncts) > 1:
            free, guarded = self._predicates.free, self._predicates.guarded
            order = [*(free[f] for f in self._filters.order), *guarded]
            found["orders"] = {"filters": [str(c) for c in order]}
            found["streamon"] = {"filters": self._filters.metrics([str(c) for c in free])}
        return found
