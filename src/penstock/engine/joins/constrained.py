"""The join of inputs that obey constraints: the same results from fewer rows (thesis chapter 6).

``k_mon`` decides which rows its stores keep. The stores of its windows are its own, so that it may drop rows
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s
from penstock.engine.joins.join_constraints import JoinConstraints
from penstock.engine.joins.k_mon import KMon
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.joins.tuples import Tuples
from penstock.engine.operator import Clock
from penstock.engine.synopses.store import Stores
from penstock.measurement import Reading

if TYPE_CHECKING:
    from penstock.engine.operators.mjoin import MJoin


class ConstrainedJoin(JoinOperator):
    """A running join with a retention policy by constraints."""

    saved = ("_inputs", "k_mon")

    def __init__(self, node: MJoin, stores: Stores, constraints: JoinConstraints) -> None:
        super().__init__(node, stores)
        self.k_mon = KMon(self._inputs, constraints, self._changing)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        parts = len(self._node.parts)
        self.k_mon.count(inputs[parts:])
        out = self._join(inputs[:parts], clock)
        self._inputs.advance(clock.now)
        self.k_mon.settle(clock)
        self._inputs.reconsider()
        self._results += len(out)
        return out

    def _probing(self, i: int, new: Int64s) -> Int64s:
        self.k_mon.arrived(i, new)
        return super()._probing(i, new)

    def _pipeline(self, i: int, rows: Int64s, min_ends: Sequence[int] | None = None) -> list[Tuples]:
        found = super()._pipeline(i, rows, min_ends)
        for tuples in found if min_ends is None else ():
            self.k_mon.found(tuples)
        return found

    def horizon(self) -> int:
        """What is kept depends on all rows before: a rebuild starts from a snapshot of it."""
        return int(BEFORE_TIME)

    def rows(self) -> int:
        return super().rows() + self.k_mon.rows()

    def bytes(self) -> int:
        return super().bytes() + self.k_mon.bytes()

    def measure(self) -> Iterator[Reading]:
        yield from super().measure()
        yield from self.k_mon.measure(self._node.labels)
