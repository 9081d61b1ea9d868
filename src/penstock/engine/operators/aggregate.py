"""aggregate: grouping and aggregation, kept up to date change by change.

The output holds one row per group. At each instant at which a group's row changes it emits −old +new; a group
exists while it has rows. Without keys there is one group, and its row exists from the query's first input on,
even over no rows (COUNT 0, the others NULL).

The events of a step are sorted by group and instant; each accumulator then returns its value before and after
every (group, instant), and where any differs the change is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Bools, Chunk, Int64s, Pattern, batch_of
from penstock.engine.operator import Clock, Growth, Operator, StartContext, Unary
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.snapshot import State
from penstock.engine.synopses.accumulators import KEEPS_VALUES, Segments, accumulator
from penstock.engine.synopses.accumulators.base import extended
from penstock.engine.synopses.directory import Directory, same_rows
from penstock.expression import OwnAggregate


@dataclass(frozen=True)
class AggregateColumn:
    """A function of columns (none: of whole rows), and the name and type of its result."""

    name: str
    function: str
    arguments: tuple[str, ...]
    type: pa.DataType
    distinct: bool = False
    constants: tuple[Any, ...] = ()
    own: OwnAggregate | None = None

    def __str__(self) -> str:
        inside = ", ".join([*self.arguments, *map(repr, self.constants)]) or "*"
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{inside})"


@dataclass(frozen=True)
class Aggregate(Unary):
    """Groups its input by the ``keys`` columns; the schema is the keys, then the functions."""

    keys: tuple[str, ...]
    functions: tuple[AggregateColumn, ...]

    name = "aggregate"

    @property
    def schema(self) -> pa.Schema:
        keys = [self.input.schema.field(k) for k in self.keys]
        return pa.schema([*keys, *(pa.field(f.name, f.type) for f in self.functions)])

    @property
    def pattern(self) -> Pattern:
        return Pattern.CHANGING

    def describe(self) -> str:
        return ", ".join(map(str, self.functions)) + (f" by {', '.join(self.keys)}" if self.keys else "")

    @property
    def waits(self) -> bool:
        """A group's value needs all elements of an instant."""
        return True

    @property
    def accumulates(self) -> bool:
        return bool(self.keys) and self.input.accumulates

    def growth(self) -> Iterator[Growth]:
        if not self.input.accumulates:
            return
        for f in self.functions:
            if f.distinct or f.function in KEEPS_VALUES:
                yield Growth(self.input, f"each different {', '.join(f.arguments)}")
        if self.keys:
            yield Growth(self.input, f"one row for each {', '.join(self.keys)}", per_group=True)

    def start(self, context: StartContext) -> Operator:
        return _Aggregate(self)


