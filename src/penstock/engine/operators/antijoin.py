"""antijoin: rows of the left input while they have no match; semijoin: while they have one.

The left input's rows carry a number in column ``id``; the matches are a join's output, of which only that
column counts. A left row is in the output at the instants at which it exists and has no match (semijoin:
some), which follows from its two counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s, Pattern
from penstock.engine.operator import Clock, Growth, Node, Operator, StartContext
from penstock.engine.operators.bag import CountingOperator
from penstock.engine.synopses.bags import Bags, Events
from penstock.engine.synopses.directory import Directory


@dataclass(frozen=True)
class Antijoin(Node):
    """``left`` rows without (``anti``) or with a match among ``matches``, identified by column ``id``."""

    left: Node
    matches: Node
    id: str
    anti: bool = True

    name = "antijoin"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.matches)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([f for f in self.left.schema if f.name != self.id])

    @property
    def pattern(self) -> Pattern:
        """A row leaves when its first match arrives; in a semijoin with its last."""
        grows = all(i.pattern is Pattern.APPEND for i in self.inputs) and not self.anti
        return Pattern.APPEND if grows else Pattern.CHANGING

    @property
    def accumulates(self) -> bool:
        return self.left.accumulates

    def growth(self) -> Iterator[Growth]:
        if self.left.accumulates:
            yield Growth(self.left, "every row")

    @property
    def waits(self) -> bool:
        """Counts need all elements of an instant."""
        return True

    def describe(self) -> str:
        return "" if self.anti else "semijoin"

    def multiplicity(self, counts: np.ndarray) -> Int64s:
        """Once, while the row exists and has no (has a) match."""
        matched = counts[:, 1] > 0
        return ((counts[:, 0] > 0) & (matched != self.anti)).astype(np.int64)

    def start(self, context: StartContext) -> Operator:
        return _Antijoin(self)


class _Antijoin(CountingOperator):
    def __init__(self, node: Antijoin) -> None:
        self._id = node.id
        directory = Directory([pa.int64()], [f.type for f in node.schema])
        super().__init__(node, Bags(directory, 2, node.multiplicity))

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        left, matches = inputs
        assign = self._bags.directory.assign
        payload = [left.column(f.name) for f in self._schema]
        rows = Events(assign([left.column(self._id), *payload], len(left)), left.ts, 0, left.sign)
        # A match's row is already known, so the values beside its number are never read.
        nothing = [pa.nulls(len(matches), f.type) for f in self._schema]
        numbers = assign([matches.column(self._id), *nothing], len(matches))
        pairs = Events(numbers, matches.ts, 1, matches.sign)
        return self._bags.apply([rows, pairs], self._schema, slice(1, None))
