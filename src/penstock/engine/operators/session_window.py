"""session-window: the rows of a session, at the instant at which it ends.

Consecutive rows of a key that are less than ``gap`` apart are one session. Its bounds are the timestamp of
its first row, and that of its last row plus the gap. Its rows are in the relation at the instant of its end
and at no other. A session is over when time has passed its end: until then its rows wait, and afterwards
nothing is left of it, nor of a key that has no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s
from penstock.engine.kernels.sessions import assign
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.hop_window import BoundedWindow, Bounds, bounded
from penstock.engine.settings import MIN_SESSIONS
from penstock.engine.snapshot import State
from penstock.engine.synopses import pieces
from penstock.engine.synopses.directory import Directory


@dataclass(frozen=True)
class SessionWindow(BoundedWindow):
    """``gap`` in ticks. ``bounds``: the columns that it adds, if someone reads them."""

    gap: int
    partition_by: tuple[str, ...] = ()
    bounds: Bounds | None = None
    text: str = ""

    name = "session-window"

    @property
    def ends_within(self) -> int:
        return self.gap

    def start(self, context: StartContext) -> Operator:
        return _Session(self)


class _Session(Operator):
    """Rows wait in pieces, with the number of their session as row id, -1 once they are output.

    Of a session that is over its number stays until the instant after its end is over too: until then
    operators above may hold its rows, so a rebuild needs its first row.
    """

    saved = ("_keys", "_current", "_starts", "_ends", "_over", "_waiting", "_oldest")

    def __init__(self, node: SessionWindow) -> None:
        self._gap, self._by = node.gap, node.partition_by
        self._bounds, self._below, self._schema = node.bounds, node.input.schema, node.schema
        self._keys = Directory([node.input.schema.field(c).type for c in node.partition_by])
        self._current = np.empty(0, np.int64)
        self._starts, self._ends = np.empty(0, np.int64), np.empty(0, np.int64)
        self._over = np.empty(0, np.bool_)
        self._waiting: list[Chunk] = []
        self._oldest = int(FOREVER)
        self._now = int(BEFORE_TIME)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        rows = Chunk(chunk.ts, chunk.sign, chunk.columns, rid=self._sessions(chunk))
        pieces.put(self._waiting, rows, self._below)
        ending = ~self._over & (self._ends < clock.now)
        self._over |= ending
        out = self._output(ending)
        self._forget(clock.now)
        return out

    def _sessions(self, chunk: Chunk) -> Int64s:
        """The session of each row."""
        keys = self._keys.assign([chunk.column(c) for c in self._by], len(chunk))
        current = np.r_[self._current, np.full(len(self._keys) - len(self._current), -1, np.int64)]
        room = np.zeros(len(chunk), np.int64)
        starts, lasts = np.r_[self._starts, room], np.r_[self._ends - self._gap, room]
        sessions, known = assign(keys, chunk.ts, self._gap, current, starts, lasts, len(self._starts))
        self._current = current
        self._starts, self._ends = starts[:known], lasts[:known] + self._gap
        self._over = np.r_[self._over, np.zeros(known - len(self._over), np.bool_)]
        return sessions

    def _output(self, ending: Bools) -> Chunk:
        """The rows of the sessions that are over now."""
        if not ending.any():
            return Chunk.empty(self._schema)
        found, kept = [], []
        for piece in self._waiting:
            sessions = _sessions_of(piece)
            due = (sessions >= 0) & ending[sessions]
            left = (sessions >= 0) & ~due
            if due.any():
                found.append(piece.take(np.flatnonzero(due)))
                piece = replace(piece, rid=np.where(left, sessions, -1))
            kept.append(piece.where(left) if 2 * left.sum() < len(left) else piece)
        self._waiting = [c for c in kept if len(c)]
        return self._ended(Chunk.concat(found, self._below)).in_order()

    def _ended(self, rows: Chunk) -> Chunk:
        if not len(rows):
            return Chunk.empty(self._schema)
        sessions = _sessions_of(rows)
        ends = self._ends[sessions]
        out = Chunk.of(ends, rows.columns, end=ends + 1)
        return bounded(out, self._schema, self._starts[sessions], ends) if self._bounds else out

    def _forget(self, now: int) -> None:
        """Drop sessions and keys that nothing depends on, once they are the majority."""
        self._now, needed = now, self._needed(now)
        self._oldest = int(self._starts[needed].min(initial=FOREVER))
        if len(needed) >= MIN_SESSIONS and 2 * needed.sum() <= len(needed):
            self._keep(needed)

    def _needed(self, now: int) -> Bools:
        return ~self._over | (self._ends + 1 >= now)

    def state(self) -> dict[str, State]:
        """Without what nothing depends on, and the rows that wait in one piece, whenever they came."""
        self._keep(self._needed(self._now))
        waiting = Chunk.concat([c.where(_sessions_of(c) >= 0) for c in self._waiting], self._below)
        self._waiting = [waiting] if len(waiting) else []
        return super().state()

    def _keep(self, needed: Bools) -> None:
        """Keep these sessions, and their keys."""
        numbers = np.where(needed, np.cumsum(needed) - 1, -1)
        self._starts, self._ends = self._starts[needed], self._ends[needed]
        self._over = self._over[needed]
        self._waiting = [replace(c, rid=_renumbered(_sessions_of(c), numbers)) for c in self._waiting]
        current = _renumbered(self._current, numbers)
        there = self._keys.in_order(np.flatnonzero(current >= 0))
        self._keys.keep(there)
        self._current = current[there]

    def pending(self) -> Sequence[Int64s]:
        return [self._ends[~self._over]]

    def horizon(self) -> int:
        return self._oldest

    def rows(self) -> int:
        return sum(int((_sessions_of(c) >= 0).sum()) for c in self._waiting)

    def bytes(self) -> int:
        tables = (self._current, self._starts, self._ends, self._over)
        return pieces.nbytes(self._waiting) + self._keys.nbytes() + sum(int(a.nbytes) for a in tables)


def _sessions_of(rows: Chunk) -> Int64s:
    """The number of each row's session."""
    assert rows.rid is not None
    return rows.rid


def _renumbered(old: Int64s, numbers: Int64s) -> Int64s:
    return np.where(old >= 0, numbers[old], -1)
