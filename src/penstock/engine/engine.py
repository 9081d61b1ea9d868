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
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from penstock.engine.arrivals import Received, SourcePartitions, Stamps
from penstock.engine.clock_group import ClockGroup
from penstock.engine.command import Command, CommandState
from penstock.engine.element import BEFORE_TIME
from penstock.engine.graph import Entity, producers_first
from penstock.engine.history import Running, look_back
from penstock.engine.input_manager import Progress
from penstock.engine.latency import percentiles
from penstock.engine.operator import Node
from penstock.engine.overflow import Memory
from penstock.engine.registry import QueryPlan, Registered, Registry, apart, since, with_history
from penstock.engine.replay import StepBefore, Steps, tops_of
from penstock.engine.scheduler import SCHEDULERS
from penstock.engine.snapshot import SnapshotError, State, decode, encode
from penstock.engine.stage import (
    STREAMS,
    Arrival,
    MemoryLimit,
    RootOutput,
    Snapshot,
    Stage,
    StageInput,
    StepOutput,
    waits,
)
from penstock.engine.tables import Tables, after, as_batch, changes_of
from penstock.errors import DataError, EngineError
from penstock.measurement import Kind, Property, Reading, under

HEADER_FORMAT = 3
"""Raised when a header of the previous version can no longer be read."""
SNAPSHOT_FORMAT = 5
"""The same for the parts of a snapshot other than operator states, which have their own formats."""


@dataclass(frozen=True)
class _Start:
    """How a running query was started: the first instant that it sees, or by input an earlier one.

    ``begin``: the first instant of its result, if it has rows from before; it then has a clock group of its
    own and shares nothing, until a rebuild finds that what was before its begin no longer matters.
    ``apart``: it shares nothing since sharing is off.
    """

    since: int = int(BEFORE_TIME)
    history: dict[str, int] = field(default_factory=dict)
    begin: int | None = None
    apart: bool = False

    @staticmethod
    def of(query: Registered, apart: bool) -> _Start:
        return _Start(query.since, dict(query.history), query.begin, apart)

    def over(self, plan: QueryPlan) -> dict[str, int]:
        """The first instant that it sees of each stream."""
        return {name: self.history.get(name, self.since) for name in plan.streams}

    def state(self) -> dict[str, State]:
        return {**self.__dict__, "history": dict(self.history)}


