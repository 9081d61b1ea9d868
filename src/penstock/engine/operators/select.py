"""select: keeps the elements whose tuple satisfies every predicate. No synopsis.

Predicates commute, so they are pipelined filters, whose order adapts to the stream (thesis chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.engine.conjunction import Conjunction
from penstock.engine.element import Chunk
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.expression import Expression
from penstock.measurement import Reading


@dataclass(frozen=True)
class Select(Unary):
    """A conjunction of predicates over one input; ``filters`` is the algorithm that orders them."""

    conjuncts: tuple[Expression, ...]
    filters: str = field(default="a-greedy", repr=False)

    name = "select"
    passes_on = True

    def describe(self) -> str:
        return " AND ".join(str(c) for c in self.conjuncts)

    @property
    def adapts(self) -> bool:
        """Whether there is an order to change."""
        return len(self.conjuncts) > 1 and self.filters != "static"

    def details(self) -> Iterator[str]:
        if self.adapts:
            yield f"{self.filters} orders the filters while it runs"

    @property
    def has_ids(self) -> bool:
        return self.input.has_ids

    def start(self, context: StartContext) -> Operator:
        return _Select(self)


class _Select(Operator):
    def __init__(self, node: Select) -> None:
        self._conjunction = Conjunction(node.conjuncts, node.filters)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        kept = self._conjunction.rows(chunk)
        return chunk if len(kept) == len(chunk) else chunk.take(kept)

    def configure(self, knobs: Knobs) -> None:
        self._conjunction.configure(knobs)

    def measure(self) -> Iterator[Reading]:
        return self._conjunction.measure()
