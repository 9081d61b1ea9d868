"""window-rank: ranks within groups whose rows enter and leave together, such as those of a window by its end.

The columns of a group determine the life of its rows, so that all of them are there when a group is ranked,
and none leaves before the others: a row that is shown keeps its rank and its end for its whole life. Nothing
is kept, and no − elements come in or go out.

Rows that others come before by the sort keys alone are dropped first: only what is left of them is compared
by all columns, where ties matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s, Pattern, batch_of
from penstock.engine.operator import Clock, Growth, Operator, StartContext
from penstock.engine.operators.rank import Rank
from penstock.engine.synopses.directory import Directory, one_zero
from penstock.engine.synopses.sorted_rows import SortKey, sort_codes


@dataclass(frozen=True)
class WindowRank(Rank):
    """Ranks an input of known ends by ``groups`` that determine when a row enters and leaves."""

    name = "window-rank"

    @property
    def pattern(self) -> Pattern:
        return Pattern.EXPIRING

    @property
    def accumulates(self) -> bool:
        return False

    def growth(self) -> Iterator[Growth]:
        return iter(())

    def start(self, context: StartContext) -> Operator:
        return _WindowRank(self)


class Order(NamedTuple):
    """Rows in order: their places, and for each where its group and the rows equal in the keys begin."""

    rows: Int64s
    group: Int64s
    alike: Int64s

    @staticmethod
    def of(groups: Int64s, codes: np.ndarray) -> Order:
        """By group, then by codes from left to right."""
        rows = np.lexsort([*codes.T[::-1], groups])
        groups, codes = groups[rows], codes[rows]
        new = np.r_[True, groups[1:] != groups[:-1]][: len(rows)]
        other = new | np.r_[True, (codes[1:] != codes[:-1]).any(axis=1)][: len(rows)]
        return Order(rows, _latest(new), _latest(other))

    def ranks(self, kind: str) -> Int64s:
        """The rank of each, from 0 on."""
        if kind == "dense_rank":
            classes = np.cumsum(self.alike == np.arange(len(self.rows)))
            return classes - classes[self.group]
        return (np.arange(len(self.rows)) if kind == "row_number" else self.alike) - self.group


def _latest(here: np.ndarray) -> Int64s:
    """For each place the last one up to it that is marked."""
    return np.maximum.accumulate(np.where(here, np.arange(len(here)), 0))


class _WindowRank(Operator):
    def __init__(self, node: WindowRank) -> None:
        self._node, self._schema, self._types = node, node.schema, node.input.schema
        first = {*node.groups, *(k.column for k in node.keys)}
        self._ties = tuple(SortKey(n) for n in self._types.names if n not in first)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if not len(chunk):
            return Chunk.empty(self._schema)
        groups = Directory([self._types.field(g).type for g in self._node.groups]).assign(
            [chunk.column(g) for g in self._node.groups], len(chunk)
        )
        node = self._node
        order = Order.of(groups, sort_codes(node.keys, chunk))
        if node.kind == "row_number":
            # Whichever of equal rows is first, no row is shown that has too many before it by the keys.
            rows = self._within(order, "rank", skip=0)[0]
            chunk, groups = chunk.take(rows), groups[rows]
            order = Order.of(groups, sort_codes((*node.keys, *self._ties), chunk))
        rows, ranks = self._within(order, node.kind, node.skip)
        columns = chunk.take(rows)
        shown = [pa.array(ranks + 1, pa.int32())] if node.shown is not None else []
        # Of rows that are equal but for the sign of a zero any may be first.
        values = map(one_zero, columns.columns.columns)
        made = batch_of([*values, *shown], self._schema, len(rows))
        assert columns.end is not None
        return Chunk.of(columns.ts, made, end=columns.end).in_order()

    def _within(self, order: Order, kind: str, skip: int) -> tuple[Int64s, Int64s]:
        """The rows with a rank within the limits, and their ranks."""
        ranks = order.ranks(kind)
        wanted = ranks >= skip
        if self._node.last is not None:
            wanted &= ranks < self._node.last
        return order.rows[wanted], ranks[wanted]
