"""window-aggregate: groups whose rows enter and leave together, such as those of a window by its end.

The keys of a group determine the life of its rows, so that its own row has the same life: it enters with
them, and its end is known. A group is computed once, from the rows of one instant. Nothing is kept, and no −
elements come in or go out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Pattern, batch_of
from penstock.engine.kernels import directory as kernel
from penstock.engine.operator import Clock, Growth, Operator, StartContext
from penstock.engine.operators.aggregate import Aggregate
from penstock.engine.synopses.accumulators import Segments, accumulator
from penstock.engine.synopses.directory import Directory, one_zero


@dataclass(frozen=True)
class WindowAggregate(Aggregate):
    """Groups an input of known ends by ``keys`` that determine when a row enters and leaves."""

    name = "window-aggregate"

    @property
    def pattern(self) -> Pattern:
        return Pattern.EXPIRING

    @property
    def accumulates(self) -> bool:
        return False

    def growth(self) -> Iterator[Growth]:
        return iter(())

    def start(self, context: StartContext) -> Operator:
        return _WindowAggregate(self)


class _WindowAggregate(Operator):
    def __init__(self, node: WindowAggregate) -> None:
        self._node, self._schema, self._types = node, node.schema, node.input.schema

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        if not len(chunk):
            return Chunk.empty(self._schema)
        groups = Directory([self._types.field(k).type for k in self._node.keys])
        keys = [chunk.column(k) for k in self._node.keys]
        numbers = groups.assign(keys, len(chunk))
        bounds = np.r_[0, np.cumsum(np.bincount(numbers, minlength=len(groups)))]
        order = kernel.grouped(numbers, bounds)
        segments = Segments(bounds, np.arange(len(groups)), np.ones(len(chunk), np.int8))
        first = order[bounds[:-1]]
        columns = [*(one_zero(k.take(first)) for k in keys), *self._values(chunk, order, segments)]
        assert chunk.end is not None
        made = batch_of(columns, self._schema, len(first))
        return Chunk.of(chunk.ts[first], made, end=chunk.end[first]).in_order()

    def _values(self, chunk: Chunk, order: np.ndarray, segments: Segments) -> Iterator[pa.Array]:
        """Each function's value of every group."""
        for f in self._node.functions:
            types = [self._types.field(a).type for a in f.arguments]
            its = accumulator(f.function, types, f.type, True, f.constants, f.distinct, f.own)
            its.room_for(len(segments.groups))
            _, values = its.update(segments, *(chunk.column(a).take(order) for a in f.arguments))
            yield values
