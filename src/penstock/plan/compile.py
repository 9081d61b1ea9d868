"""Compile a bound query: optimize, choose how to spread it, build the operators stage by stage."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.element import Pattern
from penstock.engine.operator import Node
from penstock.engine.operators.aggregate import Aggregate, AggregateColumn
from penstock.engine.operators.project import Project
from penstock.engine.operators.select import Select
from penstock.engine.operators.source import Source
from penstock.engine.stage import Stage, StageInput
from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.build import Builder, to_stream
from penstock.plan.combine import parts
from penstock.plan.optimizer import optimize
from penstock.plan.partition import Scheme, Shape, choose, shape, source_of, windows_of
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage
from penstock.settings import Settings

EXCHANGE = "stage 1"
"""The name under which a second stage knows the first."""


def compile(query: logical.Query, partitions: int = 1, settings: Settings | None = None) -> PhysicalPlan:
    """The physical plan of a query on up to ``partitions`` partitions."""
    root = optimize(query.root)
    stages = tuple(_Compiler(query, root, partitions, settings or Settings()).stages())
    kind = "stream" if isinstance(root, logical.ToStream) else "relation"
    return PhysicalPlan(stages, query.time, kind, root.schema, query.notes)


class _Compiler:
    def __init__(
        self, query: logical.Query, root: logical.Logical, partitions: int, settings: Settings
    ) -> None:
        self._time, self._filters = query.time, settings.filters
        self._relation, self._kind, self._every = root, None, None
        if isinstance(root, logical.ToStream):
            self._relation, self._kind, self._every = root.input, root.kind, root.every
        self._shape = shape(root)
        self._scheme = self._choose(partitions)
        self._partitions = partitions if self._scheme.keys else 1
        # A clock that ticks at every instant with input must see also those of rows that a filter drops.
        by_instants = self._kind == "rstream" and self._every is None and query.time.kind == "timestamp"
        self._builder = Builder(query.time, self._scheme.keys, not by_instants, settings.filters)

    def _choose(self, partitions: int) -> Scheme:
        if partitions == 1:
            return Scheme(why="one partition was asked for")
        if self._shape is None:
            return Scheme(why="subqueries, outer joins and set operations are not spread")
        return choose(self._shape, nets=not _passes_on(self._shape))

    def stages(self) -> Iterator[PlannedStage]:
        match self._scheme.then:
            case "combine":
                yield from self._combined()
            case "net":
                yield from self._netted()
            case _:
                yield self._first(self._to_stream(self._builder.exact(self._relation)))

    def _to_stream(self, node: Node) -> Node:
        lives = self._shape is not None and _distinct_lives(self._shape)
        return to_stream(node, self._kind, self._every, self._time, lives)

    def _first(self, root: Node) -> PlannedStage:
        stage = Stage(root, tuple(self._builder.stage_inputs), _waits(root))
        return PlannedStage(stage, self._partitions, tuple(self._builder.host_inputs), self._scheme.why)

    def _second(self, root: Node, first: Node, by: tuple[str, ...], partitions: int) -> PlannedStage:
        incoming = StageInput(EXCHANGE, first.schema, "exchange", upstream=self._partitions)
        stage = Stage(root, (incoming,), _waits(root))
        return PlannedStage(stage, partitions, (ExchangeInput(EXCHANGE, by),))

    def _netted(self) -> Iterator[PlannedStage]:
        first = self._builder.exact(self._relation)
        yield self._first(first)
        source = Source(EXCHANGE, first.schema, first.pattern)
        yield self._second(self._to_stream(source), first, tuple(first.schema.names), self._partitions)

    def _combined(self) -> Iterator[PlannedStage]:
        assert self._shape is not None and self._shape.aggregate is not None
        aggregate = self._shape.aggregate
        both = [(name, parts(name, call)) for name, call in aggregate.calls]
        partials = {p[0]: p for _, two in both for p in two.partial}
        first = self._builder.grouped(aggregate, tuple(partials.values()))
        yield self._first(first)
        source = Source(EXCHANGE, first.schema, Pattern.CHANGING)
        keys = tuple(name for name, _ in aggregate.keys)
        finals = tuple(AggregateColumn(*f) for _, two in both for f in two.final)
        whole = Aggregate(source, keys, finals)
        results: list[tuple[str, Expression]] = [(k, Column(k, whole.schema.field(k).type)) for k in keys]
        shown: Node = Project(whole, (*results, *((name, two.result) for name, two in both)))
        if self._shape.having:
            shown = Select(shown, self._shape.having, self._filters)
        root = self._to_stream(Project(shown, self._shape.project.columns))
        yield self._second(root, first, keys, self._partitions if self._scheme.spread else 1)


def _waits(root: Node) -> bool:
    return root.waits or any(_waits(i) for i in root.inputs)


def _passes_on(taken: Shape) -> bool:
    """Whether results are shown as they are found, so that none can cancel another."""
    grows = all(w.spec.size is None for w in windows_of(taken.body)) and taken.aggregate is None
    return taken.kind == "istream" and (grows or _distinct_lives(taken))


def _distinct_lives(taken: Shape) -> bool:
    """Whether results that are equal also begin and end together: they show every part's timestamp."""
    if taken.aggregate is not None:
        return False
    shown = {e.name for _, e in taken.project.columns if isinstance(e, Column)}
    for window in windows_of(taken.body):
        source = source_of(window)
        stamp = source.stream.timestamp
        if window.spec.by_rows or stamp is None or f"{source.alias}.{stamp}" not in shown:
            return False
    return True
