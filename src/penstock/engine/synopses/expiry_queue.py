"""Tuples with a known end of life, returned in the order of their ends.

Each push becomes a run sorted by end; popping reads the fronts of the runs. Runs are merged so that each is
at least twice the next, so their number is logarithmic and a tuple is merged few times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import FOREVER, Chunk, batch_of
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.stub import Stub


class ExpiryQueue(Stateful):
    """Chunks with ``end``, popped by end."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(r.chunk) for r in self._runs)

    def push(self, chunk: Chunk) -> None:
        """Add tuples whose end is in the future."""
        if len(chunk):
            self._runs.append(_Run(chunk))
        while len(self._runs) > 1 and len(self._runs[-2].chunk) < 2 * len(self._runs[-1].chunk):
            last = self._runs.pop()
            self._runs[-1] = _Run(Chunk.concat([self._runs[-1].chunk, last.chunk], self._schema))

    def pop(self, now: int) -> Chunk:
        """Remove and return the tuples whose end is before ``now``, ordered by end."""
        due = Chunk.concat([run.pop(now) for run in self._runs], self._schema)
        self._runs = [run for run in self._runs if len(run.chunk)]
        return _by_end(due) if len(due) else due

    def state(self) -> dict[str, State]:
        every = Chunk.concat([run.chunk for run in self._runs], self._schema)
        return {"runs": [_by_end(every)] if len(every) else []}

    def _load(self, state: dict[str, State]) -> None:
        self._runs = [_Run(chunk) for chunk in state["runs"]]

    def oldest(self) -> int:
        """The least timestamp of the tuples; FOREVER if there are none."""
        return min((int(r.chunk.ts.min()) for r in self._runs), default=int(FOREVER))

    def nbytes(self) -> int:
        return sum(r.chunk.columns.nbytes + 17 * len(r.chunk) for r in self._runs)


class StoredExpiry(Stateful):
    """The same over the rows of a window of known ends, which are in its store in the order of their ends.

    It keeps only its position. The id of an element, if it has one, is the number of rows before it.
    """

    saved = ("_stub", "_popped")

    def __init__(self, stub: Stub, schema: pa.Schema) -> None:
        self._stub, self._schema = stub, schema
        self._popped = 0

    def __len__(self) -> int:
        return 0

    def push(self, chunk: Chunk) -> None:
        """Read the rows that the window stored."""
        if chunk.rows is not None:
            self._stub.read(chunk.rows)

    def pop(self, now: int) -> Chunk:
        """The rows whose end is before ``now``, ordered by end."""
        rows = self._stub.due(now)
        ids = np.arange(self._popped, self._popped + len(rows))
        self._popped += len(rows)
        starts, ends = self._stub.life(rows)
        columns = batch_of([self._stub.gather(n, rows) for n in self._schema.names], self._schema, len(rows))
        self._stub.advance(now)
        return replace(Chunk.of(starts, columns, end=ends), rid=ids, rows=rows)

    def oldest(self) -> int:
        """FOREVER: its rows are in the store."""
        return int(FOREVER)

    def nbytes(self) -> int:
        return 0


class _Run:
    """Tuples sorted by end."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = _by_end(chunk)

    def pop(self, now: int) -> Chunk:
        assert self.chunk.end is not None
        cut = int(np.searchsorted(self.chunk.end, now, side="left"))
        due = self.chunk.slice(0, cut)
        self.chunk = self.chunk.slice(cut, len(self.chunk))
        return due


def _by_end(chunk: Chunk) -> Chunk:
    assert chunk.end is not None
    if bool((chunk.end[1:] >= chunk.end[:-1]).all()):
        return chunk
    return chunk.take(np.argsort(chunk.end, kind="stable"))
