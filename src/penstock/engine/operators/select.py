"""select: keeps the elements whose tuple satisfies every predicate. No synopsis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Chunk, Pattern
from penstock.engine.evaluate import true_mask
from penstock.engine.operator import Clock, Operator
from penstock.engine.operators._unary import Unary
from penstock.expression import Expression


@dataclass(frozen=True)
class Select(Unary):
    """A conjunction of predicates over one input."""

    conjuncts: tuple[Expression, ...]

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
        """Evaluates each predicate on what the ones before it left."""
        return _Select(self)


class _Select(Operator):
    def __init__(self, node: Select) -> None:
        self._node = node
        self._seen = self._kept = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        self._seen += len(chunk)
        for conjunct in self._node.conjuncts:
            if len(chunk):
                chunk = chunk.where(np.asarray(true_mask(conjunct, chunk.mapping(), len(chunk))))
        self._kept += len(chunk)
        return chunk

    def metrics(self) -> dict[str, int]:
        return {"in": self._seen, "out": self._kept}