class _Aggregate(Operator):
    saved = ("_groups", "_accumulators", "_counts", "_begun")

    def __init__(self, node: Aggregate) -> None:
        self._node = node
        self._schema = node.schema
        self._grows = node.input.pattern is Pattern.APPEND
        types = node.input.schema
        self._groups = Directory([types.field(k).type for k in node.keys])
        # The first counts rows, which decides whether a group exists.
        self._columns = (AggregateColumn("", "count", (), pa.int64()), *node.functions)
        self._accumulators = [
            accumulator(
                c.function, [types.field(a).type for a in c.arguments], c.type, self._grows, c.constants,
                c.distinct, c.own,
            )
            for c in self._columns
        ]  # fmt: skip
        self._counts = np.zeros(0, np.int64)
        self._held = 0
        """How many groups have rows."""
        self._begun = False

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = self._with_first_instant(inputs[0].in_order(), clock)
        if not len(chunk):
            return Chunk.empty(self._schema)
        numbers = self._groups.assign([chunk.column(k) for k in self._node.keys], len(chunk))
        order = np.argsort(numbers, kind="stable")
        ts, numbers = chunk.ts[order], numbers[order]
        starts = np.flatnonzero(np.r_[True, (numbers[1:] != numbers[:-1]) | (ts[1:] != ts[:-1])])
        segments = Segments(np.r_[starts, len(chunk)], numbers[starts], chunk.sign[order])
        picks = pa.array(order)
        arguments = {a: chunk.column(a).take(picks) for c in self._columns for a in c.arguments}
        return self._changes(arguments, segments, ts[starts])

    def _with_first_instant(self, chunk: Chunk, clock: Clock) -> Chunk:
        """Add an event without effect at the first instant, for the group that exists over no rows."""
        if self._node.keys or self._begun:
            return chunk
        begun = clock.first is not None and clock.first < clock.now
        if not (clock.tables if self._node.is_static else begun):
            return chunk
        self._begun = True
        first = BEFORE_TIME if self._node.is_static else clock.first
        columns = batch_of([pa.nulls(1, f.type) for f in chunk.columns.schema], chunk.columns.schema, 1)
        mark = Chunk(np.array([first], np.int64), np.zeros(1, np.int8), columns)
        plain = Chunk(chunk.ts, chunk.sign, chunk.columns)
        return Chunk.concat([mark, plain], chunk.columns.schema).in_order()

    def _changes(self, arguments: Mapping[str, pa.Array], segments: Segments, ts: Int64s) -> Chunk:
        before: list[pa.Array] = []
        after: list[pa.Array] = []
        for its, column in zip(self._accumulators, self._columns, strict=True):
            its.room_for(len(self._groups))
            old, new = its.update(segments, *(arguments[a] for a in column.arguments))
            before.append(old)
            after.append(new)
        existed, exists = self._existence(segments, before[0], after[0])
        changed = ~same_rows(before[1:], after[1:], len(ts))
        removed = existed & (changed | ~exists)
        added = exists & (changed | ~existed)
        out = self._shown(segments, ts, removed, added, before[1:], after[1:])
        self._note(segments, after[0])
        return out

    def _shown(
        self,
        segments: Segments,
        ts: Int64s,
        removed: Bools,
        added: Bools,
        before: list[pa.Array],
        after: list[pa.Array],
    ) -> Chunk:
        """In the order of time, for each segment −old then +new, where selected."""
        order = np.argsort(ts, kind="stable")
        wanted = np.flatnonzero(np.stack([removed[order], added[order]], axis=1).ravel())
        rows, is_new = order[wanted >> 1], wanted & 1
        picks = pa.array(rows + len(ts) * is_new)
        columns = self._groups.rows(segments.groups[rows])
        columns += [pa.concat_arrays([a, b]).take(picks) for a, b in zip(before, after, strict=True)]
        sign = (2 * is_new - 1).astype(np.int8)
        return Chunk(ts[rows], sign, batch_of(columns, self._schema, len(wanted)))

    def _existence(self, segments: Segments, before: pa.Array, after: pa.Array) -> tuple[Bools, Bools]:
        existed, exists = np.asarray(before) > 0, np.asarray(after) > 0
        if not self._node.keys:
            # One group: it exists from the second segment on, and earlier if it existed before this step.
            existed = np.ones(len(existed), np.bool_)
            existed[0] = len(self._counts) > 0
            exists = np.ones(len(exists), np.bool_)
        return existed, exists

    def _note(self, segments: Segments, after: pa.Array) -> None:
        """Record which groups have rows, and remove the empty ones once they are the majority."""
        self._counts = extended(self._counts, len(self._groups))
        lasts = np.flatnonzero(np.r_[segments.groups[1:] != segments.groups[:-1], True])
        groups, counts = segments.groups[lasts], np.asarray(after)[lasts]
        self._held += int(np.count_nonzero(counts)) - int(np.count_nonzero(self._counts[groups]))
        self._counts[groups] = counts
        known = len(self._groups)
        if self._node.keys and known > COMPACT_ROWS and 2 * self._held < known:
            self._keep(np.flatnonzero(self._counts))

    def _keep(self, here: Int64s) -> None:
        self._groups.keep(here)
        for its in self._accumulators:
            its.keep(here)
        self._counts = self._counts[here]

    def state(self) -> dict[str, State]:
        """Without empty groups and values that have left, and in an order that does not depend on when groups
        came.
        """
        if self._node.keys:
            self._keep(self._groups.in_order(np.flatnonzero(self._counts)))
        for its in self._accumulators:
            its.tidy()
        return super().state()

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._held = int(np.count_nonzero(self._counts))

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return self._held

    def bytes(self) -> int:
        return self._groups.nbytes() + sum(a.nbytes() for a in self._accumulators)
