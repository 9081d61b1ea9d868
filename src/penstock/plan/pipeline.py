"""The plan of a pipeline: many queries over the same inputs, in one stage or two.

The inputs are fixed when a pipeline starts: each stream, whole rows and all columns, once for every way in
which it is split over the partitions. A query is admitted if one of the ways to spread it uses only splits
that are there; the first queries decide which splits there are. What queries have in common (inputs, filters,
windows, whole subplans) becomes equal nodes, which an engine runs once.

The number of stages is fixed, too. The second stage has no inputs of its own: each query that uses it brings
the exchange by which the first stage sends it elements, by any key, so that queries which come later can use
it like the first ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import pyarrow as pa

from penstock.catalog import Input
from penstock.engine.operator import Node, nodes
from penstock.engine.registry import QueryPlan, apart, exchange_of
from penstock.engine.stage import Stage, StageInput, waits
from penstock.errors import PipelineError
from penstock.expression import Column, Expression
from penstock.plan import canonical, logical
from penstock.plan.budgeted import budgets
from penstock.plan.build import stream_input
from penstock.plan.compile import built, optimized, running
from penstock.plan.distribution import Dimension
from penstock.plan.explain import routed, tree
from penstock.plan.partition import Way, ways
from penstock.plan.physical import PlannedStage, SourceInput, TableInput
from penstock.plan.sampled import is_sampled
from penstock.plan.settings import MAX_SPLITS
from penstock.plan.sharing import in_own_names, named, shared
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain
from penstock.settings import Settings

Split = tuple[str, ...]
"""Columns that a stream is split by; none: all rows go to one partition."""


@dataclass(frozen=True)
class PipelinePlan:
    """What of a pipeline is fixed: its stages without queries, and its time.

    ``second``: the stage that combines what the partitions of the first one find, if there is one.
    """

    stage: PlannedStage
    time: TimeDomain
    second: PlannedStage | None = None

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """The stages in order."""
        return (self.stage,) if self.second is None else (self.stage, self.second)

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
    stages: int | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> PipelinePlan:
    """The inputs of a pipeline: streams by the splits that are named and that its first queries need.

    Queries that read the same streams share windows. With ``one_clock`` all queries do, and a silent stream
    holds back those that do not read it, too. ``stages``: how many there are; None: two if one of the first
    queries can only be spread by two. ``columns``: by stream, those that are sent; all of the others.
    """
    settings = settings or Settings()
    _time(streams)
    routes: dict[str, list[Route]] = {s.name: [] for s in streams}
    for name, several in (split or {}).items():
        stream = next((s for s in streams if s.name == name), None)
        if stream is None:
            raise PipelineError(f"split names {name}, which is not a stream of the pipeline")
        routes[name] += [_by_columns(stream, columns, partitions) for columns in several]
    chosen = _Splits(routes, partitions, stages)
    chosen.add(queries.values())
    for stream in streams:
        routes[stream.name] = routes[stream.name] or [Route()]
    return resumed(streams, routes, partitions, settings, one_clock, stages or chosen.stages, columns)


def resumed(
    streams: Sequence[Input],
    routes: Mapping[str, Sequence[Route]],
    partitions: int,
    settings: Settings,
    one_clock: bool = False,
    stages: int = 1,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> PipelinePlan:
    """The plan whose ``routes`` these are."""
    sent = {s.name: _sent(s, (columns or {}).get(s.name)) for s in streams}
    inputs = [i for s in streams for i in _inputs(s, sent[s.name], list(dict.fromkeys(routes[s.name])))]
    taken = tuple(_stage_input(i) for i in inputs)
    how, memory = running(settings)
    first = Stage({}, taken, scheduling=how, memory=memory, one_clock=one_clock)
    second = Stage({}, (), scheduling=how, memory=memory, number=1)
    return PipelinePlan(
        PlannedStage(first, partitions, tuple(inputs)),
        _time(streams),
        # With one partition there is nothing to bring together.
        PlannedStage(second, partitions, ()) if stages == 2 and partitions > 1 else None,
    )


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


class _Splits:
    """Chooses the splits of streams, and whether there is a second stage, by the first queries.

    ``routes`` has the splits by stream, to which it adds.
    """

    def __init__(self, routes: dict[str, list[Route]], partitions: int, stages: int | None) -> None:
        self._routes, self._partitions = routes, partitions
        self._two_stages = stages != 1
        self._found: dict[int, list[Way]] = {}
        self.stages = 1

    def add(self, queries: Iterable[logical.Query]) -> None:
        """Add the splits that queries need and that are not there.

        A query that one stage can spread by a key has its split. The others follow: those that any split
        fits, and those that two stages can spread, take a split that is there before one of their own.
        """
        # What joins most streams, and meets by fewest columns, has the fewest ways to be spread.
        ordered = sorted(queries, key=lambda q: (-len(logical.sources(q.root)), self._best(q).columns))
        others = [q for q in ordered if not self._place(q, keyed=True)]
        for query in sorted(others, key=self._fits_any):
            self._place(query)

    def _ways(self, query: logical.Query) -> list[Way]:
        """The ways of a query, whatever splits there are."""
        if id(query) not in self._found:
            root = optimized(query)
            self._found[id(query)] = list(_allowed(root, query.time, self._partitions, {}, self._two_stages))
        return self._found[id(query)]

    def _best(self, query: logical.Query) -> Way:
        return self._ways(query)[0]

    def _fits_any(self, query: logical.Query) -> bool:
        """Whether every split is right for a query."""
        return any(way.by_row for way in self._ways(query))

    def _place(self, query: logical.Query, keyed: bool = False) -> bool:
        """Find the way of a query, adding its splits. ``keyed``: only if it is by a key, in one stage."""
        root = optimized(query)
        _check_streams(root, self._routes)
        own, any_fits = self._best(query), self._fits_any(query)
        how = (query.time, self._partitions, self._routes, self._two_stages and not keyed)
        if keyed and (any_fits or own.stages or not own.is_spread):
            return False
        there = [w for w in _allowed(root, *how) if _is_there(root, w, self._routes)]
        # A query that could be spread is not put into one partition for want of a split.
        found = next((w for w in there if w.is_spread or any_fits), own)
        for name, route in _by_stream(root, found):
            self._routes[name] += [route] if route not in self._routes[name] else []
        self.stages = max(self.stages, len(found.stages))
        return True


def _is_there(root: logical.Logical, way: Way, routes: Mapping[str, Sequence[Route]]) -> bool:
    return all(route in routes[stream] for stream, route in _by_stream(root, way))


def _allowed(
    root: logical.Logical,
    time: TimeDomain,
    partitions: int,
    there: Mapping[str, Sequence[Route]],
    two_stages: bool,
) -> Iterator[Way]:
    """The ways to spread a query, those by splits that are there first. A budget is divided by its key."""
    for way in ways(root, time, partitions, list(_by_splits(root, there)), two_stages):
        by_key = all(a.keys for r in way.routes.values() for a in r.axes)
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


def _by_stream(root: logical.Logical, way: Way) -> list[tuple[str, Route]]:
    """The routes of the streams that a query reads, in the streams' own names."""
    routes = way.routes
    found = [(s.definition.name, in_own_names(routes[s.number], s.alias)) for s in logical.sources(root)]
    return list(dict.fromkeys(found))


