"""history and begin: a query that is registered later and sees rows from before (``WITH HISTORY``).

``history`` stands above a source. It has the rows that had arrived when the query was registered, from a
given instant on, and passes on what arrives since. ``begin`` stands below the root: what happened before the
query's first instant τ0 is shown as of τ0, so that the output is R(τ0), then its changes.

Both act in the slice that completes τ0: before it nothing is released, and then all changes up to τ0 are in
one chunk, where they cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.element import FOREVER, Chunk
from penstock.engine.operator import Clock, Node, Operator, Shows, StartContext, Unary, with_inputs
from penstock.engine.operators.source import Source


@dataclass(frozen=True)
class History(Unary):
    """The rows of a stream since ``instant``, those before ``begin`` too, as one query sees them."""

    input: Source
    instant: int
    begin: int
    query: str

    name = "history"

    def describe(self) -> str:
        return f"rows from {self.instant} on"

    def start(self, context: StartContext) -> Operator:
        kept = context.history.pop((self.query, self.input.input), None)
        return _History(self, Chunk.empty(self.schema) if kept is None else kept)


class _History(Operator):
    """Holds the rows that had arrived until their instants are complete."""

    saved = ("_kept",)

    def __init__(self, node: History, kept: Chunk) -> None:
        self._instant, self._begin, self._schema = node.instant, node.begin, node.schema
        self._kept = kept

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        chunk = chunk.where(chunk.ts >= self._instant)
        if not len(self._kept) or clock.now <= self._begin:
            return chunk
        due = self._kept.ts < clock.now
        found = self._kept.where(due)
        self._kept = self._kept.where(~due)
        return Chunk.concat([found, chunk], self._schema).in_order()

    def horizon(self) -> int:
        return int(self._kept.ts.min()) if len(self._kept) else int(FOREVER)

    def rows(self) -> int:
        return len(self._kept)

    def bytes(self) -> int:
        return self._kept.columns.nbytes + 9 * len(self._kept)


@dataclass(frozen=True)
class Begin(Unary):
    """A relation as a query sees it whose first instant is ``instant``."""

    instant: int

    name = "begin"

    @property
    def has_ids(self) -> bool:
        return self.input.has_ids

    def describe(self) -> str:
        return f"at {self.instant}"

    def start(self, context: StartContext) -> Operator:
        return _Begin(self)


class _Begin(Operator):
    def __init__(self, node: Begin) -> None:
        self._instant = node.instant

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if not len(chunk) or chunk.ts.min() >= self._instant:
            return chunk
        shown = replace(chunk, ts=np.maximum(chunk.ts, self._instant))
        return shown if shown.end is None else shown.where(shown.end > self._instant)


def begun(node: Node, instant: int) -> Node:
    """A plan whose result begins at an instant, with all that is there then."""
    if isinstance(node, Shows):
        return replace(node, input=Begin(node.input, instant))
    return with_inputs(node, lambda i: begun(i, instant))
