"""expire: makes the − elements of tuples whose end of life is known, for operators downstream that need them.

A system operator: the plan puts it between a relation of known ends and an operator that works on changes
(aggregate, d-stream, a changelog, a join with a row window). It reads the rows of a window from the window's
store, and keeps those of any other relation itself, by end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.element import Chunk, Pattern
from penstock.engine.operator import Clock, Operator, StartContext, Stored, Unary
from penstock.engine.synopses.expiry_queue import ExpiryQueue, StoredExpiry
from penstock.engine.synopses.stub import Stub


@dataclass(frozen=True)
class Expire(Unary):
    """Turns known ends into − elements. ``ids``: elements carry row ids, by which a join ends rows."""

    ids: bool = False

    name = "expire"
    passes_on = True

    @property
    def pattern(self) -> Pattern:
        return Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """− elements must be in timestamp order."""
        return True

    @property
    def has_ids(self) -> bool:
        return self.ids

    @property
    def stored(self) -> Stored | None:
        """The store of its input's rows."""
        return self.input.stored

    def start(self, context: StartContext) -> Operator:
        return _Expire(self, context)


class _Expire(Operator):
    saved = ("_living", "_arrived")

    def __init__(self, node: Expire, context: StartContext) -> None:
        self._ids, self._schema = node.ids, node.schema
        there = node.stored
        self._living: ExpiryQueue | StoredExpiry = ExpiryQueue(node.schema)
        if there is not None:
            read = dict(there.columns)
            stub = Stub(context.stores[there.store], read, longer=there.longer, since=there.since)
            self._living = StoredExpiry(stub, node.schema)
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
        # At the end that was known before, a correction takes back the − element that comes with it.
        gone = Chunk(due.end, -due.sign, due.columns, rid=due.rid, rows=due.rows)
        return Chunk.concat([born, gone], self._schema).in_order()

    def horizon(self) -> int:
        return self._living.oldest()

    def rows(self) -> int:
        return len(self._living)

    def bytes(self) -> int:
        return self._living.nbytes()
