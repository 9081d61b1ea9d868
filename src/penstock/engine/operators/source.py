"""source: a leaf of the plan, into which the input manager puts arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Pattern, batch_of
from penstock.engine.operator import Clock, Node, Operator, StartContext


@dataclass(frozen=True)
class Source(Node):
    """An input of the stage, by name: a stream, a static table or an earlier stage's relation.

    ``of`` are the columns that are read; ``table``: whether it is a static table. ``grows``: whether its
    relation grows without end; ``revised``: whether ends are corrected. ``reader``: the one query of a
    pipeline that reads it here, if that shares nothing.
    """

    input: str
    of: pa.Schema
    changes: Pattern = Pattern.APPEND
    table: bool = False
    grows: bool = False
    revised: bool = False
    reader: str = ""

    name = "source"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> pa.Schema:
        return self.of

    @property
    def pattern(self) -> Pattern:
        return self.changes

    @cached_property
    def streams(self) -> frozenset[str]:
        return frozenset(() if self.table else (self.input,))

    @property
    def as_came(self) -> Source | None:
        return None if self.table else self

    @property
    def all_of(self) -> Source | None:
        return self.as_came

    def private(self, query: str) -> Node:
        return self if self.table else replace(self, reader=query)

    @property
    def is_static(self) -> bool:
        return self.table

    @property
    def accumulates(self) -> bool:
        return self.grows

    @property
    def corrects(self) -> bool:
        return self.revised

    def describe(self) -> str:
        return self.input

    def start(self, context: StartContext) -> Operator:
        return _Source(self)


class _Source(Operator):
    def __init__(self, node: Source) -> None:
        self._changing = node.changes is Pattern.CHANGING
        self._schema, self._names = node.schema, node.schema.names

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if chunk.columns.schema.names == self._names:
            return chunk
        # Other roots read other columns of the same input.
        columns = [chunk.column(name) for name in self._names]
        return chunk.with_columns(batch_of(columns, self._schema, len(chunk)))

    def horizon(self) -> int:
        """A relation's rows may leave at any time, so state above it may depend on all of them."""
        return int(BEFORE_TIME) if self._changing else super().horizon()
