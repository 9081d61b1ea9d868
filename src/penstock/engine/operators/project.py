"""project: duplicate-preserving projection. No synopsis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.engine.element import Chunk, batch_of
from penstock.engine.evaluate import evaluate
from penstock.engine.operator import Clock, Node, Operator, StartContext, Stored, Unary
from penstock.expression import Column, Expression, columns


@dataclass(frozen=True)
class Project(Unary):
    """Named expressions over one input."""

    columns: tuple[tuple[str, Expression], ...]

    name = "project"
    passes_on = True

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in self.columns])

    def describe(self) -> str:
        return ", ".join(str(e) if str(e) == name else f"{e} AS {name}" for name, e in self.columns)

    @property
    def renames(self) -> dict[str, str] | None:
        """Its columns mapped to input columns, if it only drops and renames columns."""
        plain = [(name, e.name) for name, e in self.columns if isinstance(e, Column)]
        return dict(plain) if len(plain) == len(self.columns) else None

    def columns_read(self, needed: set[str]) -> Iterator[set[str]]:
        yield set().union(*(columns(e) for _, e in self.columns))

    def unnamed(self) -> Node:
        return replace(self, columns=tuple((str(n), e) for n, (_, e) in enumerate(self.columns)))

    @property
    def stored(self) -> Stored | None:
        """The store of its input's rows, if it only renames."""
        there, renames = self.input.stored, self.renames
        if there is None or renames is None:
            return None
        names = dict(there.columns)
        return replace(there, columns=tuple((new, names[old]) for new, old in renames.items()))

    @property
    def has_ids(self) -> bool:
        return self.input.has_ids

    def start(self, context: StartContext) -> Operator:
        return _Project(self)


class _Project(Operator):
    def __init__(self, node: Project) -> None:
        self._node = node
        self._schema = node.schema

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        known = chunk.mapping()
        columns = [evaluate(e, known, len(chunk)) for _, e in self._node.columns]
        return chunk.with_columns(batch_of(columns, self._schema, len(chunk)))
