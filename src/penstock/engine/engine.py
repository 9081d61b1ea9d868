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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.engine.arrivals import Received, SourcePartitions, Stamps
from penstock.engine.clock_group import ClockGroup
from penstock.engine.command import Command, CommandState
from penstock.engine.entity import Entity
from penstock.engine.input_manager import Progress
from penstock.engine.latency import percentiles
from penstock.engine.overflow import Memory
from penstock.engine.queries import Queries, Start
from penstock.engine.registry import Registry
from penstock.engine.replay import StepBefore, Steps, tops_of
from penstock.engine.scheduler import SCHEDULERS
from penstock.engine.snapshot import SnapshotError, State, decode, encode
from penstock.engine.stage import (
    Arrival,
    MemoryLimit,
    RootOutput,
    Snapshot,
    Stage,
    StepOutput,
)
from penstock.engine.tables import after, changes_of
from penstock.errors import DataError, EngineError
from penstock.measurement import Kind, Property, Reading, under

HEADER_FORMAT = 3
"""Raised when a header of the previous version can no longer be read."""
SNAPSHOT_FORMAT = 5
"""The same for the parts of a snapshot other than operator states, which have their own formats."""


class Engine:
    """Runs one partition of a stage: its roots, and the queries that commands register."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._scheduler = SCHEDULERS[stage.scheduling.scheduler]()
        self.queries = Queries(stage)
        self._switches = False
        """Whether queries may have to share, or share no more, after the step."""
        self._steps = Steps()
        self._commands = CommandState()
        self._loading: State = None
        self._sources = SourcePartitions([i for i in stage.inputs if i.kind == "keys"])
        self._received = Received(stage.inputs)
        self._stamps = Stamps(stage.inputs)
        self._memory = Memory(stage.memory)

    @property
    def groups(self) -> dict[str, ClockGroup]:
        """The clock groups by name."""
        return self.queries.groups

    @property
    def entities(self) -> list[Entity]:
        """The operators in the order of the queries, producers first: the same in every rebuild."""
        return self.queries.entities

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        """Process one micro-batch: the commands first, then the rows."""
        before = self._now()
        if before.commands.ended is not None:
            _refuse_rows(arrivals)
        new = before.commands.new(commands)
        changes = changes_of(new)
        self._commands = before.commands.apply(commands)
        if self._commands.settings != before.commands.settings:
            self._configure()
            self._switches = True
        queries = self.queries
        queries.become(before.registry.after(new, queries.streams if self.stage.one_clock else None))
        queries.tables = after(queries.tables, changes)
        arrivals = self._stamps.stamp(self._sources.check(arrivals))
        self._received.note(arrivals)
        if not self.stage.roots:
            queries.registry = queries.registry.shown(arrivals)
        own = {key: g.own(arrivals) for key, g in self.groups.items()}
        found: dict[str, RootOutput] = {}
        with self._memory.in_use():
            for key, group in self.groups.items():
                found |= group.step(own[key], self._commands, self._scheduler, queries.tables, changes)
        tops = tops_of(arrivals)
        if changes:
            tops |= {_tables_of(key): g.inputs.progress.changed for key, g in self.groups.items()}
        self._steps.add(before, tops)
        self._load()
        if self._switches and self._loading is None:
            self._switches = False
            queries.switch()
        if self._loading is None:
            queries.share()
        outputs = {name: queries.sent(name, found[name]) for name in queries.group_of if name in found}
        failed = queries.failed()
        if failed:
            queries.become(queries.registry.without(failed))
            self._commands = replace(self._commands, tables=self._commands.tables + 1)
        self._settle()
        return StepOutput(outputs, *self._forget_steps(), failed)

    def _configure(self) -> None:
        """Use the settings that commands have changed."""
        knobs = self.queries.knobs = self._commands.knobs
        self._scheduler = SCHEDULERS[knobs.scheduler or self.stage.scheduling.scheduler]()
        if knobs.memory_limit is not None:
            directory = None if self.stage.memory is None else self.stage.memory.directory
            self._memory.limit = MemoryLimit(knobs.memory_limit, directory) if knobs.memory_limit else None
        for group in self.groups.values():
            group.graph.configure(knobs)

    def _now(self) -> StepBefore:
        progress = {key: g.inputs.progress.copy() for key, g in self.groups.items()}
        queries = self.queries
        return StepBefore(
            progress, self._commands, queries.tables, queries.registry, self._stamps.last, tops={}
        )

    def _settle(self) -> None:
        """Move to disk what exceeds the memory limit."""
        kept = [self._sources, *(kept for g in self.groups.values() for kept in g.kept())]
        self._memory.settle(kept, [e.operator for g in self.groups.values() for e in g.graph.entities])

    def _forget_steps(self) -> tuple[int, int]:
        """Drop the steps that a rebuild no longer needs; returns the first needed one, or the next step, and
        the first that is still needed after a snapshot of the operators that cannot be replayed.
        """
        every, replayable = self._horizons()
        needed = self._steps.first if self._loading is not None else self._steps.forget(every)
        return needed, self._steps.replay_from(replayable)

    def _horizons(self) -> tuple[dict[str, int], dict[str, int]]:
        """The least timestamp of a row that the state depends on, per input, and of a change of tables, per
        clock group; and the same for the state of operators that can be replayed.
        """
        found: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for key, group in self.groups.items():
            for its, of in zip(group.horizons(), found, strict=True):
                of |= {n: min(its, of.get(n, its)) for n in (*group.names, _tables_of(key))}
        return found

    def header(self) -> bytes:
        """What a replay of the steps from ``needs_from`` on needs besides the arrivals and the tables."""
        return json.dumps(self._header_at(self._steps.first)).encode()

    def tables(self) -> bytes:
        """The tables and plans that go with the header; they change with ``tables_version``."""
        before = self._before(self._steps.first)
        return encode({"tables": dict(before.tables), "plans": before.registry.plans()})

    def tables_version(self) -> int | None:
        """The number of changes in what ``tables`` returns; None if there are neither tables nor plans."""
        before = self._before(self._steps.first)
        return before.commands.tables if self.queries.tables or not self.stage.roots else None

    def _before(self, step: int) -> StepBefore:
        return self._steps.before(step, self._now())

    def _header_at(self, step: int) -> dict[str, State]:
        before = self._before(step)
        return {
            "format": HEADER_FORMAT,
            "step": step,
            "progress": {key: p.state() for key, p in before.progress.items()},
            "commands": before.commands.state(),
            "registry": before.registry.state(),
            "stamped": before.stamped,
        }

    def restore_header(self, header: bytes, tables: bytes = b"") -> None:
        """Prepare a new engine to replay the steps from ``needs_from`` on."""
        state = json.loads(header)
        self._build_for(state, decode(tables) if tables else {})
        self._begin_at(state)

    def _build_for(
        self, header: dict[str, State], stored: State, starts: Mapping[str, Start] | None = None
    ) -> None:
        """Start the queries that were registered before the header's step."""
        if header["format"] != HEADER_FORMAT:
            raise EngineError(
                f"the header of the log has format {header['format']}; this version reads {HEADER_FORMAT}"
            )
        self._steps.taken = header["step"]
        self._stamps.last = header["stamped"]
        self._commands = CommandState(**header["commands"])
        self._configure()
        queries, registry = self.queries, Registry.of(header["registry"], stored.get("plans", {}))
        queries.tables = stored.get("tables", queries.tables)
        if starts is None:
            starts = queries.open_starts(registry, header["progress"])
        queries.become(registry, starts)

    def _begin_at(self, header: dict[str, State]) -> None:
        """Begin with the header's step."""
        for key, group in self.groups.items():
            progress = Progress.of(header["progress"][key])
            group.begin_at(progress, self._commands, self._scheduler, self.queries.tables)

    def snapshot(self, whole: bool = True, most: int | None = None) -> Snapshot:
        """The state of the operators that cannot be replayed, or of all operators: then no step before it is
        needed. If it has more than ``most`` bytes, only its size: rebuilds go on without it.
        """
        version = self._steps.taken
        start = version if whole else self._steps.replay_from(self._horizons()[1])
        # A replay must have the operators of the snapshot from its start on.
        if not self._steps.same_queries(start, self.queries.registry):
            start = version
        whole = start == version
        graphs = [g.graph for g in self.groups.values()]
        saved = {e for g in graphs for e in (g.entities if whole else g.unreplayable())}
        before, tops = self._before(start), self._steps.tops_before(start)
        state = {
            "format": SNAPSHOT_FORMAT,
            "version": version,
            "tops": tops,
            "header": self._header_at(start),
            "tables": dict(before.tables),
            "plans": before.registry.plans(),
            "starts": {name: start.state() for name, start in self.queries.starts.items()},
            "inputs": {key: g.inputs for key, g in self.groups.items()} if whole else None,
            "sources": self._sources,
            "operators": [[i, e.node.name, e.operator] for i, e in enumerate(self.entities) if e in saved],
            "plan": [e.node.name for e in self.entities],
        }
        data = encode(state)
        if most is not None and len(data) > most:
            return Snapshot(version, start, b"", len(data))
        self._steps.rest_on_snapshot(start, tops)
        return Snapshot(version, start, data, len(data))

    def restore(self, snapshot: bytes) -> None:
        """Prepare a new engine to replay the steps from the snapshot's ``start`` on."""
        state = decode(snapshot)
        if state["format"] != SNAPSHOT_FORMAT:
            raise SnapshotError(
                f"the snapshot has format {state['format']}; this version reads {SNAPSHOT_FORMAT}"
            )
        if not state["version"]:
            self._check_plan(state["plan"])
            return  # no step was taken: there is no state, and the static rows are yet to be fed
        starts = {name: Start(**start) for name, start in state["starts"].items()}
        self._build_for(state["header"], state, starts)
        self._check_plan(state["plan"])
        self._steps.restore(state["version"], state["header"]["step"], state["tops"])
        entities = self.entities
        for number, _, _ in state["operators"]:
            entities[number].loading = True
        self._begin_at(state["header"])
        self._loading = state
        self._load()
        self._settle()

    def _check_plan(self, saved: list[str]) -> None:
        plan = [e.node.name for e in self.entities]
        if saved != plan:
            raise SnapshotError(f"the snapshot is of the operators {saved}; the plan has {plan}")

    def _load(self) -> None:
        """Load the operators of the snapshot once the replay has reached its version."""
        state = self._loading
        if state is None or self._steps.taken < state["version"]:
            return
        self._loading = None
        self._sources.restore(state["sources"])
        for key, waiting in (state["inputs"] or {}).items():
            self.groups[key].inputs.restore(waiting)
        entities = self.entities
        for number, name, its in state["operators"]:
            _load(entities[number], number, name, its)

    def state_bytes(self) -> int:
        return sum(g.state_bytes() for g in self.groups.values())

    def measure(self) -> Iterator[Reading]:
        """The measurements of the engine, its inputs, operators and queues."""
        yield from under("engine", Kind.ENGINE, self._own())
        yield from self._received.measure()
        yield from self._measure_inputs()
        for group in self.groups.values():
            yield from group.measure()

    def _measure_inputs(self) -> Iterator[Reading]:
        """Each input once: under the clock that left out most of its rows."""
        for name in sorted({n for g in self.groups.values() for n in g.names}):
            reading = [g.inputs for g in self.groups.values() if name in g.names]
            yield from max(reading, key=lambda inputs: inputs.progress.late.get(name, -1)).measure(name)

    def _own(self) -> Iterator[Reading]:
        groups = list(self.groups.values())
        if groups:
            slowest = min(groups, key=lambda g: g.inputs.progress.now)
            yield Reading(Property.STREAM_TIME, slowest.inputs.progress.now)
            if (held_back_by := slowest.inputs.held_back_by()) is not None:
                yield Reading(Property.HELD_BACK_BY, 0, held_back_by)
        yield Reading(Property.WAITING, sum(g.inputs.rows() for g in groups))
        yield from (reading for g in groups for reading in g.incomplete())
        yield Reading(Property.ROWS, sum(g.rows() for g in groups))
        yield Reading(Property.BYTES, self.state_bytes())
        if not self.stage.roots:
            yield Reading(Property.UNSHARED_BYTES, sum(g.unshared_bytes() for g in groups))
        yield Reading(Property.OVERFLOWED, self._memory.on_disk)
        yield Reading(Property.STEPS, self._steps.taken)
        knobs, planned = self._commands.knobs, self.stage.scheduling
        yield Reading(Property.SCHEDULER, 0, knobs.scheduler or planned.scheduler)
        rows = planned.slice_rows if knobs.slice_rows is None else knobs.slice_rows
        yield Reading(Property.SLICE_ROWS, rows or 0)
        for name, value in self._commands.settings.items():
            yield Reading(Property.SETTING, 0, f"{name} = {value}")
        yield Reading(Property.QUEUE_PEAK, sum(g.graph.queue_peak for g in groups))
        yield from percentiles([r for g in groups for its in g.latency.results.values() for r in its])


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


def _tables_of(key: str) -> str:
    """The name under which changes of tables in a clock group are noted."""
    return f"tables of {key}"
