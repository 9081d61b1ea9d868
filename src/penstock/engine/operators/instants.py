"""instants: marks the instants with input among the elements for a later stage. A system operator.

An RSTREAM in a second stage outputs the relation at every instant with input, and sees only what the first
stage sends. So each partition of that also sends the instants of its own rows, as elements of sign 0 without
values. The input manager of the second stage takes them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Pattern, batch_of
from penstock.engine.operator import Clock, Operator, StartContext, Unary


@dataclass(frozen=True)
class Instants(Unary):
    """Passes on its input, which has no known ends, and adds an element of sign 0 per instant."""

    name = "instants"

    @property
    def pattern(self) -> Pattern:
        return Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """Elements are in timestamp order."""
        return True

    @property
    def reads_instants(self) -> bool:
        return True

    def describe(self) -> str:
        return "with input, for the next stage"

    def start(self, context: StartContext) -> Operator:
        return _Instants(self)


class _Instants(Operator):
    def __init__(self, node: Instants) -> None:
        self._schema = node.schema

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        count = len(clock.instants)
        nothing = batch_of([pa.nulls(count, f.type) for f in self._schema], self._schema, count)
        marks = Chunk(clock.instants, np.zeros(count, np.int8), nothing)
        chunk = inputs[0]
        elements = Chunk(chunk.ts, chunk.sign, chunk.columns)
        return Chunk.concat([marks, elements], self._schema).in_order()