def _sent(stream: Input, columns: Sequence[str] | None) -> list[str]:
    """The columns of a stream that are sent, in their order."""
    known = stream.schema.names
    if columns is None:
        return known
    unknown = [c for c in columns if c not in known]
    if unknown:
        raise PipelineError(f"{stream.name} has no column {unknown[0]} to be read; it has {', '.join(known)}")
    return [c for c in known if c in columns]


def _inputs(stream: Input, sent: Sequence[str], routes: Sequence[Route]) -> Iterator[SourceInput]:
    """The inputs of a stream; its columns are named after it."""
    qualified = [(f"{stream.name}.{name}", stream.schema.field(name).type) for name in sent]
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
    root = optimized(query, settings.use_of_constraints(by_time=True))
    if not logical.sources(root):
        raise PipelineError(f"{name} reads no stream; a query of a pipeline must read one")
    if any(b.within.shared for b in budgets(root)):
        raise PipelineError(
            f"{name} has a part of SET penstock.memory, which the queries of a pipeline cannot have yet; "
            "write WITHIN MEMORY with a size"
        )
    if history:
        _check_history(name, query, root)
    way = _way(plan, name, root, two_stages=plan.second is not None and not history)
    made = built(query, root, way, settings, name)
    names = canonical.aliases(root)
    node = canonical.in_plan(made.root, names)
    builder = made.builder
    own = [
        canonical.renamed_source(i, names) if isinstance(i, SourceInput) else i for i in builder.host_inputs
    ]
    _check_columns(plan, name, [i for i in own if isinstance(i, SourceInput)])
    hosts = [*plan.sources, *own]
    node, taken, _ = shared(node, [*plan.stage.stage.inputs, *builder.stage_inputs], hosts)
    mine = tuple(i for i in taken if i.kind == "table")
    assert len(taken) == len(plan.stage.stage.inputs) + len(mine), "an input of its own"
    second = _second(plan, name, canonical.in_plan(made.second, names), way)
    if waits(node) or (second is not None and waits(second.root)):
        mine = tuple(replace(i, waits=True) for i in mine)
    spread = way.is_spread or plan.partitions == 1
    by = tuple(canonical.in_plan(way.stages[1].by, names)) if second else ()
    own_tables = dict(builder.constants)
    registered = QueryPlan(
        node, mine, own_tables, None if spread else 1, second, by, settings.sharing == "off"
    )
    tables = tuple(i for i in builder.host_inputs if isinstance(i, TableInput))
    relations = any(s.definition.is_relation for s in logical.sources(root))
    kind = "stream" if root.is_stream else "relation"
    return Admitted(registered, kind, root.schema, tables, relations, query.notes, query.warnings)


