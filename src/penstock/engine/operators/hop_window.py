"""hop-window: the rows of the last whole window of a fixed length, which moves on in hops.

A window begins at every multiple of ``hop`` and ends ``size`` later. With b the last end up to τ the
operator holds the tuples with timestamps in [b − size, b), and b − size and b are its bounds. If the hop is
the size it is a tumbling window. A tuple with timestamp s enters at the first end after s and leaves at the
first one after s + size: its life is known when it arrives.

The bounds of a window that hops by less than its size change while a tuple is in it. If they are read, the
tuple enters anew at every hop, with a life of one hop each time; the operator holds it once, until its last
hop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s, Pattern, batch_of
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.engine.synopses import pieces

Bounds = tuple[tuple[str, str], pa.DataType]
"""The names of the columns with a window's start and end, and their type."""


class BoundedWindow(Unary):
    """A window whose rows enter when it is complete, perhaps with its ``bounds`` as columns."""

    bounds: Bounds | None
    text: str

    @cached_property
    def schema(self) -> pa.Schema:
        return with_bounds(self.input.schema, self.bounds)

    @property
    def pattern(self) -> Pattern:
        return Pattern.EXPIRING

    def describe(self) -> str:
        return self.text

    @property
    def waits(self) -> bool:
        """A window is complete when time has passed its end."""
        return True

    @property
    def accumulates(self) -> bool:
        return False


@dataclass(frozen=True)
class HopWindow(BoundedWindow):
    """``size`` and ``hop`` in ticks. ``bounds``: the columns that it adds, if someone reads them."""

    size: int
    hop: int
    bounds: Bounds | None = None
    text: str = ""

    name = "hop-window"

    @property
    def lag(self) -> int:
        """A tuple waits for the end of its window, or of the last one that it enters anew."""
        return self.size if self.bounds else self.hop

    def start(self, context: StartContext) -> Operator:
        return _Hop(self)


class _Hop(Operator):
    """Tuples wait in pieces, with their next start as timestamp and the end of their last life."""

    saved = ("_waiting",)

    def __init__(self, node: HopWindow) -> None:
        self._size, self._hop = node.size, node.hop
        self._bounds, self._below, self._schema = node.bounds, node.input.schema, node.schema
        self._waiting: list[Chunk] = []

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        starts, ends = self._end_after(chunk.ts), self._end_after(chunk.ts + self._size)
        new = Chunk.of(starts, chunk.columns, end=ends)
        # A window that is over is taken out first: its pieces are not to be merged with tuples of the next.
        due = [c for c in self._waiting if c.ts.min() < clock.now]
        self._waiting = [c for c in self._waiting if c.ts.min() >= clock.now]
        if len(new) and new.ts.min() < clock.now:
            due.append(new)
        else:
            pieces.put(self._waiting, new, self._below)
        if not due:
            return Chunk.empty(self._schema)
        every = Chunk.concat(due, self._below)
        assert every.end is not None
        if self._size == self._hop and every.ts.max() < clock.now:
            return self._entering(every).in_order()  # of a tumbling window each tuple has one life
        lives = self._lives(every.ts, every.end, clock.now)
        left = replace(every, ts=every.ts + lives * self._hop if self._bounds else every.ts)
        later = left.where(left.ts < every.end if self._bounds else lives == 0)
        pieces.put(self._waiting, later, self._below)
        return self._entering(every, lives).in_order()

    def _end_after(self, ts: Int64s) -> Int64s:
        """The first end of a window after each timestamp."""
        offset = self._size % self._hop  # windows begin at multiples of the hop
        return ((ts - offset) // self._hop + 1) * self._hop + offset

    def _lives(self, starts: Int64s, ends: Int64s, now: int) -> Int64s:
        """How many lives of each tuple begin before ``now``."""
        if not self._bounds:
            return (starts < now).astype(np.int64)
        return np.maximum(-((starts - np.minimum(ends, now)) // self._hop), 0)

    def _entering(self, every: Chunk, lives: Int64s | None = None) -> Chunk:
        """The tuples as often as they have lives; each once if that is not said."""
        some, ts = every, every.ts
        if lives is not None and not (lives == 1).all():
            some = every.take(np.repeat(np.arange(len(every)), lives))
            ts = some.ts + (np.arange(len(some)) - np.repeat(np.cumsum(lives) - lives, lives)) * self._hop
        if self._bounds is None:
            return some
        return bounded(replace(some, ts=ts, end=ts + self._hop), self._schema, ts - self._size, ts)

    def pending(self) -> Sequence[Int64s]:
        return [c.ts for c in self._waiting]

    def horizon(self) -> int:
        return min((int(c.ts.min()) for c in self._waiting), default=super().horizon())

    def rows(self) -> int:
        return sum(map(len, self._waiting))

    def bytes(self) -> int:
        return pieces.nbytes(self._waiting)


def with_bounds(schema: pa.Schema, bounds: Bounds | None) -> pa.Schema:
    """A schema with the columns of a window's bounds after it."""
    names, kind = bounds or ((), None)
    return pa.schema([*schema, *(pa.field(name, kind) for name in names)])


def bounded(chunk: Chunk, schema: pa.Schema, starts: Int64s, ends: Int64s) -> Chunk:
    """A chunk with the bounds of its tuples' windows, which are the last columns of the schema."""
    kinds = [schema.field(i).type for i in (-2, -1)]
    stamps = [pa.array(a, pa.int64()).cast(kind) for a, kind in zip((starts, ends), kinds, strict=True)]
    return chunk.with_columns(batch_of([*chunk.columns.columns, *stamps], schema, len(chunk)))
