"""look-up: each row of a stream meets the tables once, when it arrives; no row of the stream is kept.

The inner join of a stream without window and tables is an mjoin with one passing input. This operator has its
relatives, of which the row's matches decide together: ``semi`` returns the rows that have a match, ``anti``
those that have none, ``outer`` each pair and, with NULLs for the tables' columns, the rows without a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, batch_of
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.synopses.store import Stores


@dataclass(frozen=True)
class LookUp(MJoin):
    """``kind`` is ``"semi"``, ``"anti"`` or ``"outer"``; one input passes, the others are tables."""

    kind: str = "outer"

    name = "look-up"

    def describe(self) -> str:
        return f"{self.kind} {super().describe()}"

    def start(self, context: StartContext) -> Operator:
        return _LookUp(self, context.stores)


class _LookUp(JoinOperator):
    def __init__(self, node: LookUp, stores: Stores) -> None:
        assert node.passing is not None
        super().__init__(node, stores)
        self._kind, self._passing = node.kind, node.passing

    def _join(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        for i in self._node.tables:
            self._change_table(i, inputs[i])
        rows, store = inputs[self._passing], self._inputs.stubs[self._passing].store
        found = self._pipeline(self._passing, self._inputs.insert(self._passing, rows))
        matched = np.zeros(len(rows), np.bool_)
        for tuples in found:
            matched[tuples.rows[self._passing] - (store.next - len(rows))] = True
        if self._kind == "outer":
            pairs = [self._chunk(t, t.starts, 1) for t in found]
            return Chunk.concat([*pairs, self._shown(rows.where(~matched))], self._schema)
        return self._shown(rows.where(matched if self._kind == "semi" else ~matched))

    def _change_table(self, i: int, chunk: Chunk) -> None:
        gone = chunk.where(chunk.sign < 0)
        _, there = self._inputs.end(i, gone)
        self._inputs.insert(i, chunk.where(chunk.sign > 0))
        self._inputs.end(i, gone.where(~there))

    def _shown(self, rows: Chunk) -> Chunk:
        """Rows of the stream with the output columns, NULL for those of the tables."""
        own, count = rows.mapping(), len(rows)
        columns = [own[f.name] if f.name in own else pa.nulls(count, f.type) for f in self._schema]
        return Chunk.of(rows.ts, batch_of(columns, self._schema, len(rows)))
