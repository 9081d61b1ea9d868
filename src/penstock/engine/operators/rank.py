"""rank: the rows of each group whose rank is within limits; the top k of a relation at every instant.

R(τ) in order (by the sort keys, then by all columns) gives each row its rank in its group: ROW_NUMBER, RANK
or DENSE_RANK. The output holds the rows with ``skip < rank <= last``, with their rank if it is shown. The
first k rows of a relation are those with ``row_number <= k`` of one group.

The order is kept over all rows, since any of them may move up when others leave. If rows only enter, those
behind ``last`` never come back, and are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s, Pattern, batch_of
from penstock.engine.kernels import fenwick, ranking
from penstock.engine.operator import Clock, Growth, Operator, StartContext, Unary
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.synopses.sorted_rows import SortedRows, SortKey

KINDS = {"row_number": ranking.ROW_NUMBER, "rank": ranking.RANK, "dense_rank": ranking.DENSE_RANK}


@dataclass(frozen=True)
class Rank(Unary):
    """Rows with ``skip < rank <= last`` (None: no limit) in their group; ``shown`` names the rank."""

    groups: tuple[str, ...]
    keys: tuple[SortKey, ...]
    kind: str = "row_number"
    skip: int = 0
    last: int | None = None
    shown: str | None = None

    name = "rank"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *([(self.shown, pa.int32())] if self.shown else [])])

    @property
    def pattern(self) -> Pattern:
        return Pattern.CHANGING

    @property
    def accumulates(self) -> bool:
        return self.input.accumulates and (bool(self.groups) or not self._bounded)

    @property
    def _bounded(self) -> bool:
        """Whether a group shows, and of rows that only enter keeps, a number of rows at most."""
        return self.kind == "row_number" and self.last is not None

    def growth(self) -> Iterator[Growth]:
        if not self.input.accumulates:
            return
        if self.last is None or self.input.pattern is not Pattern.APPEND:
            yield Growth(self.input, "every row")
        elif not self._bounded:
            yield Growth(self.input, f"each different row with {self.kind.upper()} up to {self.last}")
        elif self.groups:
            yield Growth(self.input, f"{self.last} rows of each {', '.join(self.groups)}", per_group=True)

    @property
    def waits(self) -> bool:
        """Ranks need all elements of an instant."""
        return True

    def describe(self) -> str:
        by = f"by {', '.join(self.groups)} " if self.groups else ""
        limits = f" > {self.skip}" * bool(self.skip) + f" <= {self.last}" * (self.last is not None)
        return f"{self.kind.upper()}{limits} {by}order {', '.join(map(str, self.keys))}"

    def start(self, context: StartContext) -> Operator:
        return _Rank(self)


class _Rank(Operator):
    saved = ("_sorted",)

    def __init__(self, node: Rank) -> None:
        self._node, self._schema = node, node.schema
        self._kind, self._last = KINDS[node.kind], ranking.NO_LIMIT if node.last is None else node.last
        self._grows = node.input.pattern is Pattern.APPEND
        self._sorted = SortedRows(node.input.schema, node.groups, node.keys)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0]
        if not len(chunk):
            return Chunk.empty(self._schema)
        numbers = self._sorted.assign(chunk.columns.columns, len(chunk))
        positions = np.empty(len(self._sorted), np.int64)
        positions[self._sorted.order] = np.arange(len(positions))
        out = self._changes(positions[numbers], chunk.ts, chunk.sign)
        np.add.at(self._sorted.counts, numbers, chunk.sign)
        self._tidy()
        return out

    def _changes(self, positions: Int64s, ts: Int64s, sign: np.ndarray) -> Chunk:
        group_starts = self._sorted.groups()
        groups = np.searchsorted(group_starts, positions, side="right") - 1
        order = np.lexsort((positions, ts, groups))
        positions, ts, groups = positions[order], ts[order], groups[order]
        first = np.flatnonzero(np.r_[True, (positions[1:] != positions[:-1]) | (ts[1:] != ts[:-1])])
        deltas = np.add.reduceat(sign[order].astype(np.int64), first)
        first, deltas = first[deltas != 0], deltas[deltas != 0]
        positions, ts, groups = positions[first], ts[first], groups[first]
        begins = np.flatnonzero(np.r_[True, (groups[1:] != groups[:-1]) | (ts[1:] != ts[:-1])][: len(ts)])
        counts = self._sorted.counts[self._sorted.order]
        found = ranking.changes(
            np.r_[begins, len(ts)], positions, deltas, group_starts, groups[begins],
            counts, fenwick.tree_of(counts), *self._classes(counts),
            self._kind, self._node.skip, self._last, self._node.shown is not None,
        )  # fmt: skip
        return self._chunk(ts[begins[found[:, 0]]], found)

    def _classes(self, counts: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """For each position its class; the classes' starts, counts, and the tree of those that have rows."""
        if self._kind == ranking.ROW_NUMBER:
            none = np.zeros(0, np.int64)
            return none, none, none, none
        starts = self._sorted.classes()
        of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        held = np.add.reduceat(counts, starts[:-1])
        return of, starts, held, fenwick.tree_of((held > 0).astype(np.int64))

    def _chunk(self, ts: Int64s, found: np.ndarray) -> Chunk:
        times = np.abs(found[:, 3])
        rows, sign = np.repeat(found[:, 1], times), np.repeat(np.sign(found[:, 3]), times).astype(np.int8)
        columns: list[pa.Array] = self._sorted.rows(rows)
        if self._node.shown is not None:
            columns.append(pa.array(np.repeat(found[:, 2] + 1, times), pa.int32()))
        return Chunk(np.repeat(ts, times), sign, batch_of(columns, self._schema, len(rows))).in_order()

    def _tidy(self) -> None:
        """Remove rows that are gone, or can never be shown again, once they are the majority."""
        if len(self._sorted) < COMPACT_ROWS:
            return
        counts = self._sorted.counts[self._sorted.order]
        here = np.flatnonzero((counts > 0) & (self._ranks(counts) < self._last if self._grows else True))
        if 2 * len(here) < len(counts):
            self._sorted.keep(here)

    def _ranks(self, counts: Int64s) -> Int64s:
        """The rank from 0 on of the first row at each position."""
        heads = np.arange(len(counts))
        if self._kind != ranking.ROW_NUMBER:
            of, starts, held, _ = self._classes(counts)
            heads = starts[of]
        if self._kind == ranking.DENSE_RANK:
            counts = np.zeros(len(counts), np.int64)
            counts[starts[:-1]] = held > 0
        before = np.cumsum(counts) - counts
        group_starts = self._sorted.groups()
        return before[heads] - np.repeat(before[group_starts[:-1]], np.diff(group_starts))

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return int(np.count_nonzero(self._sorted.counts))

    def bytes(self) -> int:
        return self._sorted.nbytes()
