"""The queries that an engine runs, in clock groups: how they start and end, and what they share.

A stage begins with its roots; the others come and go by the registry. A query that comes later sees the rows
since an instant, and shares with others what is the same by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from penstock.engine.clock_group import ClockGroup
from penstock.engine.element import BEFORE_TIME, Chunk
from penstock.engine.entity import Entity, producers_first
from penstock.engine.history import Past, Running, look_back
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Node
from penstock.engine.registry import QueryPlan, Registered, Registry, apart, since, with_history
from penstock.engine.snapshot import State
from penstock.engine.stage import STREAMS, RootOutput, Stage, StageInput, waits
from penstock.engine.tables import Tables, as_batch


@dataclass(frozen=True)
class Start:
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
    def of(query: Registered, apart: bool) -> Start:
        return Start(query.since, dict(query.history), query.begin, apart)

    def over(self, plan: QueryPlan) -> dict[str, int]:
        """The first instant that it sees of each stream."""
        return {name: self.history.get(name, self.since) for name in plan.streams}

    def state(self) -> dict[str, State]:
        return {**self.__dict__, "history": dict(self.history)}


class Queries:
    """The roots and registered queries of an engine, by name.

    ``tables``: the rows of static tables, of the stage and of its queries. ``knobs``: the settings in force.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.groups: dict[str, ClockGroup] = {}
        self.group_of: dict[str, str] = {}
        self.starts: dict[str, Start] = {}
        self.plans: dict[str, QueryPlan] = {}
        self.registry = Registry()
        self.knobs = Knobs()
        self.tables: Tables = {
            i.name: as_batch(stage.tables[i.name], i.schema) for i in stage.inputs if i.kind == "table"
        }
        self._numbers = count(1)
        self._refused: dict[str, str] = {}
        self._looks: dict[str, tuple[int, int]] = {}
        """When to look next for what a query can share, and how much later after that."""
        self._own_tables: dict[str, list[str]] = {}
        own = tuple(i for i in stage.inputs if i.kind == "table")
        for name, root in stage.roots.items():
            self._start(name, QueryPlan(root, own), Start())

    def _start(self, name: str, plan: QueryPlan, start: Start) -> None:
        """Start a root or a registered query."""
        self.starts[name] = start
        if not self._runs_here(plan):
            return
        key = self._group_key(name, plan, start)
        if key not in self.groups:
            self.groups[key] = self._new_group(plan)
        group = self.groups[key]
        if start.begin is None:
            root, first = self._root(name, plan, start), start.since
        else:
            root, first = with_history(plan.root, name, self.registry.queries[name]), start.begin
            group.opens(first, min(start.history.values()))
        group.add(name, root, _tables(plan), None if first == BEFORE_TIME else first)
        self.group_of[name] = key

    def _root(self, name: str, plan: QueryPlan, start: Start) -> Node:
        """The operators of a query without history."""
        root = apart(plan.root, name) if start.apart else plan.root
        return since(root, start.over(plan))

    def _is_apart(self, plan: QueryPlan) -> bool:
        """Whether a query is to share nothing."""
        sharing = self.knobs.sharing
        return plan.apart if sharing is None else sharing == "off"

    def _runs_here(self, plan: QueryPlan) -> bool:
        return plan.partitions is None or self.stage.partition < plan.partitions

    def _group_key(self, name: str, plan: QueryPlan, start: Start) -> str:
        """The name of the clock group of a query."""
        late = self._waits(plan)
        key = " + ".join(sorted(self._reads(plan))) + ("" if late else " at once")
        return key if start.begin is None else f"{key} of {name}"

    def _reads(self, plan: QueryPlan) -> frozenset[str]:
        """The inputs that count in the clock of a query."""
        return self.streams if self.stage.one_clock else plan.streams | self._unread

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
        group.inputs.begin(self.registry.highest)
        group.graph.configure(self.knobs)
        return group

    @cached_property
    def _unread(self) -> frozenset[str]:
        """The inputs of a query that none of its operators reads: they count in its clock."""
        if not self.stage.roots:
            return frozenset()
        read = [QueryPlan(root).streams for root in self.stage.roots.values()]
        return self.streams - frozenset().union(*read)

    @cached_property
    def streams(self) -> frozenset[str]:
        """The names of the stage's inputs, tables left out."""
        return frozenset(i.name for i in self.stage.inputs if i.kind in STREAMS)

    def _drop(self, name: str) -> None:
        key = self.group_of.pop(name, None)
        self.starts.pop(name, None)
        self.plans.pop(name, None)
        self._looks.pop(name, None)
        own = self._own_tables.pop(name, [])
        self.tables = {n: rows for n, rows in self.tables.items() if n not in own}
        if key is not None:
            self.groups[key].remove(name)
            if not self.groups[key].graph.roots:
                del self.groups[key]

    def become(self, registry: Registry, starts: Mapping[str, Start] | None = None) -> None:
        """Start and end what differs in a registry. ``starts``: other starts than it says."""
        before, self.registry = self.registry, registry
        plans = {n: self._decoded(q) for n, q in registry.queries.items() if before.queries.get(n) != q}
        asking = [n for n in registry.asking if n in plans and self._runs_here(plans[n])]
        # Before the queries that end in this step do: they served those that were registered earlier in it.
        past = {n: self._look_back(n, plans[n], registry.asking[n]) for n in asking}
        rows = {n: {i: p.chunk() for i, p in its.items()} for n, its in past.items()}
        for name, query in before.queries.items():
            if registry.queries.get(name) != query:
                self._drop(name)
        for name in asking:
            if past[name]:
                self._give(name, plans[name], {i: p.since for i, p in past[name].items()}, rows[name])
        for name, plan in plans.items():
            self.plans[name] = plan
            self._own_tables[name] = [i.name for i in _tables(plan)]
            own_rows = {i.name: as_batch(plan.tables[i.name], i.schema) for i in _tables(plan)}
            self.tables = {**own_rows, **self.tables}
            query, own = self.registry.queries[name], self._is_apart(plan)
            self._start(name, plan, Start.of(query, own) if starts is None else starts[name])

    def _decoded(self, query: Registered) -> QueryPlan:
        """The plan of a query in this stage."""
        return QueryPlan.decoded(query.plan).at(self.stage.number)

    def _look_back(self, name: str, plan: QueryPlan, others: Mapping[str, Registered]) -> dict[str, Past]:
        """The rows that other queries have of a new query's streams, by input."""
        if self.registry.failed:
            gone = ", ".join(sorted(self.registry.failed))
            self._refused[name] = f"its history may be in {gone}, which failed in the batch before"
            return {}
        if self._new_group(plan).inputs.progress.now == BEFORE_TIME or not self._waits(plan):
            return {}
        there = [self._running(n, q) for n, q in others.items()]
        return look_back(plan, self.registry.queries[name].since, there, self.stage.inputs)

    def _give(self, name: str, plan: QueryPlan, past: Mapping[str, int], rows: Mapping[str, Chunk]) -> None:
        """Let a new query begin with rows from before, by input, that it sees since these instants."""
        group = self._new_group(plan)
        begin = group.inputs.progress.now
        self.registry = self.registry.with_history(name, past, begin)
        self.groups[self._group_key(name, plan, Start(begin=begin))] = group
        group.graph.context.history.update({(name, i): chunk for i, chunk in rows.items()})

    def _running(self, name: str, registered: Registered) -> Running:
        """A running query, whose windows others may read."""
        alone = self.starts[name].begin is not None or self.starts[name].apart
        group = self.groups.get(self.group_of.get(name, ""))
        return Running(name, self.plans[name], registered, group, alone)

    @property
    def entities(self) -> list[Entity]:
        """The operators in the order of the queries, producers first: the same in every rebuild."""
        found: dict[Entity, None] = {}
        for name, key in self.group_of.items():
            found |= dict.fromkeys(producers_first(self.groups[key].graph.root(name)))
        return list(found)

    def sent(self, name: str, output: RootOutput) -> RootOutput:
        """The output of a root with what a second stage must know."""
        plan = self.plans.get(name)
        if plan is None or plan.second is None:
            return output
        first, since = output.first, self.registry.queries[name].since
        return replace(output, first=None if first is None else max(first, since), by=plan.by)

    def failed(self) -> dict[str, str]:
        """The queries that raised an error in this step, or could not be started, with their errors."""
        found = {name: text for g in self.groups.values() for name, text in g.graph.failed.items()}
        found |= self._refused
        self._refused = {}
        for group in self.groups.values():
            group.graph.failed = {}
        return found

    def share(self) -> None:
        """Let queries that were registered later share with others what is the same by now."""
        for name in list(self.starts):
            start, key = self.starts[name], self.group_of.get(name)
            if start.since == BEFORE_TIME or start.begin is not None or key is None:
                continue
            graph, now, plan = self.groups[key].graph, self.groups[key].now, self.plans[name]
            # Not before its time windows have passed, and then less and less often: looking takes time.
            due, gap = self._looks.get(name, (start.since + plan.span, max(plan.span // 8, 1)))
            if now < due:
                continue
            self._looks[name] = now + gap, 2 * gap
            root = apart(plan.root, name) if start.apart else plan.root
            for equal in graph.share(name, root, start.since):
                self.starts[equal] = Start(apart=start.apart)
                self._looks.pop(equal, None)

    def switch(self) -> None:
        """Let queries share or not as the settings say, after a step; the earliest first, whose windows have
        the most rows.

        To be apart a query gets operators of its own, with the state of those that it shared. To share, it
        uses what others run if it is the same as a whole; else it shares from a rebuild on that needs no step
        before the switch.
        """
        for name in sorted(self.group_of, key=lambda n: self.starts[n].since):
            start, plan = self.starts[name], self.plans.get(name)
            if plan is None or start.begin is not None or self._is_apart(plan) == start.apart:
                continue
            graph, new = self.groups[self.group_of[name]].graph, replace(start, apart=not start.apart)
            root = self._root(name, plan, new)
            if new.apart:
                graph.separate(name, root)
            elif not graph.share(name, root, start.since):
                continue
            self.starts[name] = new

    def open_starts(self, registry: Registry, progress: Mapping[str, State]) -> dict[str, Start]:
        """The starts of the queries for a replay: all rows to come are later than most of their first
        instants, and such queries share all that they have in common with others.
        """
        passed = min((p["now"] for p in progress.values()), default=int(BEFORE_TIME))
        found = {}
        for name, query in registry.queries.items():
            plan = self._decoded(query)
            start = Start.of(query, self._is_apart(plan))
            open_from = max(
                *start.over(plan).values(), int(BEFORE_TIME) if start.begin is None else start.begin + 1
            )
            alone = start.begin is not None and self._group_key(name, plan, Start()) not in progress
            found[name] = Start(apart=start.apart) if open_from <= passed and not alone else start
        return found


def _tables(plan: QueryPlan) -> list[StageInput]:
    """The static tables among a query's own inputs."""
    return [i for i in plan.inputs if i.kind == "table"]
