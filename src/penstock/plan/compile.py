"""Compile a bound query: optimize, choose how to spread it, build the operators stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from penstock.budget import Sample
from penstock.cost import weights
from penstock.cost.model import ByCost
from penstock.engine.operator import Node
from penstock.engine.operators.source import Source
from penstock.engine.stage import RESULT, Stage, StageInput
from penstock.plan import logical
from penstock.plan.budgeted import budgeted
from penstock.plan.build import Builder, to_stream
from penstock.plan.optimizer import optimize
from penstock.plan.partition import Scheme, choose
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage
from penstock.plan.sampled import sampled
from penstock.plan.second_stage import TwoStages
from penstock.plan.sharing import shared
from penstock.plan.update_patterns import distinct_lives
from penstock.settings import Settings

EXCHANGE = "stage 1"
"""The name under which a second stage knows the first."""


def compile(
    query: logical.Query,
    partitions: int = 1,
    settings: Settings | None = None,
    rates: Mapping[str, float] | None = None,
) -> PhysicalPlan:
    """The physical plan of a query on up to ``partitions`` partitions; ``rates`` are rows a second."""
    root = optimize(query.root)
    if query.within is not None and isinstance(query.within.goal, Sample):
        root = sampled(root, query.within.goal)
    root = logical.numbered(root)
    scheme = _spread(query, root, partitions, rates)
    stages = tuple(_Compiler(query, root, scheme, settings or Settings()).stages())
    kind = "stream" if isinstance(root, logical.ToStream) else "relation"
    shared = settings.memory if settings and query.within and query.within.shared else None
    return PhysicalPlan(stages, query.time, kind, root.schema, query.notes, shared)


def _spread(
    query: logical.Query, root: logical.Logical, partitions: int, rates: Mapping[str, float] | None
) -> Scheme:
    scheme = choose(root, query.time, partitions, rates)
    by_key = all(len(r.axes) == 1 and r.axes[0].keys for r in scheme.routes.values())
    if query.within is not None and not by_key:
        return Scheme(why="a budget is shared out by the key of a join, and here no key splits both sides")
    return scheme


class _Compiler:
    def __init__(
        self, query: logical.Query, root: logical.Logical, scheme: Scheme, settings: Settings
    ) -> None:
        self._time, self._filters, self._scheme = query.time, settings.filters, scheme
        self._relation, self._kind, self._every = root, None, None
        if isinstance(root, logical.ToStream):
            self._relation, self._kind, self._every = root.input, root.kind, root.every
        self._partitions = scheme.cube.partitions if scheme.cube else 1
        # A clock that ticks at every instant with input must see also those of rows that a filter drops.
        by_instants = self._kind == "rstream" and self._every is None and query.time.kind == "timestamp"
        self._chooser = ByCost(weights.load())
        routed = (query.time, scheme.routes, None)
        self._builder = Builder(*routed, not by_instants, settings.filters, self._chooser)
        if query.within is not None:
            self._builder.budgeted = partial(budgeted, query.within, settings, query.time, root)

    def stages(self) -> Iterator[PlannedStage]:
        if self._scheme.stages is None:
            yield self._first(self._to_stream(self._builder.exact(self._relation)))
        else:
            yield from self._two(self._scheme.stages)

    def _to_stream(self, node: Node) -> Node:
        return to_stream(node, self._kind, self._every, self._time, distinct_lives(self._relation))

    def _first(self, root: Node) -> PlannedStage:
        root, taken, inputs = shared(root, self._builder.stage_inputs, self._builder.host_inputs)
        stage = Stage({RESULT: root}, taken)
        notes = (*_cube(self._scheme), *self._scheme.unsplit)
        return PlannedStage(stage, self._partitions, inputs, self._scheme.why, notes)

    def _two(self, stages: TwoStages) -> Iterator[PlannedStage]:
        first = self._builder.exact(stages.first)
        yield self._first(first)
        source = Source(EXCHANGE, first.schema, first.pattern)
        builder = Builder(self._time, exchange=source, filters=self._filters, chooser=self._chooser)
        root = self._to_stream(builder.exact(stages.second))
        incoming = StageInput(EXCHANGE, first.schema, "exchange", upstream=self._partitions)
        stage = Stage({RESULT: root}, (incoming,))
        partitions = self._partitions if stages.by else 1
        yield PlannedStage(stage, partitions, (ExchangeInput(EXCHANGE, stages.by),))


def _cube(scheme: Scheme) -> Iterator[str]:
    """The cube's dimensions and shares, where there is more than one."""
    if scheme.cube is None or len(scheme.cube.shares) < 2:
        return
    names = []
    for place, share in enumerate(scheme.cube.shares):
        keys = [r.axes[place].keys for r in scheme.routes.values() if r.axes[place].keys]
        columns = [" = ".join(dict.fromkeys(map(str, equal))) for equal in zip(*keys, strict=True)]
        names.append(f"{share} by {', '.join(columns) or 'rows'}")
    yield f"cube: {' × '.join(names)}"
