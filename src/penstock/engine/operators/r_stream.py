"""r-stream: the whole relation at every instant of the query's clock.

The clock ticks at every tick of integer time, at every instant with input in TIMESTAMP time, or every
``every`` ticks (at multiples of it) if the query says so; from the query's first input on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s, Pattern, batch_of
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Growth, Operator, StartContext, Unary
from penstock.engine.synopses.directory import Directory


@dataclass(frozen=True)
class RStream(Unary):
    """Relation stream. ``every`` None: at instants with input."""

    every: int | None = 1

    name = "r-stream"

    @property
    def pattern(self) -> Pattern:
        return Pattern.APPEND

    def describe(self) -> str:
        if self.every is None:
            return "at every instant with input"
        return "at every tick" if self.every == 1 else f"every {self.every} ticks"

    @property
    def waits(self) -> bool:
        """R(τ) must be complete."""
        return True

    @property
    def reads_instants(self) -> bool:
        """If they are its clock."""
        return self.every is None

    @property
    def depends_on_past(self) -> bool:
        """Tuples output at a tick may be gone at the next."""
        return True

    @property
    def accumulates(self) -> bool:
        return True

    def growth(self) -> Iterator[Growth]:
        if self.input.accumulates:
            yield Growth(self.input, "every row")

    def start(self, context: StartContext) -> Operator:
        return _RStream(self)


class _RStream(Operator):
    saved = ("_directory", "_counts")

    def __init__(self, node: RStream) -> None:
        self._every = node.every
        self._schema = node.schema
        self._grows = node.input.pattern is Pattern.APPEND
        self._directory = Directory([f.type for f in node.schema])
        self._counts = np.zeros(0, np.int64)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = settled(inputs[0], clock)
        numbers = self._directory.assign(chunk.columns.columns, len(chunk))
        self._counts = np.r_[self._counts, np.zeros(len(self._directory) - len(self._counts), np.int64)]
        stamps, parts, at = [], [], 0
        for tick in self._ticks(clock):
            upto = int(np.searchsorted(chunk.ts, tick, side="right"))
            self._apply(numbers[at:upto], chunk.sign[at:upto])
            at = upto
            present = np.repeat(np.arange(len(self._counts)), self._counts)
            stamps.append(np.full(len(present), tick, np.int64))
            parts.append(present)
        self._apply(numbers[at:], chunk.sign[at:])
        out = self._chunk(stamps, parts)
        self._tidy()
        return out

    def _ticks(self, clock: Clock) -> Int64s:
        if clock.first is None:
            return np.empty(0, np.int64)
        if self._every is None:
            return clock.instants
        start = max(clock.before, clock.first) if clock.before != BEFORE_TIME else clock.first
        return np.arange(-(-start // self._every) * self._every, clock.now, self._every)

    def _apply(self, numbers: Int64s, sign: np.ndarray) -> None:
        np.add.at(self._counts, numbers, sign)

    def _chunk(self, stamps: list[Int64s], parts: list[Int64s]) -> Chunk:
        if not parts:
            return Chunk.empty(self._schema)
        rows = np.concatenate(parts)
        columns: list[pa.Array] = self._directory.rows(rows)
        return Chunk.of(np.concatenate(stamps), batch_of(columns, self._schema, len(rows)))

    def _tidy(self) -> None:
        """Remove tuples that have left once they are the majority."""
        here = np.flatnonzero(self._counts)
        if len(self._counts) > 256 and 2 * len(here) < len(self._counts):
            self._directory.keep(here)
            self._counts = self._counts[here]

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return int(self._counts.sum())

    def bytes(self) -> int:
        return self._directory.nbytes() + int(self._counts.nbytes)
