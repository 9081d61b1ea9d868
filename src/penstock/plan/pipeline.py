"""The plan of a pipeline: many queries in one stage over the same inputs.

The inputs are fixed when a pipeline starts: each stream, whole rows and all columns, once for every way in
which it is split over the partitions. A query is admitted if one of the ways to spread it uses only splits
that are there; the first queries decide which splits there are. What queries have in common (inputs, filters,
windows, whole subplans) becomes equal nodes, which an engine runs once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import pyarrow as pa

from penstock.catalog import Input
from penstock.engine.operator import Node
from penstock.engine.registry import QueryPlan
from penstock.engine.stage import Stage, StageInput, waits
from penstock.errors import PipelineError
from penstock.expression import Column, Expression
from penstock.plan import canonical, logical
from penstock.plan.budgeted import budgets
from penstock.plan.build import stream_input
from penstock.plan.compile import built, optimized, running
from penstock.plan.distribution import Dimension
from penstock.plan.explain import routed, tree
from penstock.plan.logical.join import BY_TIME
from penstock.plan.partition import ways
from penstock.plan.physical import PlannedStage, SourceInput, TableInput
from penstock.plan.sampled import is_sampled
from penstock.plan.settings import MAX_SPLITS
from penstock.plan.sharing import in_own_names, named, private, shared
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain
from penstock.settings import Settings

Split = tuple[str, ...]
"""Columns that a stream is split by; none: all rows go to one partition."""


@dataclass(frozen=True)
class PipelinePlan:
    """What of a pipeline is fixed: its stage without queries, and its time."""

    stage: PlannedStage
    time: TimeDomain

    @property
    def partitions(self) -> int:
        """How many there are; a query that cannot be spread runs in the first."""
        return self.stage.partitions

    @property
    def sources(self) -> list[SourceInput]:
        """Each stream as often as it is split."""
        return [i for i in self.stage.inputs if isinstance(i, SourceInput)]

    @property
    def routes(self) -> dict[str, list[Route]]:
        """How each stream is sent, in its own names: all that a checkpoint must keep of the plan."""
        found: dict[str, list[Route]] = {}
        for i in self.sources:
            found.setdefault(i.stream.name, []).append(in_own_names(i.route, i.alias))
        return found


@dataclass(frozen=True)
class Admitted:
    """A query of a pipeline: its plan for the engines, and what its host must know of it.

    The host adds the rows of ``tables`` to the plan. ``spread``: whether all partitions run it.
    """

    plan: QueryPlan
    kind: str
    schema: pa.Schema
    tables: tuple[TableInput, ...]
    reads_relations: bool
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def spread(self) -> bool:
        return self.plan.partitions is None


def plan_pipeline(
    streams: Sequence[Input],
    queries: Mapping[str, logical.Query],
    partitions: int = 1,
    split: Mapping[str, Sequence[Split]] | None = None,
    settings: Settings | None = None,
    one_clock: bool = False,
) -> PipelinePlan:
    """The inputs of a pipeline: streams by the splits that are named and that its first queries need.

    Queries that read the same streams share windows. With ``one_clock`` all queries do, and a silent stream
    holds back those that do not read it, too.
    """
    settings = settings or Settings()
    _time(streams)
    routes: dict[str, list[Route]] = {s.name: [] for s in streams}
    for name, several in (split or {}).items():
        stream = next((s for s in streams if s.name == name), None)
        if stream is None:
            raise PipelineError(f"split names {name}, which is not a stream of the pipeline")
        routes[name] += [_by_columns(stream, columns, partitions) for columns in several]
    # What joins most streams has the fewest ways to be spread: the others follow.
    for query in sorted(queries.values(), key=lambda q: -len(logical.sources(q.root))):
        _add_ways(routes, query, partitions)
    for stream in streams:
        routes[stream.name] = routes[stream.name] or [Route()]
    return resumed(streams, routes, partitions, settings, one_clock)


def resumed(
    streams: Sequence[Input],
    routes: Mapping[str, Sequence[Route]],
    partitions: int,
    settings: Settings,
    one_clock: bool = False,
) -> PipelinePlan:
    """The plan whose ``routes`` these are."""
    inputs = [i for s in streams for i in _inputs(s, list(dict.fromkeys(routes[s.name])))]
    taken = tuple(_stage_input(i) for i in inputs)
    how, memory = running(settings)
    stage = Stage({}, taken, scheduling=how, memory=memory, one_clock=one_clock)
    return PipelinePlan(PlannedStage(stage, partitions, tuple(inputs)), _time(streams))


def _time(streams: Sequence[Input]) -> TimeDomain:
    domains = {s.options.time for s in streams}
    if not streams:
        raise PipelineError("a pipeline needs at least one stream")
    if len(domains) > 1:
        named = ", ".join(f"{s.name} ({s.options.time})" for s in streams)
        raise PipelineError(f"the streams of a pipeline must count time in the same unit: {named}")
    return domains.pop()


def _by_columns(stream: Input, columns: Split, partitions: int) -> Route:
    unknown = [c for c in columns if c not in stream.schema.names]
    if unknown:
        known = ", ".join(stream.schema.names)
        raise PipelineError(f"{stream.name} has no column {unknown[0]} to be split by; it has {known}")
    if not columns or partitions == 1:
        return Route()
    return Route((Axis(partitions, tuple(Column(c, stream.schema.field(c).type) for c in columns)),))


def _add_ways(routes: dict[str, list[Route]], query: logical.Query, partitions: int) -> None:
    """Add the splits that a query needs, if it cannot be spread by those that are there."""
    root = optimized(query)
    _check_streams(root, routes)
    possible = [_by_stream(root, way) for way in _allowed(root, query.time, partitions, {})]
    there = [_by_stream(root, way) for way in _allowed(root, query.time, partitions, routes)]
    if not any(all(r in routes[name] for name, r in way) for way in there):
        for name, route in possible[0]:
            routes[name].append(route)


def _allowed(
    root: logical.Logical, time: TimeDomain, partitions: int, there: Mapping[str, Sequence[Route]]
) -> Iterator[dict[int, Route]]:
    """The ways to spread a query, those by splits that are there first. A budget is divided by its key."""
    for way in ways(root, time, partitions, list(_by_splits(root, there))):
        by_key = all(a.keys for r in way.values() for a in r.axes)
        if by_key or not any(budgets(root)):
            yield way


def _by_splits(root: logical.Logical, there: Mapping[str, Sequence[Route]]) -> Iterator[Dimension]:
    """Every stream of a query by one of its splits: the query may not need all columns of a key to meet."""
    sources = logical.sources(root)
    keys = [[_keys(r, s.alias) for r in there.get(s.definition.name, ())] for s in sources]
    for several in islice(product(*([k for k in own if k] for own in keys)), MAX_SPLITS):
        yield Dimension.of({s.number: key for s, key in zip(sources, several, strict=True)})


def _keys(route: Route, alias: str) -> tuple[Expression, ...]:
    """The key of a split, by the names that a query has for the columns."""
    return tuple(k for a in named(route, lambda n: f"{alias}.{n}").axes for k in a.keys)


def _check_streams(root: logical.Logical, known: Iterable[str]) -> None:
    for source in logical.sources(root):
        if source.definition.name not in known:
            raise PipelineError(
                f"the pipeline does not read {source.definition.name}; its streams are "
                f"{', '.join(known)}. Make a pipeline with that stream, too"
            )


def _by_stream(root: logical.Logical, way: Mapping[int, Route]) -> list[tuple[str, Route]]:
    """The routes of the streams that a query reads, in the streams' own names."""
    found = [(s.definition.name, in_own_names(way[s.number], s.alias)) for s in logical.sources(root)]
    return list(dict.fromkeys(found))


