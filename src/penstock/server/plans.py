"""A plan as nodes and edges, from the measurements of its engines.

A plan that does not run is measured as well: engines are made of its stages and asked before any row has
come, so that nodes have the same names before and while a query runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.engine.engine import Engine
from penstock.engine.registry import exchange_of
from penstock.measurement import Kind, Measurement, Measurements, Property, measured, name_of, parent_of
from penstock.plan.explain import described_input
from penstock.plan.physical import ExchangeInput, PlannedStage
from penstock.plan.second_stage import stage_name
from penstock.server.views import Ordering, Part, PlanEdge, PlanNode, PlanView, Shown, StageView

_SUMMED = {
    Property.ROWS, Property.BYTES, Property.ELEMENTS, Property.SECONDS, Property.THROUGHPUT,
    Property.RECEIVED, Property.LATE, Property.PROBES, Property.WAITING, Property.QUEUE_PEAK,
    Property.UPDATES, Property.TUPLES, Property.EVALUATIONS, Property.PROFILED, Property.CHANGES,
    Property.RECALLED, Property.HITS, Property.MISSES, Property.EVICTED, Property.ENTRIES,
    Property.CPU_SECONDS, Property.OVERFLOWED, Property.SHED, Property.ROWS_ALLOTTED,
    Property.ROWS_NEEDED, Property.UNMATCHED,
}  # fmt: skip
"""What partitions have together; of other properties the largest value is shown, or the mean of ratios."""
_MEAN = {Property.SELECTIVITY, Property.MATCHES_PER_PROBE, Property.MEASURED_RECALL, Property.EXPECTED_RECALL}
_OWN = {Property.NAME, Property.DESCRIPTION, Property.FROM, Property.ORDER, Property.STORE}
"""Properties that are fields of a node, not in its list."""


def planned_measurements(stages: Sequence[PlannedStage], query: str = "plan") -> Measurements:
    """What the engines of a plan publish before their first step.

    Tables have no rows here: their number is not known without reading them.
    """
    found: list[Measurement] = []
    for number, planned in enumerate(stages, start=1):
        empty = {i.name: i.schema.empty_table() for i in planned.stage.inputs if i.kind == "table"}
        engine = Engine(replace(planned.stage, tables={**empty, **planned.stage.tables}))
        for partition in range(planned.partitions):
            found += measured(engine.measure(), query, number, partition)
    return Measurements(found)


@dataclass(frozen=True)
class _Entity:
    """An entity over the partitions that have it."""

    stage: int
    path: str
    kind: Kind
    by_partition: Mapping[int, Measurements]

    @property
    def id(self) -> str:
        return node_id(self.stage, self.path)

    @property
    def any(self) -> Measurements:
        return next(iter(self.by_partition.values()))

    def value(self, prop: Property) -> float:
        each = [own.value(prop) for own in self.by_partition.values() if own.has(prop)]
        return combined(prop, each)

    def text(self, prop: Property) -> str:
        return self.any.text(prop)

    def parts(self, busy: Mapping[tuple[str, int], float]) -> tuple[Part, ...]:
        return tuple(
            Part(
                p,
                own.value(Property.ROWS),
                own.value(Property.BYTES),
                own.value(Property.ELEMENTS, own.value(Property.RECEIVED)),
                own.value(Property.THROUGHPUT),
                own.value(Property.SECONDS),
                busy.get((self.id, p)),
            )
            for p, own in sorted(self.by_partition.items())
        )

    def shown(self) -> tuple[Shown, ...]:
        """The properties by name and text, over all partitions."""
        values: dict[tuple[Property, str], list[float]] = defaultdict(list)
        for own in self.by_partition.values():
            for m in own:
                if m.property not in _OWN:
                    values[m.property, m.text].append(m.value)
        return tuple(
            Shown(str(p), combined(p, each), text, p.unit, p.doc) for (p, text), each in values.items()
        )


def combined(prop: Property, each: Sequence[float]) -> float:
    """The value of a property over several partitions."""
    if not each:
        return 0.0
    if prop in _SUMMED:
        return float(sum(each))
    return float(sum(each) / len(each)) if prop in _MEAN else float(max(each))


def node_id(stage: int, entity: str) -> str:
    """The id of an entity's node."""
    return f"{stage}/{entity}"


