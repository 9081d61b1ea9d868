"""since: what a query that was registered later sees of a relation that others read too.

A query sees only the rows from a given instant on, whatever it shares. Above a stream that is a filter on
timestamps. Above a window it passes the elements of rows that began by then, and the − elements of earlier
rows are dropped with them; operators above it read the window's store with the same bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engine.element import Chunk, Pattern
from penstock.engine.operator import Clock, Operator, StartContext, Stored, Unary
from penstock.engine.synopses.stub import Stub


@dataclass(frozen=True)
class Since(Unary):
    """The rows whose timestamp is at least ``instant``, of a stream or a window with a store."""

    instant: int

    name = "since"

    @property
    def has_ids(self) -> bool:
        return self.input.has_ids

    @property
    def stored(self) -> Stored | None:
        """The store of its input's rows, of which only the later ones are seen."""
        there = self.input.stored
        return None if there is None else replace(there, since=self.instant)

    def describe(self) -> str:
        return f"rows from {self.instant} on"

    def start(self, context: StartContext) -> Operator:
        return _SinceRow(self, context) if self.pattern is Pattern.CHANGING else _SinceTime(self)


class _SinceTime(Operator):
    """Every element is the beginning of a row."""

    def __init__(self, node: Since) -> None:
        self._instant = node.instant

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        return chunk.where(chunk.ts >= self._instant)


class _SinceRow(Operator):
    """Elements of both signs, which name the rows of the window's store."""

    saved = ("_stub",)

    def __init__(self, node: Since, context: StartContext) -> None:
        there = node.stored
        assert there is not None, "− elements of rows that are in no store"
        self._instant = node.instant
        self._stub = Stub(context.stores[there.store], {}, pane=there.pane)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if len(chunk):
            assert chunk.rows is not None
            self._stub.read(chunk.rows)
            chunk = chunk.where(self._stub.life(chunk.rows)[0] >= self._instant)
        self._stub.advance(clock.now)
        return chunk
