"""identify: gives a relation's rows ids, so that a − element names the row that leaves. A system operator.

Rows of a window already have ids. In other relations a − element has only the values of the row; which of
several equal rows leaves does not matter, so the last one is taken. It also stands right above a declared
relation, where elements enter: a − element without a row is an error there, or is left out and counted, so
that every operator above sees a sound relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Pattern, batch_of
from penstock.engine.kernels.stacks import match
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.synopses.directory import Directory
from penstock.errors import DataError
from penstock.measurement import Property, Reading


@dataclass(frozen=True)
class Identify(Unary):
    """Adds row ids to elements, also as a column ``id`` if one is named.

    ``relation``: the declared relation that it stands above; ``skips``: whether − elements without a row are
    left out and counted.
    """

    id: str | None = None
    relation: str = field(default="", compare=False)
    skips: bool = field(default=False, compare=False)

    name = "identify"

    @property
    def schema(self) -> pa.Schema:
        return (
            self.input.schema if self.id is None else self.input.schema.append(pa.field(self.id, pa.int64()))
        )

    @property
    def waits(self) -> bool:
        """A row must arrive before it leaves."""
        return self.input.pattern is Pattern.CHANGING

    @property
    def has_ids(self) -> bool:
        return True

    def start(self, context: StartContext) -> Operator:
        return _Identify(self)


class _Identify(Operator):
    format = 2
    saved = ("_arrived", "_there", "_directory", "_tops", "_stack", "_free", "_skipped")

    def __init__(self, node: Identify) -> None:
        self._schema = node.schema
        self._shows = node.id is not None
        self._known = node.input.has_ids
        self._grows = node.input.pattern is Pattern.APPEND
        self._relation, self._skips = node.relation, node.skips
        self._arrived = self._there = self._skipped = 0
        self._directory = Directory([f.type for f in node.input.schema])
        self._tops = np.full(0, -1, np.int64)
        self._stack = np.zeros((0, 2), np.int64)
        self._free = np.full(1, -1, np.int64)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if not self._known:
            chunk = self._counted(chunk) if self._grows else self._matched(chunk)
        if not self._shows:
            return chunk
        rid = chunk.rid if chunk.rid is not None else np.empty(0, np.int64)
        return chunk.with_columns(batch_of([*chunk.columns.columns, pa.array(rid)], self._schema, len(chunk)))

    def _counted(self, chunk: Chunk) -> Chunk:
        ids = np.arange(self._arrived, self._arrived + len(chunk))
        self._arrived += len(chunk)
        return replace(chunk, rid=ids)

    def _matched(self, chunk: Chunk) -> Chunk:
        # Rows that enter at an instant come before those that leave at it: a row may do both.
        chunk = chunk.take(np.lexsort((-chunk.sign.astype(np.int64), chunk.ts)))
        numbers = self._directory.assign(chunk.columns.columns, len(chunk))
        entering = int((chunk.sign > 0).sum())
        self._make_room(entering)
        ids, missing = match(numbers, chunk.sign, self._tops, self._stack, self._free, self._arrived)
        if missing >= 0 and not self._skips:
            names = chunk.columns.schema.names
            row = {n.partition(".")[2] or n: chunk.column(n)[missing].as_py() for n in names}
            which = f"the relation {self._relation}".rstrip()
            raise DataError(
                f"an element at {chunk.ts[missing]} removes the row {row}, which is not in {which}"
            )
        found = ids >= 0
        self._skipped += int((~found).sum())
        self._arrived += entering
        self._there += 2 * entering - int(found.sum())
        self._tidy()
        return replace(chunk, rid=ids).where(found)

    def measure(self) -> Iterator[Reading]:
        if self._relation:
            yield Reading(Property.UNMATCHED, self._skipped)

    def _make_room(self, more: int) -> None:
        known = len(self._directory)
        if known > len(self._tops):
            self._tops = np.concatenate([self._tops, np.full(2 * known - len(self._tops), -1, np.int64)])
        if self._there + more <= len(self._stack):
            return
        grown = np.zeros((more + len(self._stack) // 2, 2), np.int64)
        spare = np.arange(len(self._stack), len(self._stack) + len(grown))
        # Spare places form a list through their second field.
        grown[:-1, 1], grown[-1, 1] = spare[1:], self._free[0]
        self._free[0] = spare[0]
        self._stack = np.concatenate([self._stack, grown])

    def _tidy(self) -> None:
        known = len(self._directory)
        here = np.flatnonzero(self._tops[:known] >= 0)
        if known > COMPACT_ROWS and 2 * len(here) < known:
            self._directory.keep(here)
            self._tops = self._tops[here]

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return 0

    def bytes(self) -> int:
        return self._directory.nbytes() + int(self._stack.nbytes + self._tops.nbytes)
