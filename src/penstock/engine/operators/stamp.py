"""stamp: a stream's elements with their timestamps as a further column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.element import Chunk, batch_of
from penstock.engine.operator import Clock, Operator, StartContext, Unary


@dataclass(frozen=True)
class Stamp(Unary):
    """Adds the column ``column``, a BIGINT of ticks. The input has only + elements."""

    column: str

    name = "stamp"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, pa.field(self.column, pa.int64())])

    def describe(self) -> str:
        return self.column

    def start(self, context: StartContext) -> Operator:
        return _Stamp(self)


class _Stamp(Operator):
    def __init__(self, node: Stamp) -> None:
        self._schema = node.schema

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        columns = [*chunk.columns.columns, pa.array(chunk.ts)]
        return chunk.with_columns(batch_of(columns, self._schema, len(chunk)))