class Engine:
    """Runs one partition of a stage: its roots, and the queries that commands register."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._scheduler = SCHEDULERS[stage.scheduling.scheduler]()
        self._numbers = count(1)
        self.groups: dict[str, ClockGroup] = {}
        self._group_of: dict[str, str] = {}
        self._starts: dict[str, _Start] = {}
        self._refused: dict[str, str] = {}
        self._looks: dict[str, tuple[int, int]] = {}
        """When to look next for what a query can share, and how much later after that."""
        self._switches = False
        """Whether queries may have to share, or share no more, after the step."""
        self._own_tables: dict[str, list[str]] = {}
        self._plans: dict[str, QueryPlan] = {}
        self._steps = Steps()
        self._commands = CommandState()
        self._registry = Registry()
        self._tables: Tables = {
            i.name: as_batch(stage.tables[i.name], i.schema) for i in stage.inputs if i.kind == "table"
        }
        self._loading: State = None
        self._sources = SourcePartitions([i for i in stage.inputs if i.kind == "keys"])
        self._received = Received(stage.inputs)
        self._stamps = Stamps(stage.inputs)
        self._memory = Memory(stage.memory)
        tables = tuple(i for i in stage.inputs if i.kind == "table")
        for name, root in stage.roots.items():
            self._start(name, QueryPlan(root, tables), _Start())

    # queries

    def _start(self, name: str, plan: QueryPlan, start: _Start) -> None:
        """Start a root or a registered query."""
        self._starts[name] = start
        if not self._runs_here(plan):
            return
        key = self._group_key(name, plan, start)
        if key not in self.groups:
            self.groups[key] = self._new_group(plan)
        group = self.groups[key]
        if start.begin is None:
            root, first = self._root(name, plan, start), start.since
        else:
            root, first = with_history(plan.root, name, self._registry.queries[name]), start.begin
            group.opens(first, min(start.history.values()))
        group.add(name, root, _tables(plan), None if first == BEFORE_TIME else first)
        self._group_of[name] = key

    def _root(self, name: str, plan: QueryPlan, start: _Start) -> Node:
        """The operators of a query without history."""
        root = apart(plan.root, name) if start.apart else plan.root
        return since(root, start.over(plan))

    def _is_apart(self, plan: QueryPlan) -> bool:
        """Whether a query is to share nothing."""
        sharing = self._commands.knobs.sharing
        return plan.apart if sharing is None else sharing == "off"

    def _runs_here(self, plan: QueryPlan) -> bool:
        return plan.partitions is None or self.stage.partition < plan.partitions

    def _group_key(self, name: str, plan: QueryPlan, start: _Start) -> str:
        """The name of the clock group of a query."""
        late = self._waits(plan)
        key = " + ".join(sorted(self._reads(plan))) + ("" if late else " at once")
        return key if start.begin is None else f"{key} of {name}"

    def _reads(self, plan: QueryPlan) -> frozenset[str]:
        """The inputs that count in the clock of a query."""
        return self._streams if self.stage.one_clock else plan.streams | self._unread

    def _waits(self, plan: QueryPlan) -> bool:
        if not self.stage.roots:
            return plan.waits
        return waits(plan.root) or any(i.waits for i in plan.inputs)

    def _new_group(self, plan: QueryPlan) -> ClockGroup:
        reads = self._reads(plan)
        inputs = (*self.stage.inputs, *plan.inputs)
        streams = [i for i in inputs if i.kind in STREAMS and i.name in reads]
        slice_rows, isolates = self.stage.scheduling.slice_rows, not self.stage.roots
        group = ClockGroup(streams, self._waits(plan), self._numbers, slice_rows, isolates)
        group.inputs.begin(self._registry.highest)
        group.graph.configure(self._commands.knobs)
        return group

    @cached_property
    def _unread(self) -> frozenset[str]:
        """The inputs of a query that none of its operators reads: they count in its clock."""
        if not self.stage.roots:
            return frozenset()
        read = [QueryPlan(root).streams for root in self.stage.roots.values()]
        return self._streams - frozenset().union(*read)

    @cached_property
    def _streams(self) -> frozenset[str]:
        return frozenset(i.name for i in self.stage.inputs if i.kind in STREAMS)

    def _drop(self, name: str) -> None:
        key = self._group_of.pop(name, None)
        self._starts.pop(name, None)
        self._plans.pop(name, None)
        self._looks.pop(name, None)
        own = self._own_tables.pop(name, [])
        self._tables = {n: rows for n, rows in self._tables.items() if n not in own}
        if key is not None:
            self.groups[key].remove(name)
            if not self.groups[key].graph.roots:
                del self.groups[key]

    def _update(self, before: Registry, starts: Mapping[str, _Start] | None = None) -> None:
        """Start and end what has changed in the registry. ``starts``: other starts than it says."""
        for name, query in before.queries.items():
            if self._registry.queries.get(name) != query:
                self._drop(name)
        new = [n for n, q in self._registry.queries.items() if before.queries.get(n) != q]
        for name in new:
            plan = self._decoded(self._registry.queries[name])
            if name in self._registry.asking and self._runs_here(plan):
                self._look_back(name, plan, [n for n in before.queries if n in self._starts])
            self._plans[name] = plan
            self._own_tables[name] = [i.name for i in _tables(plan)]
            rows = {i.name: as_batch(plan.tables[i.name], i.schema) for i in _tables(plan)}
            self._tables = {**rows, **self._tables}
            query, own = self._registry.queries[name], self._is_apart(plan)
            self._start(name, plan, _Start.of(query, own) if starts is None else starts[name])

    def _decoded(self, query: Registered) -> QueryPlan:
        """The plan of a query in this stage."""
        return QueryPlan.decoded(query.plan).at(self.stage.number)

    def _look_back(self, name: str, plan: QueryPlan, others: Sequence[str]) -> None:
        """Give a query the rows that other queries have of its streams, if they have any."""
        if self._registry.failed:
            gone = ", ".join(sorted(self._registry.failed))
            self._refused[name] = f"its history may be in {gone}, which failed in the batch before"
            return
        group = self._new_group(plan)
        begin, there = group.inputs.progress.now, [self._running(n) for n in others]
        if begin == BEFORE_TIME or not self._waits(plan):
            return
        past = look_back(plan, self._registry.queries[name].since, there, self.stage.inputs)
        if past:
            history = {input: rows.since for input, rows in past.items()}
            self._registry = self._registry.with_history(name, history, begin)
            self.groups[self._group_key(name, plan, _Start(begin=begin))] = group
            group.graph.context.history.update({(name, i): rows.chunk() for i, rows in past.items()})

    def _running(self, name: str) -> Running:
        """A running query, whose windows others may read."""
        alone = self._starts[name].begin is not None or self._starts[name].apart
        group = self.groups.get(self._group_of.get(name, ""))
        return Running(name, self._plans[name], self._registry.queries[name], group, alone)

    @property
    def entities(self) -> list[Entity]:
        """The operators in the order of the queries, producers first: the same in every rebuild."""
        found: dict[Entity, None] = {}
        for name, key in self._group_of.items():
            found |= dict.fromkeys(producers_first(self.groups[key].graph.root(name)))
        return list(found)

    # steps

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
        self._registry = before.registry.after(new, self._streams if self.stage.one_clock else None)
        self._update(before.registry)
        self._tables = after(self._tables, changes)
        arrivals = self._stamps.stamp(self._sources.check(arrivals))
        self._received.note(arrivals)
        if not self.stage.roots:
            self._registry = self._registry.shown(arrivals)
        own = {key: g.own(arrivals) for key, g in self.groups.items()}
        found: dict[str, RootOutput] = {}
        with self._memory.in_use():
            for key, group in self.groups.items():
                found |= group.step(own[key], self._commands, self._scheduler, self._tables, changes)
        tops = tops_of(arrivals)
        if changes:
            tops |= {_tables_of(key): g.inputs.progress.changed for key, g in self.groups.items()}
        self._steps.add(before, tops)
        self._load()
        if self._switches and self._loading is None:
            self._switch()
        self._share()
        outputs = {name: self._sent(name, found[name]) for name in self._group_of if name in found}
        failed = self._without_failed()
        self._settle()
        return StepOutput(outputs, *self._forget_steps(), failed)

    def _sent(self, name: str, output: RootOutput) -> RootOutput:
        """The output of a root with what a second stage must know."""
        plan = self._plans.get(name)
        if plan is None or plan.second is None:
            return output
        first, since = output.first, self._registry.queries[name].since
        return replace(output, first=None if first is None else max(first, since), by=plan.by)

    def _configure(self) -> None:
        """Use the settings that commands have changed."""
        knobs = self._commands.knobs
        self._scheduler = SCHEDULERS[knobs.scheduler or self.stage.scheduling.scheduler]()
        if knobs.memory_limit is not None:
            directory = None if self.stage.memory is None else self.stage.memory.directory
            self._memory.limit = MemoryLimit(knobs.memory_limit, directory) if knobs.memory_limit else None
        for group in self.groups.values():
            group.graph.configure(knobs)

    def _now(self) -> StepBefore:
        progress = {key: g.inputs.progress.copy() for key, g in self.groups.items()}
        return StepBefore(
            progress, self._commands, self._tables, self._registry, self._stamps.last, tops={}
        )

    def _without_failed(self) -> dict[str, str]:
        """Drop the queries that raised an error in this step; returns their errors."""
        failed = {name: text for g in self.groups.values() for name, text in g.graph.failed.items()}
        failed |= self._refused
        self._refused = {}
        if failed:
            for group in self.groups.values():
                group.graph.failed = {}
            before, self._registry = self._registry, self._registry.without(failed)
            self._commands = replace(self._commands, tables=self._commands.tables + 1)
            self._update(before)
        return failed

    def _share(self) -> None:
        """Let queries that were registered later share with others what is the same by now."""
        for name in list(self._starts):
            start, key = self._starts[name], self._group_of.get(name)
            if start.since == BEFORE_TIME or start.begin is not None or key is None or self._loading:
                continue
            graph, now, plan = self.groups[key].graph, self.groups[key].now, self._plans[name]
            # Not before its time windows have passed, and then less and less often: looking takes time.
            due, gap = self._looks.get(name, (start.since + plan.span, max(plan.span // 8, 1)))
            if now < due:
                continue
            self._looks[name] = now + gap, 2 * gap
            root = apart(plan.root, name) if start.apart else plan.root
            for equal in graph.share(name, root, start.since):
                self._starts[equal] = _Start(apart=start.apart)
                self._looks.pop(equal, None)

    def _switch(self) -> None:
        """Let queries share or not as the settings say, after a step; the earliest first, whose windows have
        the most rows.

        To be apart a query gets operators of its own, with the state of those that it shared. To share, it
        uses what others run if it is the same as a whole; else it shares from a rebuild on that needs no step
        before the switch.
        """
        self._switches = False
        for name in sorted(self._group_of, key=lambda n: self._starts[n].since):
            start, plan = self._starts[name], self._plans.get(name)
            if plan is None or start.begin is not None or self._is_apart(plan) == start.apart:
                continue
            graph, new = self.groups[self._group_of[name]].graph, replace(start, apart=not start.apart)
            root = self._root(name, plan, new)
            if new.apart:
                graph.separate(name, root)
            elif not graph.share(name, root, start.since):
                continue
            self._starts[name] = new

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
        return before.commands.tables if self._tables or not self.stage.roots else None

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
        self, header: dict[str, State], stored: State, starts: Mapping[str, _Start] | None = None
    ) -> None:
        """Start the queries that were registered before the header's step."""
        if header["format"] != HEADER_FORMAT:
            raise EngineError(
                f"the header of the log has format {header['format']}; this version reads {HEADER_FORMAT}"
            )
        self._steps.taken, before = header["step"], self._registry
        self._stamps.last = header["stamped"]
        self._commands = CommandState(**header["commands"])
        self._configure()
        self._registry = Registry.of(header["registry"], stored.get("plans", {}))
        self._tables = stored.get("tables", self._tables)
        self._update(before, self._open_starts(header["progress"]) if starts is None else starts)

    def _begin_at(self, header: dict[str, State]) -> None:
        """Begin with the header's step."""
        for key, group in self.groups.items():
            progress = Progress.of(header["progress"][key])
            group.begin_at(progress, self._commands, self._scheduler, self._tables)

    def _open_starts(self, progress: Mapping[str, State]) -> dict[str, _Start]:
        """The starts of the queries for a replay: all rows to come are later than most of their first
        instants, and such queries share all that they have in common with others.
        """
        passed = min((p["now"] for p in progress.values()), default=int(BEFORE_TIME))
        found = {}
        for name, query in self._registry.queries.items():
            plan = self._decoded(query)
            start = _Start.of(query, self._is_apart(plan))
            open_from = max(
                *start.over(plan).values(), int(BEFORE_TIME) if start.begin is None else start.begin + 1
            )
            alone = start.begin is not None and self._group_key(name, plan, _Start()) not in progress
            found[name] = _Start(apart=start.apart) if open_from <= passed and not alone else start
        return found

    def snapshot(self, whole: bool = True) -> Snapshot:
        """The state of the operators that cannot be replayed, or of all operators: then no step before it is
        needed.
        """
        version = self._steps.taken
        start = version if whole else self._steps.replay_from(self._horizons()[1])
        # A replay must have the operators of the snapshot from its start on.
        if not self._steps.same_queries(start, self._registry):
            start = version
        whole = start == version
        graphs = [g.graph for g in self.groups.values()]
        saved = {e for g in graphs for e in (g.entities if whole else g.unreplayable())}
        before = self._before(start)
        state = {
            "format": SNAPSHOT_FORMAT,
            "version": version,
            "tops": self._steps.rest_on_snapshot(start),
            "header": self._header_at(start),
            "tables": dict(before.tables),
            "plans": before.registry.plans(),
            "starts": {name: start.state() for name, start in self._starts.items()},
            "inputs": {key: g.inputs for key, g in self.groups.items()} if whole else None,
            "sources": self._sources,
            "operators": [[i, e.node.name, e.operator] for i, e in enumerate(self.entities) if e in saved],
            "plan": [e.node.name for e in self.entities],
        }
        return Snapshot(version, start, encode(state))

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
        starts = {name: _Start(**start) for name, start in state["starts"].items()}
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


def _tables(plan: QueryPlan) -> list[StageInput]:
    """The static tables among a query's own inputs."""
    return [i for i in plan.inputs if i.kind == "table"]


def _tables_of(key: str) -> str:
    """The name under which changes of tables in a clock group are noted."""
    return f"tables of {key}"