def _check_columns(plan: PipelinePlan, name: str, read: Sequence[SourceInput]) -> None:
    """Reject a query that reads columns which the pipeline does not send."""
    sent = {i.stream.name: [n.removeprefix(f"{i.alias}.") for n, _ in i.columns] for i in plan.sources}
    for source in read:
        stream = source.stream.name
        wanted = [n.removeprefix(f"{source.alias}.") for n, _ in source.columns]
        missing = [n for n in wanted if n not in sent[stream]]
        if missing:
            every = [*sent[stream], *missing]
            raise PipelineError(
                f"{name} reads {stream}.{missing[0]}, which the pipeline does not send; it sends "
                f"{', '.join(sent[stream])}. Start a pipeline with columns={{{stream!r}: {every!r}}}"
            )


def _second(plan: PipelinePlan, name: str, root: Node | None, way: Way) -> QueryPlan | None:
    """The part of a query in the second stage, if it has one."""
    if root is None:
        return None
    source = _leaf(root)
    read = StageInput(exchange_of(name), source.schema, "exchange", upstream=plan.partitions)
    return QueryPlan(root, (read,), partitions=None if way.stages[1].by else 1)


def _leaf(node: Node) -> Node:
    return _leaf(node.inputs[0]) if node.inputs else node


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


def _way(plan: PipelinePlan, name: str, root: logical.Logical, two_stages: bool) -> Way:
    """The first way to spread a query for which the pipeline has the splits."""
    there = plan.routes
    _check_streams(root, there)
    for way in _allowed(root, plan.time, plan.partitions, there, two_stages):
        if _is_there(root, way, there):
            return way
    possible = list(_allowed(root, plan.time, plan.partitions, {}, two_stages=False))
    wanted = "; ".join(f"{stream} {routed(r)}" for stream, r in _by_stream(root, possible[0]))
    has = ", ".join(i.name for i in plan.sources)
    by_two = _allowed(root, plan.time, plan.partitions, there, two_stages=True)
    more = any(_is_there(root, w, there) for w in by_two) and plan.second is None
    raise PipelineError(
        f"{name} needs rows where the pipeline does not send them: {wanted}. The pipeline has {has}. Rows "
        "that join, that are of a group or that give equal results must be in one partition: select the "
        "columns of a split too, register it before the first start, or start a pipeline with also "
        f"split={_advice(root, possible)} ([] is one partition){' or with stages=2' if more else ''}"
    )


def _advice(root: logical.Logical, possible: Sequence[Way]) -> str:
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
    stages = "" if plan.second is None else " in two stages"
    yield f"pipeline on {many}{stages}, {len(queries)} queries"
    for source in plan.sources:
        readers = [name for name, q in queries.items() if source.name in q.plan.streams]
        read = f"read by {_some(readers)}" if readers else "read by no query"
        yield f"spark    {source.name}: {routed(source.route)}; {read}"
    users: dict[Any, dict[str, None]] = {}
    for name, query in queries.items():
        clock = clock_of(plan, query)
        for node in nodes(shown_plan(name, query)):
            users.setdefault((clock, node), {})[name] = None
            if node.fills:
                users.setdefault((clock, node.fills), {})[name] = None
    for name, query in queries.items():
        shown = (
            "when an instant is complete" if query.plan.shows_complete else "at once, as results are found"
        )
        place = "" if query.spread else ", in one partition"
        yield f"query    {name}: {query.kind}{place}; shown {shown}"

        clock = clock_of(plan, query)

        def also(node: Node, own: str = name, clock: Any = clock) -> str:
            others = [n for n in users.get((clock, node), ()) if n != own]
            told = f"  = shared with {_some(others)}" if others else ""
            more = [n for n in users.get((clock, node.fills), ()) if n not in (own, *others)]
            return f"{told}  = store shared with {_some(more)}" if more else told

        if query.plan.second is not None:
            by = f"by hash of {', '.join(query.plan.by)}" if query.plan.by else "to one partition"
            yield f"  stage 2, elements of stage 1 {by}"
            yield from tree(query.plan.second.root, "    ", set(), also)
            yield "  stage 1"
        yield from tree(shown_plan(name, query), "  " if query.plan.second is None else "    ", set(), also)


def clock_of(plan: PipelinePlan, query: Admitted) -> Any:
    """What queries have in common that run by the same clock: only those share."""
    return None if plan.stage.stage.one_clock else (query.plan.streams, query.plan.waits)


def shown_plan(name: str, query: Admitted) -> Node:
    """The operators of a query as engines have them."""
    return apart(query.plan.root, name) if query.plan.apart else query.plan.root


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
