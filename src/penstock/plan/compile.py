"""Compile a bound query: optimize, choose how to spread it, build the operators stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from penstock.constraint import UNUSED, Use
from penstock.cost import weights
from penstock.cost.model import ByCost
from penstock.engine.operator import Node
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.instants import Instants
from penstock.engine.operators.source import Source
from penstock.engine.registry import exchange_of
from penstock.engine.stage import RESULT, MemoryLimit, Scheduling, Stage, StageInput
from penstock.plan import logical
from penstock.plan.budgeted import budgeted, budgets, with_epochs
from penstock.plan.build import Builder
from penstock.plan.optimizer import optimize
from penstock.plan.partition import Scheme, Way, choose
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage
from penstock.plan.sampled import is_sampled, sampled
from penstock.plan.second_stage import StageRelation, stage_name
from penstock.plan.sharing import shared
from penstock.plan.ties import with_ties
from penstock.settings import Settings

_FORCED: dict[str, str | None] = {"adaptive": None, "scan": "none"}
"""The settings of penstock.access_method that are not the name of a method."""


def compile(
    query: logical.Query,
    partitions: int = 1,
    settings: Settings | None = None,
    rates: Mapping[str, float] | None = None,
) -> PhysicalPlan:
    """The physical plan of a query on up to ``partitions`` partitions; ``rates`` are rows per second."""
    settings = settings or Settings()
    root = optimized(query, settings.use_of_constraints())
    scheme = _spread(query, root, partitions, rates, settings)
    stages = _waiting(tuple(_Compiler(query, root, scheme, settings).stages()))
    kind = "stream" if root.is_stream else "relation"
    shared = settings.memory if any(b.within.shared for b in budgets(root)) else None
    return PhysicalPlan(stages, query.time, kind, root.schema, query.notes, shared, query.warnings)


def optimized(query: logical.Query, use: Use = UNUSED) -> logical.Logical:
    """The optimized plan of a query, its streams numbered. ``use``: how joins exploit constraints."""
    root = optimize(query.root)
    if is_sampled(root):
        root, _ = sampled(root)
    elif not any(budgets(root)):  # a budget decides by itself which rows are kept
        root = logical.rewrite(root, lambda node: node.using(use))
    return logical.numbered(root)


@dataclass(frozen=True)
class Built:
    """The operators of a query of a pipeline, and the builder with its inputs.

    ``second``: those of a second stage, which reads what the first ones return.
    """

    root: Node
    builder: Builder
    second: Node | None = None


def built(query: logical.Query, root: logical.Logical, way: Way, settings: Settings, owner: str) -> Built:
    """The operators of a query of a pipeline, which filters rows itself."""
    compiler = _Compiler(query, root, Scheme(way.routes, stages=way.stages), settings)
    builder = compiler.builder({})
    builder.host_filters, builder.owner = False, owner
    if not way.stages:
        return Built(_result(builder, root), builder)
    first, second = way.stages
    node = compiler.inner(builder, first.relation, [second])
    source = _exchanged(exchange_of(owner), node)
    return Built(node, builder, _result(compiler.builder({stage_name(0): source}), second.relation))


def running(settings: Settings) -> tuple[Scheduling, MemoryLimit | None]:
    """How engines run a stage: their scheduler, and the memory that each may use."""
    limit = settings.memory_limit
    memory = None if limit is None else MemoryLimit(limit, settings.overflow_directory)
    return Scheduling(settings.scheduler, settings.slice_rows), memory


def _waiting(stages: tuple[PlannedStage, ...]) -> tuple[PlannedStage, ...]:
    """If a stage waits for whole instants, those with tables do: a table changes at the same instant however
    the query is spread.
    """
    if not any(s.stage.waits for s in stages):
        return stages
    return tuple(replace(s, stage=_with_waiting_tables(s.stage)) for s in stages)


def _with_waiting_tables(stage: Stage) -> Stage:
    inputs = (replace(i, waits=True) if i.kind == "table" else i for i in stage.inputs)
    return replace(stage, inputs=tuple(inputs))


def _spread(
    query: logical.Query,
    root: logical.Logical,
    partitions: int,
    rates: Mapping[str, float] | None,
    settings: Settings,
) -> Scheme:
    span = settings.batch_span
    if span is None:  # a batch of input that is all there may have all of its time
        span = 0.0 if settings.at_end is None else inf
    scheme = choose(root, query.time, partitions, rates, span * query.time.ticks_per_second)
    by_key = all(len(r.axes) == 1 and r.axes[0].keys for r in scheme.routes.values())
    if not by_key and any(budgets(root)):
        return Scheme(why="WITHIN divides its budget by a join key, and no key splits both sides")
    return scheme


class _Compiler:
    def __init__(
        self, query: logical.Query, root: logical.Logical, scheme: Scheme, settings: Settings
    ) -> None:
        self._query, self._root, self._scheme, self._settings = query, root, scheme, settings
        self._partitions = scheme.cube.partitions if scheme.cube else 1
        self._scheduling, self._memory = running(settings)
        method, invalidation = settings.access_method, settings.invalidation
        self._chooser = ByCost(
            weights.load(), _FORCED.get(method, method), None if invalidation == "adaptive" else invalidation
        )
        # A clock that ticks at every instant with input must also see the rows that a filter drops.
        self._host_filters = not self._clocked(root)

    def _clocked(self, root: logical.Logical) -> bool:
        return any(n.reads_instants(self._query.time) for n in logical.walk(root))

    def stages(self) -> Iterator[PlannedStage]:
        """The stages in order; each reads the streams it names and the stages before it."""
        relations = self._scheme.stages or (StageRelation(self._root),)
        exchanges: dict[str, Node] = {}
        for number, stage in enumerate(relations):
            builder = self.builder(exchanges)
            last = number == len(relations) - 1
            if last:
                root = _result(builder, stage.relation)
            else:
                root = self.inner(builder, stage.relation, relations[number + 1 :])
            yield self._planned(root, builder, stage) if number else self._first(root, builder)
            exchanges[stage_name(number)] = _exchanged(stage_name(number), root)

    def inner(self, builder: Builder, relation: logical.Logical, later: Sequence[StageRelation]) -> Node:
        """The root of a stage that others follow."""
        root = builder.exact(relation)
        if any(self._clocked(stage.relation) for stage in later):
            return Instants(builder.changing(root))
        return root

    def builder(self, exchanges: Mapping[str, Node]) -> Builder:
        """The context of a stage that reads these exchanges."""
        settings, query = self._settings, self._query
        routes = {} if exchanges else self._scheme.routes
        how = settings.filters, settings.join, settings.cache_memory, settings.w_join
        builder = Builder(query.time, routes, exchanges, self._host_filters, *how, self._chooser)
        shared = sum(b.within.shared for b in budgets(self._root))
        builder.budgeted = partial(budgeted, settings, query.time, shared)
        return builder

    def _first(self, root: Node, builder: Builder) -> PlannedStage:
        root, taken, inputs = shared(root, builder.stage_inputs, builder.host_inputs)
        taken, inputs = with_ties(root, taken, inputs)
        taken, inputs = with_epochs(root, taken, inputs, self._partitions)
        stage = Stage({RESULT: root}, taken, builder.constants, self._scheduling, self._memory)
        notes = (*_cube(self._scheme), *self._scheme.unsplit)
        return PlannedStage(stage, self._partitions, inputs, self._scheme.why, notes)

    def _planned(self, root: Node, builder: Builder, relation: StageRelation) -> PlannedStage:
        """A stage after the first, which reads only exchanges."""
        read = [n for n in logical.walk(relation.relation) if isinstance(n, logical.Exchange)]
        incoming = tuple(
            StageInput(e.alias, builder.exchanges[e.alias].schema, "exchange", upstream=self._partitions)
            for e in read
        )
        partitions = self._partitions if relation.by else 1
        inputs = tuple(ExchangeInput(e.alias, relation.by) for e in read)
        stage = Stage({RESULT: root}, incoming, scheduling=self._scheduling, memory=self._memory)
        return PlannedStage(stage, partitions, inputs)


def _exchanged(name: str, root: Node) -> Source:
    """What a stage returns, as the next one reads it."""
    return Source(name, root.schema, root.pattern, grows=root.accumulates, revised=root.corrects)


def _result(builder: Builder, root: logical.Logical) -> Node:
    """The root of the result: a stream, or the changes of a relation."""
    return builder.exact(root) if root.is_stream else Changelog(builder.changing(builder.exact(root)))


def _cube(scheme: Scheme) -> Iterator[str]:
    """The cube's dimensions and shares, where there is more than one."""
    if scheme.cube is None or len(scheme.cube.shares) < 2:
        return
    names = []
    for place, share in enumerate(scheme.cube.shares):
        keys = [r.axes[place].keys for r in scheme.routes.values() if r.axes[place].keys]
        columns = [" = ".join(dict.fromkeys(map(str, equal))) for equal in zip(*keys, strict=True)]
        by_time = any(r.axes[place].slice is not None for r in scheme.routes.values())
        names.append(f"{share} by {', '.join(columns) or ('time' if by_time else 'rows')}")
    yield f"cube: {' × '.join(names)}"
