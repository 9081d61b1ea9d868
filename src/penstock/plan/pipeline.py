"""The plan of a pipeline: the inputs and stages that many queries share.

The inputs are fixed when a pipeline starts: each stream, whole rows and all columns, once for every way in
which it is split over the partitions. The first queries decide which splits there are; a query is admitted
(``plan/admission.py``) if one of the ways to spread it uses only those.

The number of stages is fixed, too. The second stage has no inputs of its own: each query that uses it brings
the exchange by which the first stage sends it elements, by any key, so that queries which come later can use
it like the first ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import pyarrow as pa

from penstock.catalog import Input
from penstock.engine.stage import Stage, StageInput
from penstock.errors import PipelineError
from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.budgeted import budgets
from penstock.plan.build import stream_input
from penstock.plan.compile import optimized, running
from penstock.plan.distribution import Dimension
from penstock.plan.partition import Way, ways
from penstock.plan.physical import PlannedStage, SourceInput
from penstock.plan.settings import MAX_SPLITS
from penstock.plan.sharing import in_own_names, named
from penstock.plan.ties import ordered
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
            self._found[id(query)] = list(allowed(root, query.time, self._partitions, {}, self._two_stages))
        return self._found[id(query)]

    def _best(self, query: logical.Query) -> Way:
        return self._ways(query)[0]

    def _fits_any(self, query: logical.Query) -> bool:
        """Whether every split is right for a query."""
        return any(way.by_row for way in self._ways(query))

    def _place(self, query: logical.Query, keyed: bool = False) -> bool:
        """Find the way of a query, adding its splits. ``keyed``: only if it is by a key, in one stage."""
        root = optimized(query)
        check_streams(root, self._routes)
        own, any_fits = self._best(query), self._fits_any(query)
        how = (query.time, self._partitions, self._routes, self._two_stages and not keyed)
        if keyed and (any_fits or own.stages or not own.is_spread):
            return False
        there = [w for w in allowed(root, *how) if is_there(root, w, self._routes)]
        # A query that could be spread is not put into one partition for want of a split.
        found = next((w for w in there if w.is_spread or any_fits), own)
        for name, route in by_stream(root, found):
            self._routes[name] += [route] if route not in self._routes[name] else []
        self.stages = max(self.stages, len(found.stages))
        return True


def is_there(root: logical.Logical, way: Way, routes: Mapping[str, Sequence[Route]]) -> bool:
    """Whether a way uses only these splits."""
    return all(route in routes[stream] for stream, route in by_stream(root, way))


def allowed(
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


def check_streams(root: logical.Logical, known: Iterable[str]) -> None:
    """Reject a query that reads a stream which the pipeline does not."""
    for source in logical.sources(root):
        if source.definition.name not in known:
            raise PipelineError(
                f"the pipeline does not read {source.definition.name}; its streams are "
                f"{', '.join(known)}. Make a pipeline with that stream, too"
            )


def by_stream(root: logical.Logical, way: Way) -> list[tuple[str, Route]]:
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
        own = named(route, lambda n: f"{stream.name}.{n}")
        # Which queries will come is not known, so ties have their order in all of them.
        yield ordered(SourceInput(name, stream.name, stream, columns, None, own), sent)


def _input_name(stream: str, route: Route) -> str:
    (axis,) = route.axes or (None,)
    if axis is None:
        return f"{stream} whole"
    if not axis.splits:
        return f"{stream} everywhere"
    return f"{stream} by {'row' if axis.by_row else ', '.join(map(str, axis.keys))}"


def _stage_input(source: SourceInput) -> StageInput:
    return stream_input(pa.schema([(name, e.type) for name, e in source.columns]), source)