def _inputs(stream: Input, routes: Sequence[Route]) -> Iterator[SourceInput]:
    """The inputs of a stream; its columns are named after it."""
    qualified = [(f"{stream.name}.{f.name}", f.type) for f in stream.schema]
    columns = tuple((name, Column(name, kind)) for name, kind in qualified)
    names = Counter[str]()
    for route in routes:
        name = _input_name(stream.name, route)
        names[name] += 1
        name = name if names[name] == 1 else f"{name} ({names[name]})"
        yield SourceInput(
            name, stream.name, stream, columns, None, named(route, lambda n: f"{stream.name}.{n}")
        )


def _input_name(stream: str, route: Route) -> str:
    (axis,) = route.axes or (None,)
    if axis is None:
        return f"{stream} whole"
    if not axis.splits:
        return f"{stream} everywhere"
    return f"{stream} by {'row' if axis.by_row else ', '.join(map(str, axis.keys))}"


def _stage_input(source: SourceInput) -> StageInput:
    return stream_input(pa.schema([(name, e.type) for name, e in source.columns]), source)


def admit(
    plan: PipelinePlan,
    name: str,
    query: logical.Query,
    settings: Settings | None = None,
    history: bool = False,
) -> Admitted:
    """A query as a pipeline runs it. Raises PipelineError if the pipeline has not the splits it needs.

    ``history``: it is registered with history.
    """
    settings = settings or Settings()
    if query.time != plan.time:
        raise PipelineError(f"{name} counts time in {query.time}, the pipeline in {plan.time}")
    by_time = "" if settings.constraints == "off" else BY_TIME
    root = optimized(query, f"{settings.constraints}{by_time}")
    if not logical.sources(root):
        raise PipelineError(f"{name} reads no stream; a query of a pipeline must read one")
    if any(b.within.shared for b in budgets(root)):
        raise PipelineError(
            f"{name} has a part of SET penstock.memory, which the queries of a pipeline cannot have yet; "
            "write WITHIN MEMORY with a size"
        )
    if history:
        _check_history(name, query, root)
    routes = _way(plan, name, root)
    node, builder = built(query, root, routes, settings, name)
    names = canonical.aliases(root)
    node = canonical.in_plan(node, names)
    own = [
        canonical.renamed_source(i, names) if isinstance(i, SourceInput) else i for i in builder.host_inputs
    ]
    hosts = [*plan.sources, *own]
    node, taken, _ = shared(node, [*plan.stage.stage.inputs, *builder.stage_inputs], hosts)
    if settings.sharing == "off":
        node = private(node, name)
    mine = tuple(i for i in taken if i.kind == "table")
    assert len(taken) == len(plan.stage.stage.inputs) + len(mine), "an input of its own"
    if waits(node):
        mine = tuple(replace(i, waits=True) for i in mine)
    spread = all(r.partitions > 1 for r in routes.values()) or plan.partitions == 1
    registered = QueryPlan(node, mine, dict(builder.constants), None if spread else 1)
    tables = tuple(i for i in builder.host_inputs if isinstance(i, TableInput))
    relations = any(s.definition.is_relation for s in logical.sources(root))
    kind = "stream" if root.is_stream else "relation"
    return Admitted(registered, kind, root.schema, tables, relations, query.notes, query.warnings)