def plan_view(
    query: str,
    found: Measurements,
    stages: Sequence[PlannedStage] = (),
    partition: int | None = None,
    root: str = "",
    busy: Mapping[tuple[str, int], float] | None = None,
    running: bool = True,
    notes: Sequence[str] = (),
) -> PlanView:
    """The plan of measured engines; ``root``: only what one query of a pipeline needs.

    ``busy``: by node and partition, the share of wall time that it ran.
    """
    if partition is not None:
        found = Measurements(m for m in found if m.partition == partition)
    drawing = _Drawing(found, stages, busy or {})
    nodes, edges = drawing.nodes(), drawing.edges()
    if root:
        nodes, edges = _needed_by(root, nodes, edges)
    time = max((m.time for m in found), default=0) / 1e6
    named = tuple(sorted({q for n in nodes for q in n.queries}))
    shown = (tuple(nodes), tuple(edges), tuple(drawing.stage_views()))
    return PlanView(query, running, *shown, named, partition, tuple(notes), time)


class _Drawing:
    def __init__(
        self, found: Measurements, stages: Sequence[PlannedStage], busy: Mapping[tuple[str, int], float]
    ) -> None:
        self._found, self._stages, self._busy = found, stages, busy
        self._entities = {(e.stage, e.path): e for e in _entities(found)}
        self._children: dict[tuple[int, str], list[_Entity]] = defaultdict(list)
        for e in self._entities.values():
            self._children[e.stage, parent_of(e.path)].append(e)
        self._feeds = list(self._queues())
        self._users = self._queries()

    def _queues(self) -> Iterator[tuple[_Entity, str, str]]:
        """Each queue with the nodes that it connects."""
        for e in self._entities.values():
            if e.kind is Kind.QUEUE:
                source = node_id(e.stage, e.text(Property.FROM))
                yield e, source, node_id(e.stage, parent_of(e.path))

    def _queries(self) -> dict[str, set[str]]:
        """The roots that need each node."""
        feeders: dict[str, list[str]] = defaultdict(list)
        for _, source, target in self._feeds:
            feeders[target].append(source)
        users: dict[str, set[str]] = defaultdict(set)
        for e in self._of(Kind.ROOT):
            waiting = [node_id(e.stage, e.text(Property.FROM))]
            while waiting:
                at = waiting.pop()
                if name_of(e.path) not in users[at]:
                    users[at].add(name_of(e.path))
                    waiting += feeders[at]
        return users

    def _of(self, kind: Kind) -> list[_Entity]:
        return [e for e in self._entities.values() if e.kind is kind]

    # nodes

    def nodes(self) -> list[PlanNode]:
        found = [*self._sources()]
        for e in self._of(Kind.OPERATOR):
            found += self._operator(e)
        found += self._shared_stores()
        found += self._results()
        return found

    def _sources(self) -> Iterator[PlanNode]:
        """What feeds the stages: streams, tables and the exchanges from the stage before."""
        labels = {
            (number, i.name): described_input(i, planned.partitions)
            for number, planned in enumerate(self._stages, start=1)
            for i in planned.inputs
        }
        for e in self._of(Kind.INPUT):
            if e.stage > 1:
                continue
            name = name_of(e.path)
            yield replace(
                self._node(e, "source", name, labels.get((e.stage, name), "")),
                elements=e.value(Property.RECEIVED),
            )
        known = {(e.stage, name_of(e.path)) for e in self._of(Kind.INPUT)}
        for number, planned in enumerate(self._stages, start=1):
            for i in planned.inputs:
                if (number, i.name) not in known and not isinstance(i, ExchangeInput):
                    users = tuple(sorted(self._users[node_id(number, f"input/{i.name}")]))
                    label = labels[number, i.name]
                    yield PlanNode(
                        node_id(number, f"input/{i.name}"), "source", i.name, label, number, queries=users
                    )

    def _operator(self, e: _Entity) -> Iterator[PlanNode]:
        name = e.text(Property.NAME)
        kind = "window" if name.endswith("window") else "operator"
        node = self._node(e, kind, name, e.text(Property.DESCRIPTION))
        orders, budget, settings = [], "", dict[str, None]()
        for part in self._below(e):
            if part.any.has(Property.ORDER):
                orders.append(_ordering(e, part))
                settings |= dict.fromkeys(("filters", "profiling"))
            if part.any.has(Property.BUDGET):
                budget = part.text(Property.BUDGET)
                settings["budget"] = None
            if part.kind is Kind.CACHE:
                yield replace(
                    self._node(part, "cache", "cache", part.text(Property.DESCRIPTION)), part_of=node.id
                )
            if part.any.has(Property.METHOD) and not part.any.has(Property.ORDER):
                method = part.text(Property.METHOD)
                index = self._node(part, "index", method, part.text(Property.DESCRIPTION))
                settings["access_method"] = None
                yield replace(index, part_of=node.id, method=method, settings=("access_method",))
        yield replace(node, orders=tuple(orders), budget=budget, settings=tuple(settings))

    def _below(self, e: _Entity) -> Iterator[_Entity]:
        for child in self._children[e.stage, e.path]:
            yield child
            yield from self._below(child)

    def _shared_stores(self) -> Iterator[PlanNode]:
        """Stores, with the windows that fill them and the operators that have a stub."""
        for e in self._of(Kind.STORE):
            users = [self._entities[e.stage, path] for path in dict.fromkeys(e.any.texts(Property.USED_BY))]
            writers = [u for u in users if u.text(Property.NAME).endswith("window")]
            readers = tuple(u.id for u in users if u not in writers)
            label = f"{len(readers)} stub{'s' * (len(readers) != 1)}"
            yield replace(
                self._node(e, "store", name_of(e.path), label),
                queries=tuple(sorted({q for u in users for q in self._users[u.id]})),
                readers=readers,
                writers=tuple(u.id for u in writers),
                properties=(),
                settings=("memory_limit",),
            )

    def _results(self) -> Iterator[PlanNode]:
        last = max((e.stage for e in self._of(Kind.ROOT)), default=1)
        for e in self._of(Kind.ROOT):
            if e.stage == last:
                name = name_of(e.path)
                yield replace(self._node(e, "result", name, ""), queries=(name,))

    def _node(self, e: _Entity, kind: str, name: str, label: str) -> PlanNode:
        parts = e.parts(self._busy)
        each = [p.busy for p in parts if p.busy is not None]
        return PlanNode(
            e.id,
            kind,
            name,
            label,
            e.stage,
            rows=e.value(Property.ROWS),
            bytes=e.value(Property.BYTES),
            elements=e.value(Property.ELEMENTS),
            rate=e.value(Property.THROUGHPUT),
            seconds=e.value(Property.SECONDS),
            busy=max(each) if each else None,
            selectivity=e.value(Property.SELECTIVITY) if e.any.has(Property.SELECTIVITY) else None,
            queries=tuple(sorted(self._users[e.id])),
            properties=e.shown(),
            parts=parts,
        )

    # edges

    def edges(self) -> list[PlanEdge]:
        found = [*self._queue_edges(), *self._stub_edges(), *self._exchange_edges()]
        last = max((e.stage for e in self._of(Kind.ROOT)), default=1)
        for e in self._of(Kind.ROOT):
            if e.stage == last:
                source = node_id(e.stage, e.text(Property.FROM))
                numbers = (e.value(Property.ELEMENTS), e.value(Property.THROUGHPUT))
                found.append(PlanEdge(source, e.id, "queue", "", *numbers))
        return found

    def _queue_edges(self) -> Iterator[PlanEdge]:
        for e, source, target in self._feeds:
            if source.partition("/")[2].startswith("input/") and e.stage > 1:
                continue
            fed = self._entities.get((e.stage, source.partition("/")[2]))
            rate = fed.value(Property.THROUGHPUT) if fed else 0.0
            kind = "exchange" if fed and fed.kind is Kind.INPUT else "queue"
            numbers = (e.value(Property.ELEMENTS), rate, e.value(Property.ROWS))
            yield PlanEdge(source, target, kind, "", *numbers)

    def _stub_edges(self) -> Iterator[PlanEdge]:
        for node in self._shared_stores():
            yield from (PlanEdge(w, node.id, "stub") for w in node.writers)
            yield from (PlanEdge(node.id, r, "stub") for r in node.readers)

    def _exchange_edges(self) -> Iterator[PlanEdge]:
        """From the root of a stage to the source of the next that has its elements, query by query."""
        for e, source, target in self._feeds:
            if e.stage == 1 or not source.partition("/")[2].startswith("input/"):
                continue
            for root in self._of(Kind.ROOT):
                fed = (exchange_of(name_of(root.path)), stage_name(root.stage - 1))
                if root.stage == e.stage - 1 and name_of(source) in fed:
                    label = self._moved(e.stage)
                    numbers = (root.value(Property.ELEMENTS), root.value(Property.THROUGHPUT))
                    yield PlanEdge(
                        node_id(root.stage, root.text(Property.FROM)), target, "exchange", label, *numbers
                    )

    def _moved(self, stage: int) -> str:
        if stage > len(self._stages):
            return ""
        planned = self._stages[stage - 1]
        return "; ".join(described_input(i, planned.partitions) for i in planned.inputs)

    def stage_views(self) -> Iterator[StageView]:
        for number in sorted({e.stage for e in self._entities.values()}):
            engine = self._entities.get((number, "engine"))
            planned = self._stages[number - 1] if number <= len(self._stages) else None
            partitions = len({m.partition for m in self._found if m.stage == number})
            slice_rows = int(engine.value(Property.SLICE_ROWS)) if engine else 0
            yield StageView(
                number,
                planned.partitions if planned else partitions,
                planned.why if planned else "",
                engine.text(Property.SCHEDULER) if engine else "",
                slice_rows or None,
                engine.value(Property.STEP_SECONDS) if engine else 0.0,
                engine.value(Property.QUEUE_PEAK) if engine else 0.0,
            )


