"""One partition's engine: a deterministic state machine, ``step(arrivals) -> outputs``.

The same arrivals in the same steps give the same outputs, so an engine can be rebuilt from the log of its
arrivals. Since windows forget, it needs only the steps from ``StepOutput.needs_from`` on, together with the
``header`` of the last one.

Operators that depend on all of their input, and the operators that depend on those, would need every step.
Their state is kept in a *snapshot* instead. A rebuild from one replays the steps that the other operators
needed when it was taken, from its ``start`` on; the operators in it ignore input before its version, are
loaded at that version, and continue with the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.arrivals import Received, SourcePartitions, Stamps
from penstock.engine.clock_group import clock_groups
from penstock.engine.command import Command, CommandState
from penstock.engine.element import BEFORE_TIME
from penstock.engine.graph import Entity
from penstock.engine.input_manager import Progress
from penstock.engine.overflow import Memory
from penstock.engine.scheduler import SCHEDULERS
from penstock.engine.snapshot import SnapshotError, State, decode, encode
from penstock.engine.stage import TS, Arrival, RootOutput, Snapshot, Stage, StepOutput
from penstock.engine.tables import Tables, after, as_batch, changes_of, from_bytes, to_bytes
from penstock.errors import DataError, EngineError
from penstock.measurement import Kind, Property, Reading, under

HEADER_FORMAT = 1
"""Raised when a header of the previous version can no longer be read."""
SNAPSHOT_FORMAT = 2
"""The same for the parts of a snapshot other than operator states, which have their own formats."""


@dataclass(frozen=True)
class _Step:
    """A step that the state may depend on: its largest timestamp per clock group; the header before it, and
    the tables.
    """

    tops: list[int]
    progress: list[Progress]
    commands: CommandState
    tables: Tables
    stamped: int


@dataclass(frozen=True)
class _Base:
    """The snapshot that a rebuild starts from; ``tops``: largest timestamps of the steps before ``start``."""

    version: int
    start: int
    tops: list[int]


class Engine:
    """Runs one partition of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._scheduler = SCHEDULERS[stage.scheduling.scheduler]()
        self.groups = clock_groups(stage)
        self.entities = [e for g in self.groups for e in g.graph.entities]
        self._steps = 0
        self._commands = CommandState()
        self._tables: Tables = {
            i.name: as_batch(stage.tables[i.name], i.schema) for i in stage.inputs if i.kind == "table"
        }
        self._history: dict[int, _Step] = {}
        self._base: _Base | None = None
        self._loading: State = None
        self._sources = SourcePartitions([i for i in stage.inputs if i.kind == "keys"])
        self._received = Received(stage.inputs)
        self._stamps = Stamps(stage.inputs)
        self._memory = Memory(stage.memory)

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        """Process one micro-batch: the commands first, then the rows."""
        progress = [g.inputs.progress.copy() for g in self.groups]
        before, tables, stamped = self._commands, self._tables, self._stamps.last
        if before.ended is not None:
            _refuse_rows(arrivals)
        changes = changes_of(before.new(commands))
        self._commands, self._tables = before.apply(commands), after(tables, changes)
        arrivals = self._stamps.stamp(self._sources.check(arrivals))
        self._received.note(arrivals)
        own = [g.own(arrivals) for g in self.groups]
        found: dict[str, RootOutput] = {}
        with self._memory.in_use():
            for group, its in zip(self.groups, own, strict=True):
                found |= group.step(its, self._commands, self._scheduler, self._tables, changes)
        tops = [_highest(its) for its in own]
        if changes:
            tops = [max(t, g.inputs.progress.changed) for t, g in zip(tops, self.groups, strict=True)]
        self._history[self._steps] = _Step(tops, progress, before, tables, stamped)
        self._steps += 1
        self._load()
        self._settle()
        outputs = {name: found[name] for name in self.stage.roots}
        return StepOutput(outputs, self._forget_steps(), self._replay_from())

    def _settle(self) -> None:
        """Move to disk what exceeds the memory limit."""
        self._memory.settle([self._sources, *(kept for g in self.groups for kept in g.kept())])

    def _forget_steps(self) -> int:
        """Drop the steps that a rebuild no longer needs; returns the first needed one, or the next step."""
        if self._loading is not None:
            return min(self._history)
        horizons = [g.horizon() for g in self.groups]
        needed = self._first_needed(horizons)
        base = self._base
        if base is not None:
            if needed <= base.version or _reach(base.tops, horizons):
                needed = base.start
            else:
                self._base = None
        for step in [s for s in self._history if s < needed]:
            del self._history[step]
        return needed

    def _first_needed(self, horizons: list[int]) -> int:
        """The first remembered step with a row at or after its group's horizon, or the next step."""
        return next((n for n, s in self._history.items() if _reach(s.tops, horizons)), self._steps)

    def _replay_from(self) -> int:
        """The first step that is still needed after a snapshot of the operators that cannot be replayed."""
        horizons = [g.horizon(without=g.graph.unreplayable()) for g in self.groups]
        if self._base is not None and _reach(self._base.tops, horizons):
            return self._steps
        return self._first_needed(horizons)

    def header(self) -> bytes:
        """What a replay of the steps from ``needs_from`` on needs besides the arrivals and the tables."""
        return json.dumps(self._header_at(min(self._history, default=self._steps))).encode()

    def tables(self) -> bytes:
        """The tables that go with the header; they change with ``tables_version``."""
        return to_bytes(self._before(min(self._history, default=self._steps)).tables)

    def tables_version(self) -> int | None:
        """The number of changes in what ``tables`` returns; None if the stage has no tables."""
        before = self._before(min(self._history, default=self._steps))
        return before.commands.tables if self._tables else None

    def _before(self, step: int) -> _Step:
        progress, stamped = [g.inputs.progress for g in self.groups], self._stamps.last
        return self._history.get(step, _Step([], progress, self._commands, self._tables, stamped))

    def _header_at(self, step: int) -> dict[str, State]:
        before = self._before(step)
        progress = [p.state() for p in before.progress]
        return {
            "format": HEADER_FORMAT, "step": step, "progress": progress, "commands": before.commands.state(),
            "stamped": before.stamped,
        }  # fmt: skip

    def restore_header(self, header: bytes, tables: bytes = b"") -> None:
        """Prepare a new engine to replay the steps from ``needs_from`` on."""
        self._begin_at(json.loads(header), from_bytes(tables) if tables else self._tables)

    def _begin_at(self, header: dict[str, State], tables: Tables) -> None:
        if header["format"] != HEADER_FORMAT:
            raise EngineError(
                f"the header of the log has format {header['format']}; this version reads {HEADER_FORMAT}"
            )
        self._steps, self._stamps.last = header["step"], header.get("stamped", int(BEFORE_TIME))
        self._commands, self._tables = CommandState(**header["commands"]), tables
        for group, progress in zip(self.groups, header["progress"], strict=True):
            group.begin_at(Progress.of(progress), self._commands.memory, self._scheduler, tables)

    def snapshot(self, whole: bool = True) -> Snapshot:
        """The state of the operators that cannot be replayed, or of all operators: then no step before it is
        needed.
        """
        start = self._steps if whole else self._replay_from()
        whole = start == self._steps
        saved = {e for g in self.groups for e in (g.graph.entities if whole else g.graph.unreplayable())}
        gone = [s.tops for n, s in self._history.items() if n < start]
        tops = [self._base.tops] if self._base is not None else []
        lowest = [int(BEFORE_TIME)] * len(self.groups)
        self._base = _Base(self._steps, start, [max(t) for t in zip(lowest, *tops, *gone, strict=True)])
        state = {
            "format": SNAPSHOT_FORMAT,
            "version": self._steps,
            "tops": self._base.tops,
            "header": self._header_at(start),
            "tables": dict(self._before(start).tables),
            "inputs": [g.inputs for g in self.groups] if whole else None,
            "sources": self._sources,
            "operators": [[i, e.node.name, e.operator] for i, e in enumerate(self.entities) if e in saved],
            "plan": [e.node.name for e in self.entities],
        }
        self._history = {n: s for n, s in self._history.items() if n >= start}
        return Snapshot(self._steps, start, encode(state))

    def restore(self, snapshot: bytes) -> None:
        """Prepare a new engine to replay the steps from the snapshot's ``start`` on."""
        state = decode(snapshot)
        if state["format"] != SNAPSHOT_FORMAT:
            raise SnapshotError(
                f"the snapshot has format {state['format']}; this version reads {SNAPSHOT_FORMAT}"
            )
        plan = [e.node.name for e in self.entities]
        if state["plan"] != plan:
            raise SnapshotError(f"the snapshot is of the operators {state['plan']}; the plan has {plan}")
        if not state["version"]:
            return  # no step was taken: there is no state, and the static rows are yet to be fed
        for number, _, _ in state["operators"]:
            self.entities[number].loading = True
        self._base = _Base(state["version"], state["header"]["step"], state["tops"])
        self._begin_at(state["header"], state["tables"])
        self._loading = state
        self._load()
        self._settle()

    def _load(self) -> None:
        """Load the operators of the snapshot once the replay has reached its version."""
        state = self._loading
        if state is None or self._steps < state["version"]:
            return
        self._loading = None
        self._sources.restore(state["sources"])
        for group, waiting in zip(self.groups, state["inputs"] or (), strict=bool(state["inputs"])):
            group.inputs.restore(waiting)
        for number, name, its in state["operators"]:
            _load(self.entities[number], number, name, its)

    def state_bytes(self) -> int:
        return sum(g.state_bytes() for g in self.groups)

    def measure(self) -> Iterator[Reading]:
        """The measurements of the engine, its inputs, operators and queues."""
        yield from under("engine", Kind.ENGINE, self._own())
        yield from self._received.measure()
        for group in self.groups:
            yield from group.measure()

    def _own(self) -> Iterator[Reading]:
        slowest = min(self.groups, key=lambda g: g.inputs.progress.now)
        yield Reading(Property.STREAM_TIME, slowest.inputs.progress.now)
        yield Reading(Property.WAITING, sum(g.inputs.rows() for g in self.groups))
        if (held_back_by := slowest.inputs.held_back_by()) is not None:
            yield Reading(Property.HELD_BACK_BY, 0, held_back_by)
        yield Reading(Property.ROWS, sum(g.rows() for g in self.groups))
        yield Reading(Property.BYTES, self.state_bytes())
        yield Reading(Property.OVERFLOWED, self._memory.on_disk)
        yield Reading(Property.STEPS, self._steps)
        yield Reading(Property.QUEUE_PEAK, sum(g.graph.queue_peak for g in self.groups))


def _load(entity: Entity, number: int, name: str, state: State) -> None:
    try:
        entity.operator.restore(state)
    except SnapshotError as error:
        raise SnapshotError(f"the snapshot of {name} (operator {number}) {error}") from None
    entity.loading = False


def _refuse_rows(arrivals: Sequence[Arrival]) -> None:
    """Rows of sources after the end of the input (those of an exchange have no ``max_ts``)."""
    for a in arrivals:
        if a.max_ts is not None:
            raise DataError(
                f"a row of {a.input} came after the run was ended (SET penstock.at_end): the checkpoint is "
                "closed; read the whole input with a new checkpoint"
            )


def _reach(tops: list[int], horizons: list[int]) -> bool:
    """Whether a step with these largest timestamps has a row that some group's state depends on."""
    return any(top >= horizon for top, horizon in zip(tops, horizons, strict=True))


def _highest(arrivals: Sequence[Arrival]) -> int:
    """The largest timestamp among a step's rows (producers of an exchange do not report it)."""
    tops = [int(BEFORE_TIME)]
    for a in arrivals:
        if a.batch is not None and a.batch.num_rows:
            tops.append(int(np.asarray(a.batch.column(TS)).max()) if a.max_ts is None else a.max_ts)
    return max(tops)
