"""r-stream: the whole relation at every instant of the query's clock.

The clock ticks at every tick of integer time, at every instant with input in TIMESTAMP time, or every
``every`` ticks (at multiples of it) if the query says so; from the query's first input on. The work follows
the changes of the relation and the tuples output, not the ticks: at a tick at which nothing is there nothing
is done.

If each tuple of known end is there for one instant only (``momentary``), it is output when it is found, as
the tuple alone determines its instant; nothing waits and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s, Pattern, batch_of
from penstock.engine.kernels.reporting import report
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Growth, Operator, StartContext, ToStream
from penstock.engine.settings import MIN_DIRECTORY_ENTRIES, MOST_RSTREAM_ROWS
from penstock.engine.snapshot import State
from penstock.engine.synopses.directory import Directory
from penstock.errors import DataError
from penstock.schema import TimeDomain

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class RStream(ToStream):
    """Relation stream. ``every`` None: at instants with input. ``time``: what a tick is, in words."""

    every: int | None = 1
    momentary: bool = False
    time: TimeDomain = field(default=TimeDomain(), repr=False, compare=False)

    name = "r-stream"

    def describe(self) -> str:
        if self.momentary:
            return "at once"
        if self.every is None:
            return "at every instant with input"
        return "at every tick" if self.every == 1 else f"every {self.time.length(self.every)}"

    @property
    def waits(self) -> bool:
        """R(τ) must be complete, unless each tuple is output by itself."""
        return not self.momentary

    @property
    def reads_instants(self) -> bool:
        """If they are its clock."""
        return self.every is None

    def growth(self) -> Iterator[Growth]:
        if self.input.accumulates:
            yield Growth(self.input, "every row")

    def start(self, context: StartContext) -> Operator:
        return _PassOn() if self.momentary else _RStream(self)


class _PassOn(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        return replace(inputs[0], end=None)


@dataclass(frozen=True)
class _Instants:
    """The clock's ticks within a step, as a list."""

    stamps: Int64s

    @property
    def count(self) -> int:
        return len(self.stamps)

    def before(self, ts: Int64s) -> Int64s:
        """How many ticks are before each timestamp."""
        return np.searchsorted(self.stamps, ts)

    def instants(self, positions: Int64s) -> Int64s:
        return self.stamps[positions]


@dataclass(frozen=True)
class _Grid:
    """The clock's ticks within a step: the multiples ``first .. stop`` of a period."""

    first: int
    stop: int
    period: int

    @property
    def count(self) -> int:
        return max(self.stop - self.first, 0)

    def before(self, ts: Int64s) -> Int64s:
        """How many ticks are before each timestamp."""
        return np.clip(-(-ts // self.period) - self.first, 0, self.count)

    def instants(self, positions: Int64s) -> Int64s:
        return (self.first + positions) * self.period


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
        ticks = self._ticks(clock)
        # Between two changes the relation stays as it is, for any number of ticks.
        changes = np.flatnonzero(np.r_[True, chunk.ts[1:] != chunk.ts[:-1]]) if len(chunk) else _NONE
        stops = np.r_[changes, len(chunk)]
        runs = np.r_[0, ticks.before(chunk.ts[changes]), ticks.count]
        total = self._total(chunk, stops, runs)
        at, rows = report(self._counts, numbers, chunk.sign, stops, runs, total)
        out = Chunk.of(ticks.instants(at), batch_of(self._directory.rows(rows), self._schema, len(rows)))
        self._tidy()
        return out

    def _ticks(self, clock: Clock) -> _Instants | _Grid:
        if clock.first is None:
            return _Instants(_NONE)
        if self._every is None:
            return _Instants(clock.instants)
        start = max(clock.before, clock.first) if clock.before != BEFORE_TIME else clock.first
        return _Grid(-(-start // self._every), -(-clock.now // self._every), self._every)

    def _total(self, chunk: Chunk, stops: Int64s, runs: Int64s) -> int:
        """The number of tuples to output."""
        there = int(self._counts.sum()) + np.r_[0, np.cumsum(chunk.sign, dtype=np.int64)][stops]
        # As floats: the product may exceed 64 bits.
        if float(there.astype(float) @ np.diff(runs)) > MOST_RSTREAM_ROWS:
            longest = int(np.argmax(np.where(there > 0, np.diff(runs), 0)))
            raise DataError(
                f"RSTREAM would output a relation of {there[longest]:,} rows at {np.diff(runs)[longest]:,} "
                f"ticks without a change; write EVERY after RSTREAM(...), as in EVERY 1 MINUTE"
            )
        return int(there @ np.diff(runs))

    def _tidy(self) -> None:
        """Remove tuples that have left once they are the majority."""
        here = np.flatnonzero(self._counts)
        if len(self._counts) > MIN_DIRECTORY_ENTRIES and 2 * len(here) < len(self._counts):
            self._keep(here)

    def _keep(self, here: Int64s) -> None:
        self._directory.keep(here)
        self._counts = self._counts[here]

    def state(self) -> dict[str, State]:
        """Without tuples that have left, and in an order that does not depend on when they came."""
        self._keep(self._directory.in_order(np.flatnonzero(self._counts)))
        return super().state()

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return int(self._counts.sum())

    def bytes(self) -> int:
        return self._directory.nbytes() + int(self._counts.nbytes)