def _check_history(name: str, query: logical.Query, root: logical.Logical) -> None:
    """Reject what depends on when its rows came, or on more than the rows of its windows."""
    refused = f"{name} cannot be registered WITH HISTORY:"
    if any(budgets(root)) or is_sampled(query.root):
        raise PipelineError(f"{refused} WITHIN and SAMPLE depend on the rows before; register it without")
    for node in logical.walk(root):
        if isinstance(node, logical.ToStream) and node.kind == "rstream" and node is not root:
            raise PipelineError(
                f"{refused} it reads an RSTREAM, whose instants before its registration are not known; "
                "register it without"
            )


def _way(plan: PipelinePlan, name: str, root: logical.Logical) -> dict[int, Route]:
    """The first way to spread a query for which the pipeline has the splits."""
    there = plan.routes
    _check_streams(root, there)
    for way in _allowed(root, plan.time, plan.partitions, there):
        if all(r in there[stream] for stream, r in _by_stream(root, way)):
            return way
    possible = list(_allowed(root, plan.time, plan.partitions, {}))
    wanted = "; ".join(f"{stream} {routed(r)}" for stream, r in _by_stream(root, possible[0]))
    has = ", ".join(i.name for i in plan.sources)
    raise PipelineError(
        f"{name} needs rows where the pipeline does not send them: {wanted}. The pipeline has {has}. Rows "
        "that join, that are of a group or that give equal results must be in one partition: select the "
        "columns of a split too, register it before the first start, or start a pipeline with also "
        f"split={_advice(root, possible)} ([] is one partition)"
    )


def _advice(root: logical.Logical, possible: Sequence[dict[int, Route]]) -> str:
    """A value of ``split`` with which the query would be admitted."""
    for way in possible:
        found = _by_stream(root, way)
        keys = {name: [k for a in r.axes for k in a.keys] for name, r in found}
        plain = all(isinstance(k, Column) for several in keys.values() for k in several)
        if plain and all(a.keys for _, r in found for a in r.axes):
            return repr({name: [[str(k) for k in several]] for name, several in keys.items()})
    raise AssertionError("one partition is always possible")


def explain_pipeline(plan: PipelinePlan, queries: Mapping[str, Admitted]) -> str:
    """The inputs of a pipeline and the plan of each query, with what it shares with whom."""
    return "\n".join(_lines(plan, queries))


def _lines(plan: PipelinePlan, queries: Mapping[str, Admitted]) -> Iterator[str]:
    many = "1 partition" if plan.partitions == 1 else f"{plan.partitions} partitions"
    yield f"pipeline on {many}, {len(queries)} queries"
    for source in plan.sources:
        readers = [name for name, q in queries.items() if source.name in q.plan.streams]
        read = f"read by {_some(readers)}" if readers else "read by no query"
        yield f"spark    {source.name}: {routed(source.route)}; {read}"
    users: dict[Node, dict[str, None]] = {}
    for name, query in queries.items():
        for node in _nodes(query.plan.root):
            users.setdefault(node, {})[name] = None
    for name, query in queries.items():
        shown = "when an instant is complete" if query.plan.waits else "at once, as results are found"
        place = "" if query.spread else ", in one partition"
        yield f"query    {name}: {query.kind}{place}; shown {shown}"

        def also(node: Node, own: str = name) -> str:
            others = [n for n in users.get(node, ()) if n != own]
            return f"  = shared with {_some(others)}" if others else ""

        yield from tree(query.plan.root, "  ", set(), also)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for below in node.inputs:
        yield from _nodes(below)
