"""Counts of numbered rows on one side or two, and the changes of a multiplicity computed from them.

The state of the bag operators: except, intersect, duplicate-eliminate, antijoin, semijoin. Each of them is a
function from a row's counts to its multiplicity in the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk, Int64s, batch_of
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.directory import Directory

Multiplicity = Callable[[np.ndarray], Int64s]
"""From counts (one row per tuple, one column per side) to multiplicities in the output."""


@dataclass(frozen=True)
class Events:
    """Changes of counts: which numbered row, when, on which side, by how much."""

    numbers: Int64s
    ts: Int64s
    side: int
    sign: np.ndarray


class Bags(Stateful):
    """A directory of rows and their counts on each of ``sides`` sides."""

    saved = ("directory", "_counts")

    def __init__(self, directory: Directory, sides: int, multiplicity: Multiplicity) -> None:
        self.directory = directory
        self._multiplicity = multiplicity
        self._counts = np.zeros((0, sides), np.int64)

    def apply(self, events: list[Events], schema: pa.Schema, columns: slice = slice(None)) -> Chunk:
        """Apply a step's changes; returns the output's changes, net per instant, in timestamp order.

        ``columns``: the directory's columns in the output.
        """
        self._make_room()
        numbers, ts, before, after = self._around(events)
        change = after - before
        times = np.abs(change)
        rows = np.repeat(numbers, times)
        payload = batch_of(self.directory.rows(rows)[columns], schema, len(rows))
        sign = np.repeat(np.sign(change), times).astype(np.int8)
        out = Chunk(np.repeat(ts, times), sign, payload).in_order()
        self._tidy()
        return out

    def _make_room(self) -> None:
        missing = len(self.directory) - len(self._counts)
        if missing > 0:
            grown = np.zeros((missing + len(self._counts) // 2, self._counts.shape[1]), np.int64)
            self._counts = np.concatenate([self._counts, grown])

    def _around(self, events: list[Events]) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """For each (row, instant) with changes: the output's multiplicity before and after."""
        numbers = np.concatenate([e.numbers for e in events])
        ts = np.concatenate([e.ts for e in events])
        if not len(numbers):
            return numbers, ts, numbers, numbers
        deltas = np.zeros((len(numbers), self._counts.shape[1]), np.int64)
        deltas[np.arange(len(numbers)), np.repeat([e.side for e in events], [len(e.ts) for e in events])] = (
            np.concatenate([e.sign for e in events])
        )
        order = np.lexsort((ts, numbers))
        numbers, ts = numbers[order], ts[order]
        starts = np.flatnonzero(np.r_[True, (numbers[1:] != numbers[:-1]) | (ts[1:] != ts[:-1])])
        change = np.add.reduceat(deltas[order], starts, axis=0)
        numbers, ts = numbers[starts], ts[starts]
        after = self._running(numbers, change)
        return numbers, ts, self._multiplicity(after - change), self._multiplicity(after)

    def _running(self, numbers: Int64s, change: np.ndarray) -> np.ndarray:
        """The counts after each change; the last ones are stored."""
        firsts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        sizes = np.diff(np.r_[firsts, len(numbers)])
        total = np.cumsum(change, axis=0)
        base = np.repeat(total[firsts] - change[firsts] - self._counts[numbers[firsts]], sizes, axis=0)
        after = total - base
        lasts = firsts + sizes - 1
        self._counts[numbers[lasts]] = after[lasts]
        return after

    def _tidy(self) -> None:
        """Remove rows that are on no side once they are the majority."""
        known = len(self.directory)
        if known < COMPACT_ROWS:
            return
        here = np.flatnonzero(self._counts[:known].any(axis=1))
        if 2 * len(here) < known:
            self._keep(here)

    def _keep(self, here: Int64s) -> None:
        self.directory.keep(here)
        self._counts = self._counts[here]

    def state(self) -> dict[str, State]:
        """Without rows that are on no side, and in an order that does not depend on when they came."""
        here = np.flatnonzero(self._counts[: len(self.directory)].any(axis=1))
        self._keep(self.directory.in_order(here))
        return super().state()

    def rows(self) -> int:
        """Different rows, all sides together; how often each is there takes no space."""
        return int(np.count_nonzero(self._counts))

    def nbytes(self) -> int:
        return self.directory.nbytes() + int(self._counts.nbytes)