def _entities(found: Measurements) -> Iterator[_Entity]:
    places: dict[tuple[int, str], dict[int, list[Measurement]]] = {}
    for m in found:
        places.setdefault((m.stage, m.entity), {}).setdefault(m.partition, []).append(m)
    for (stage, path), partitions in places.items():
        first = next(iter(partitions.values()))[0]
        yield _Entity(stage, path, first.kind, {p: Measurements(own) for p, own in partitions.items()})


def _ordering(operator: _Entity, e: _Entity) -> Ordering:
    label = name_of(e.path) if parent_of(e.path) == operator.path else name_of(parent_of(e.path))
    return Ordering(
        label,
        tuple(e.any.texts(Property.ORDER)),
        e.text(Property.ALGORITHM),
        int(e.value(Property.CHANGES)),
        int(e.value(Property.PROFILED)),
        int(e.value(Property.TUPLES)),
        e.id,
    )


def _needed_by(
    root: str, nodes: Sequence[PlanNode], edges: Sequence[PlanEdge]
) -> tuple[list[PlanNode], list[PlanEdge]]:
    """The part of a plan that one query needs."""
    owners = {n.id for n in nodes if root in n.queries}
    kept = [n for n in nodes if n.id in owners or n.part_of in owners]
    ids = {n.id for n in kept}
    return kept, [e for e in edges if e.source in ids and e.target in ids]
