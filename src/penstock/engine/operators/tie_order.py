"""tie-order: a derived stream, the tuples of one instant in the order of their columns. A system operator.

The tuples that a join, an aggregate or a difference of bags yields for an instant have no order of arrival:
it would depend on the plan, on what was measured and on rebuilding. A row window over them must not, so it
takes them in the order of their columns, from the first one on, NULLs first and NaN last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.engine.ties import in_tie_order


@dataclass(frozen=True)
class TieOrder(Unary):
    """Passes on its input, in order."""

    name = "tie-order"

    @property
    def waits(self) -> bool:
        """All tuples of an instant must be there."""
        return True

    def describe(self) -> str:
        return "of equal timestamps, by columns"

    def start(self, context: StartContext) -> Operator:
        return _TieOrder()


class _TieOrder(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        return in_tie_order(chunk, chunk.columns.schema.names)
