"""expire: makes the − elements of tuples whose end of life is known, where someone downstream needs them.

A system operator: the plan puts it between a relation of known ends and an operator that works on changes
(aggregate, d-stream, a changelog, a join with a row window). Its synopsis holds the living tuples by end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.element import Chunk, Pattern
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.engine.synopses.expiry_queue import ExpiryQueue


@dataclass(frozen=True)
class Expire(Unary):
    """From known ends to − elements. ``ids``: give elements row ids, for a join that ends rows by them."""

    ids: bool = False

    name = "expire"

    @property
    def pattern(self) -> Pattern:
        """Changes."""
        return Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """A − element has its place in time."""
        return True

    @property
    def has_ids(self) -> bool:
        """If asked to."""
        return self.ids

    def start(self, context: StartContext) -> Operator:
        """With nobody alive."""
        return _Expire(self)


class _Expire(Operator):
    saved = ("_living", "_arrived")

    def __init__(self, node: Expire) -> None:
        self._ids = node.ids
        self._schema = node.schema
        self._living = ExpiryQueue(node.schema)
        self._arrived = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if self._ids:
            ids = np.arange(self._arrived, self._arrived + len(chunk))
            self._arrived += len(chunk)
            chunk = replace(chunk, rid=ids)
        self._living.push(chunk)
        due = self._living.pop(clock.now)
        born = replace(chunk, end=None)
        if not len(due):
            return born.in_order()
        assert due.end is not None
        gone = Chunk(due.end, np.full(len(due), -1, np.int8), due.columns, rid=due.rid)
        return Chunk.concat([born, gone], self._schema).in_order()

    def horizon(self) -> int:
        return self._living.oldest()

    def rows(self) -> int:
        return len(self._living)

    def bytes(self) -> int:
        return self._living.nbytes()
