"""One partition's engine: a deterministic state machine, ``step(arrivals) -> output``.

The same arrivals in the same steps give the same outputs. An engine can therefore be rebuilt from the
log of its arrivals: from the beginning, from a snapshot, or, since windows forget, from the first step it
still needs (``StepOutput.needs_from``) together with the ``header`` of the last one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.command import Command, CommandState
from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk, batch_of
from penstock.engine.input_manager import InputManager, Progress
from penstock.engine.operator import Clock, StartContext
from penstock.engine.received import Received
from penstock.engine.scheduler import Entity, Scheduler
from penstock.engine.snapshot import SnapshotError, State, decode, encode
from penstock.engine.source_partitions import SourcePartitions
from penstock.engine.stage import END, SIGN, TS, Arrival, Stage, StepOutput
from penstock.errors import EngineError
from penstock.measurement import Kind, Property, Reading, under

HEADER_FORMAT = 1
"""Raised when a header of the version before can no longer be read."""
SNAPSHOT_FORMAT = 1
"""The same for what a snapshot has besides the states of operators, which have formats of their own."""


class Engine:
    """Runs one partition of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._scheduler = Scheduler(stage.root, StartContext())
        nodes = [e.node for e in self._scheduler.entities]
        instants = any(n.reads_instants for n in nodes)
        self._inputs = InputManager(stage.inputs, stage.waits, instants)
        # A window over a derived stream may hold what no other state can tell any more.
        self._needs_all = any(n.retells for n in nodes if n is not stage.root)
        self._lag = sum(n.lag for n in nodes)
        self._steps = 0
        self._commands = CommandState()
        # For each step that the state depends on: its largest timestamp, and what held before it.
        self._history: dict[int, tuple[int, Progress, CommandState]] = {}
        self._highest_in_snapshot = int(BEFORE_TIME)
        self._fed = False
        self._sources = SourcePartitions([i for i in stage.inputs if i.kind == "keys"])
        self._received = Received(stage.inputs)

    def _feed_tables(self, clock: Clock) -> None:
        """Static rows come once: at once, or where instants are completed, with the first of them."""
        begun = clock.first is not None and clock.first < clock.now
        if self._fed or (self._stage.waits and not begun):
            return
        self._fed = True
        for i in self._stage.inputs:
            if i.kind == "table":
                table = self._stage.tables[i.name].combine_chunks()
                columns = [table.column(f.name).combine_chunks() for f in i.schema]
                ts = np.full(table.num_rows, BEFORE_TIME)
                self._scheduler.feeds[i.name].put(Chunk.of(ts, batch_of(columns, i.schema, len(ts))))

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        """Take in one micro-batch: the commands first, then the rows."""
        before = self._inputs.progress.copy(), self._commands
        self._commands = self._commands.apply(commands)
        arrivals = self._sources.check(arrivals)
        self._received.note(arrivals)
        clock, released = self._inputs.accept(arrivals)
        clock = replace(clock, memory=self._commands.memory)
        self._feed_tables(clock)
        for name, chunk in released.items():
            self._scheduler.feeds[name].put(chunk)
        out = self._scheduler.step(clock)
        self._history[self._steps] = (max(_highest(arrivals), self._highest_in_snapshot), *before)
        self._highest_in_snapshot = int(BEFORE_TIME)
        self._steps += 1
        needs_from = self._forget_steps()
        # Also where results are not held back: each has a part that is yet to come, so none is older.
        late = {name: _batch(chunk) for name, chunk in self._inputs.late_rows().items()}
        return StepOutput(_batch(out), clock.now, needs_from, clock.first, late)

    def _forget_steps(self) -> int:
        """Drop the steps that the state no longer depends on; the first it does, or the next."""
        horizon = self._horizon()
        while self._history:
            oldest = min(self._history)
            if self._history[oldest][0] >= horizon:
                return oldest
            del self._history[oldest]
        return self._steps

    def _horizon(self) -> int:
        """The smallest timestamp of an arrival that the state depends on."""
        if self._needs_all:
            return int(BEFORE_TIME)
        waiting, held = self._inputs.horizon(), [e.operator.horizon() for e in self._scheduler.entities]
        oldest = min(held)
        if BEFORE_TIME + self._lag < oldest < FOREVER:
            oldest -= self._lag
        return min(waiting, oldest)

    def header(self) -> bytes:
        """What a replay of the steps from ``needs_from`` on must know besides the arrivals."""
        oldest = min(self._history, default=self._steps)
        now = (self._steps, self._inputs.progress, self._commands)
        _, progress, commands = self._history.get(oldest, now)
        fields = {"step": oldest, "progress": progress.state(), "commands": commands.state()}
        return json.dumps({"format": HEADER_FORMAT, **fields}).encode()

    def restore_header(self, header: bytes) -> None:
        """Make a new engine ready to replay the steps from ``needs_from`` on."""
        fields = json.loads(header)
        if fields["format"] != HEADER_FORMAT:
            raise EngineError(
                f"the header of the log has format {fields['format']}; this version reads {HEADER_FORMAT}"
            )
        self._steps = fields["step"]
        self._inputs.progress = Progress.of(fields["progress"])
        self._commands = CommandState(**fields["commands"])
        p = self._inputs.progress
        # What exists over nothing since the first input exists again; nobody is told a second time.
        clock = Clock(p.now, p.now, p.first, share=p.share, memory=self._commands.memory)
        self._feed_tables(clock)
        self._scheduler.step(clock)

    def snapshot(self) -> bytes:
        """The whole state; from here on the engine needs no step before this one."""
        tops = [top for top, *_ in self._history.values()]
        self._highest_in_snapshot = max([self._highest_in_snapshot, *tops])
        self._history = {}
        return encode(
            {
                "format": SNAPSHOT_FORMAT,
                "step": self._steps,
                "highest": self._highest_in_snapshot,
                "fed": self._fed,
                "commands": self._commands.state(),
                "inputs": self._inputs,
                "sources": self._sources,
                "operators": [[e.node.name, e.operator] for e in self._scheduler.entities],
            }
        )

    def restore(self, snapshot: bytes) -> None:
        """Make a new engine what the one was that the snapshot was taken of."""
        state = decode(snapshot)
        if state["format"] != SNAPSHOT_FORMAT:
            raise SnapshotError(
                f"the snapshot has format {state['format']}; this version reads {SNAPSHOT_FORMAT}"
            )
        entities, saved = self._scheduler.entities, state["operators"]
        if len(saved) != len(entities):
            raise SnapshotError(f"the snapshot has {len(saved)} operators, and the plan {len(entities)}")
        self._steps, self._highest_in_snapshot, self._fed = state["step"], state["highest"], state["fed"]
        self._commands = CommandState(**state["commands"])
        self._inputs.restore(state["inputs"])
        self._sources.restore(state["sources"])
        for number, (entity, (name, its)) in enumerate(zip(entities, saved, strict=True)):
            _restore(entity, number, name, its)

    def state_bytes(self) -> int:
        """Bytes of state."""
        return sum(e.operator.bytes() for e in self._scheduler.entities)

    def measure(self) -> Iterator[Reading]:
        """What all entities publish: the engine, its inputs, operators and queues."""
        yield from under("engine", Kind.ENGINE, self._own())
        yield from self._received.measure()
        for name, rows in self._inputs.progress.late.items():
            yield from under(f"input/{name}", Kind.INPUT, [Reading(Property.LATE, rows)])
        for entity in self._scheduler.entities:
            yield from entity.measure()

    def _own(self) -> Iterator[Reading]:
        waiting = self._inputs.rows()
        yield Reading(Property.STREAM_TIME, self._inputs.progress.now)
        yield Reading(Property.WAITING, waiting)
        if (held_back_by := self._inputs.held_back_by()) is not None:
            yield Reading(Property.HELD_BACK_BY, 0, held_back_by)
        yield Reading(Property.ROWS, sum(e.operator.rows() for e in self._scheduler.entities) + waiting)
        yield Reading(Property.BYTES, self.state_bytes())
        yield Reading(Property.STEPS, self._steps)


def _restore(entity: Entity, number: int, name: str, state: State) -> None:
    if name != entity.node.name:
        raise SnapshotError(f"the snapshot has {name} as operator {number}; the plan has {entity.node.name}")
    try:
        entity.operator.restore(state)
    except SnapshotError as error:
        raise SnapshotError(f"the snapshot of {name} (operator {number}) {error}") from None


def _highest(arrivals: Sequence[Arrival]) -> int:
    """The largest timestamp among a step's rows (an exchange's producers do not say)."""
    tops = [int(BEFORE_TIME)]
    for a in arrivals:
        if a.batch is not None and a.batch.num_rows:
            tops.append(int(np.asarray(a.batch.column(TS)).max()) if a.max_ts is None else a.max_ts)
    return max(tops)


def _batch(chunk: Chunk) -> pa.RecordBatch:
    columns = {TS: pa.array(chunk.ts), SIGN: pa.array(chunk.sign)}
    if chunk.end is not None:
        columns[END] = pa.array(chunk.end)
    payload = zip(chunk.columns.schema.names, chunk.columns.columns, strict=True)
    return pa.RecordBatch.from_pydict(columns | dict(payload))
