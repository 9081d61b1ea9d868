"""The roots of a stage that read the same inputs and so share a clock: the least progress of these inputs.

A silent stream delays only the roots that read it. Within a group, equal nodes run once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.command import CommandState
from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk
from penstock.engine.graph import Graph
from penstock.engine.incomplete import incomplete
from penstock.engine.input_manager import InputManager, Progress
from penstock.engine.knobs import Knobs
from penstock.engine.latency import Latency, percentiles
from penstock.engine.operator import Clock, Node, StartContext
from penstock.engine.scheduler import Scheduler, slices
from penstock.engine.stage import END, SIGN, TS, Arrival, RootOutput, StageInput
from penstock.engine.tables import Tables
from penstock.measurement import Kind, Property, Reading, under


class ClockGroup:
    """Roots with their operators and the input manager that feeds them; roots come and go between steps.

    ``streams``: the inputs that they read. ``numbers``: of the operators. ``isolates``: see ``Graph``.
    """

    def __init__(
        self,
        streams: Sequence[StageInput],
        waits: bool,
        numbers: Iterator[int],
        slice_rows: int | None = None,
        isolates: bool = False,
    ) -> None:
        # A store is written and read under one clock, so each group has its own stores.
        self.graph = Graph(StartContext(), numbers, isolates)
        self._waits, self._slice_rows = waits, slice_rows
        self._lag = self._ends_within = 0
        self._tables: list[str] = []
        self._unfed: dict[str, int | None] = {}
        """Tables whose rows are yet to be fed, with the first instant of the query that reads them."""
        self.names = frozenset(i.name for i in streams)
        self._opens: tuple[int, int] | None = None
        self.inputs = InputManager(streams, waits)
        self.latency = Latency(waits)

    def add(self, name: str, root: Node, tables: Sequence[StageInput], first: int | None = None) -> None:
        """Start a root and the tables that it reads. ``first``: the first instant that it sees."""
        first = first if self._waits else None
        self.graph.add(name, root, first)
        if self.inputs.progress.late:
            self.inputs.progress.late_before[name] = dict(self.inputs.progress.late)
        new = [i for i in tables if i.name not in self._tables]
        self.inputs.add_tables(new)
        self._tables += [i.name for i in new]
        self._unfed |= {i.name: first for i in new}
        self._changed()

    @property
    def now(self) -> int:
        """The complete time."""
        return self.inputs.progress.now

    def opens(self, first: int, earliest: int) -> None:
        """Its first instant is ``first``, in whose slice there are rows since ``earliest``."""
        self._opens = first, earliest
        self.inputs.progress.first = first

    def remove(self, name: str) -> None:
        """End a root."""
        self.graph.remove(name)
        self.inputs.progress.late_before.pop(name, None)
        self._tables = [t for t in self._tables if self.graph.reads(t)]
        self._unfed = {t: first for t, first in self._unfed.items() if t in self._tables}
        self._changed()

    def _changed(self) -> None:
        nodes = [e.node for e in self.graph.entities]
        self._lag = sum(n.lag for n in nodes)
        self._ends_within = sum(n.ends_within for n in nodes)
        self.inputs.collects_instants = any(n.reads_instants for n in nodes)

    def own(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """The arrivals of this group's inputs."""
        return [a for a in arrivals if a.input in self.names]

    def step(
        self,
        own: Sequence[Arrival],
        commands: CommandState,
        scheduler: Scheduler,
        tables: Tables,
        changes: Tables,
    ) -> dict[str, RootOutput]:
        """Process a step's arrivals, and the changes that led to ``tables``; the output of each root."""
        fed = {name: change for name, change in changes.items() if name not in self._unfed}
        if any(name in fed for name in self._tables):
            self.inputs.change(fed)
        self.latency.begin(_top(own))
        clock, released = self.inputs.accept(own, commands.ended)
        clock = replace(clock, memory=commands.memory, budget=commands.knobs.budget)
        # Rows of any slice may meet a change of a table, unless slices are in the order of time.
        whole = {} if self._waits else {name: released.pop(name) for name in self._tables}
        for now, part in slices(clock, released, self._rows_of_a_slice(commands.knobs), self._waits):
            self._open(now, tables)
            for name, chunk in (whole | dict(part)).items():
                self.graph.feed(name, chunk)
            whole = {}
        scheduler.step(self.graph)
        # Also if results do not wait: each has a part that is yet to arrive, so none is older.
        late = {name: _batch(chunk) for name, chunk in self.inputs.late_rows().items()}
        chunks = {name: c for name, c in self.graph.take().items() if name not in self.graph.failed}
        self.latency.end({name: c.ts for name, c in chunks.items()}, clock.now)
        return {name: RootOutput(_batch(c), clock.now, clock.first, late) for name, c in chunks.items()}

    def _open(self, clock: Clock, tables: Tables) -> None:
        """Begin a slice. Static rows are part of the first; if nodes wait, of that of the first instant."""
        begun = not self._waits or (clock.first is not None and clock.first < clock.now)
        feed = [t for t, first in self._unfed.items() if begun and (first is None or first < clock.now)]
        self._unfed = {t: first for t, first in self._unfed.items() if t not in feed}
        if self._opens is not None and clock.before <= self._opens[0] < clock.now:
            clock = replace(clock, before=min(clock.before, self._opens[1]))
        self.graph.open(replace(clock, tables=begun))
        for name in feed:
            ts = np.full(tables[name].num_rows, BEFORE_TIME)
            self.graph.feed(name, Chunk.of(ts, tables[name]))

    def _rows_of_a_slice(self, knobs: Knobs) -> int | None:
        return self._slice_rows if knobs.slice_rows is None else knobs.slice_rows or None

    def begin_at(
        self, progress: Progress, commands: CommandState, scheduler: Scheduler, tables: Tables
    ) -> None:
        """Prepare new operators for a replay of the input after ``progress``."""
        self.inputs.progress = p = progress
        # A row that exists over no input since the first instant exists again; it is not returned twice.
        clock = replace(self.inputs.clock(p.now), memory=commands.memory, budget=commands.knobs.budget)
        self._open(clock, tables)
        scheduler.step(self.graph)
        self.graph.take()

    def horizons(self) -> tuple[int, int]:
        """The smallest timestamp of an arrival that the state depends on, and of one that the state depends
        on that can be replayed.
        """
        reaches = {e: e.horizon() for e in self.graph.entities}
        fixed = self.graph.unreplayable(reaches)
        oldest = min((reach for e, reach in reaches.items() if e not in fixed), default=int(FOREVER))
        if BEFORE_TIME + self._lag < oldest < FOREVER:
            oldest -= self._lag
        replayable = min(self.inputs.horizon(), oldest)
        return int(BEFORE_TIME) if fixed else replayable, replayable

    def rows(self) -> int:
        """Rows in synopses and in the input manager's buffer."""
        return sum(e.operator.rows() for e in self.graph.entities) + self.inputs.rows()

    def kept(self) -> list[Any]:
        """What holds state: the input manager's buffer, operators and queues."""
        return [self.inputs, *self.graph.kept()]

    def state_bytes(self) -> int:
        """Bytes of synopses and of the input manager's buffer."""
        return sum(e.operator.bytes() for e in self.graph.entities) + self.inputs.nbytes()

    def unshared_bytes(self) -> int:
        """The same if each root had its own."""
        return self.graph.unshared_bytes() + len(self.graph.roots) * self.inputs.nbytes()

    def incomplete(self) -> Iterator[Reading]:
        """What waits for instants that are not complete."""
        operators = (array for e in self.graph.entities for array in e.operator.pending())
        return incomplete([*self.inputs.pending(), *operators], self._ends_within)

    def measure(self) -> Iterator[Reading]:
        """The measurements of the operators, and of each root its late rows per input and its latency."""
        yield from self.graph.measure()
        for name in self.graph.roots:
            late = self.inputs.progress.late_for(name).items()
            waited = percentiles(self.latency.results.get(name, ()))
            own = [*(Reading(Property.LATE, rows, input) for input, rows in late), *waited]
            yield from under(f"root/{name}", Kind.ROOT, own)


def _top(arrivals: Sequence[Arrival]) -> int:
    """The largest timestamp of a step's arrivals; of an exchange, its producers' progress."""
    marks = [(a.max_ts, a.progress) for a in arrivals]
    return max((t for both in marks for t in both if t is not None), default=int(BEFORE_TIME))


def _batch(chunk: Chunk) -> pa.RecordBatch:
    columns = {TS: pa.array(chunk.ts), SIGN: pa.array(chunk.sign)}
    if chunk.end is not None:
        columns[END] = pa.array(chunk.end)
    payload = zip(chunk.columns.schema.names, chunk.columns.columns, strict=True)
    return pa.RecordBatch.from_pydict(columns | dict(payload))
