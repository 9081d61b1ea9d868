"""select: keeps the elements whose tuple satisfies every predicate. No synopsis.

Predicates that commute are pipelined filters, whose order adapts to the stream (thesis chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Chunk, Int64s, Pattern
from penstock.engine.evaluate import may_raise, true_mask
from penstock.engine.operator import Clock, Operator
from penstock.engine.operators._unary import Unary
from penstock.expression import Expression, columns
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
    def has_ids(self) -> bool:
        """If its input's do."""
        return self.input.has_ids

    def start(self) -> Operator:
        """Evaluates each predicate on what the ones before it left, in an order that adapts."""
        return _Select(self)


class _Select(Operator):
    """Predicates that cannot fail commute and go through StreaMon; the others follow as written.

    One that may fail on some row may be guarded by one before it (``b <> 0 AND a / b > 1``).
    """

    def __init__(self, node: Select) -> None:
        self._free = [c for c in node.conjuncts if not may_raise(c)]
        self._then = [c for c in node.conjuncts if may_raise(c)]
        self._filters = PipelinedFilters(len(self._free), node.filters)
        self._seen = self._kept = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        self._seen += len(chunk)
        if self._free and len(chunk):
            chunk = self._filtered(chunk)
        for conjunct in self._then:
            if len(chunk):
                chunk = chunk.where(np.asarray(true_mask(conjunct, chunk.mapping(), len(chunk))))
        self._kept += len(chunk)
        return chunk

    def _filtered(self, chunk: Chunk) -> Chunk:
        known = chunk.mapping()

        def passes(f: int, rows: Int64s) -> Bools:
            picks = pa.array(rows)
            some = {name: known[name].take(picks) for name in columns(self._free[f])}
            return np.asarray(true_mask(self._free[f], some, len(rows)))

        kept = self._filters.run(len(chunk), passes)
        return chunk if len(kept) == len(chunk) else chunk.take(kept)

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = {"in": self._seen, "out": self._kept}
        if len(self._free) > 1:
            names = [str(c) for c in self._free]
            found["orders"] = {"filters": [names[f] for f in self._filters.order]}
            found["streamon"] = {"filters": self._filters.metrics()}
        return found
