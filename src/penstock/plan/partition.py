"""How a query is spread over partitions, and which results a second stage must bring together.

Spreading must not change the answer. Rows that may meet must be in one partition: rows that join, rows of a
group, rows of a row window's partition, and equal results, since they may cancel at an instant. The schemes
propose dimensions to spread streams in, the distribution checks which of them are right, the hypercube
chooses how many partitions each gets. If none is right the query has one partition, and explain the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from penstock.plan.distribution import Dimension, Distribution, SpreadError
from penstock.plan.hypercube import Candidate, Cube, choose_shares
from penstock.plan.logical import Logical, Source, ToStream, sources, walk
from penstock.plan.schemes import by_time, heavy_values, proposals
from penstock.plan.second_stage import Chain, StageRelation, chain_of, cut, find_cut
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain

Places = dict[int, tuple[str, ...]]
"""For streams of which partitions must know the places of all rows: the columns needed to place a row."""


@dataclass(frozen=True)
class Scheme:
    """``routes``: where the rows of each stream go, by its number; empty: one partition, and ``why``.

    ``cube`` is what they are derived from. ``stages``: what each stage computes, if there are several.
    ``unsplit``: why heavy keys are not split.
    """

    routes: Mapping[int, Route] = field(default_factory=dict)
    cube: Cube | None = None
    stages: tuple[StageRelation, ...] = ()
    why: str = ""
    unsplit: tuple[str, ...] = ()


def choose(
    root: Logical,
    time: TimeDomain,
    partitions: int,
    rates: Mapping[str, float] | None = None,
    batch_span: float = 0.0,
) -> Scheme:
    """The way to spread a numbered plan; ``rates`` are streams' rows per second, where they were measured.

    ``batch_span``: the ticks of a stream's time that one batch has, as far as that is known.
    """
    if partitions == 1:
        return Scheme(why="one partition was asked for")
    top = root if isinstance(root, ToStream) else None
    body, chain = chain_of(top.input if top else root)
    nets = top is None or not top.shows_at_once
    dimensions = [*proposals(root), *by_time(root, partitions, batch_span)]
    reasons, candidates, places = _candidates(dimensions, root, time, body, chain, nets)
    if not candidates:
        return Scheme(why=next(iter(reasons.values()), "there is no stream to spread"))
    cube = choose_shares(candidates, _rates(root, rates or {}), partitions, len(chain) + 1)
    routes = {s.number: _route(s, cube, places) for s in sources(root)}
    stages = cut(body, chain, cube.cut, nets, top) if cube.cut <= len(chain) else ()
    return Scheme(routes, cube, stages, unsplit=tuple(_unsplit(cube, reasons, root)))


def _candidates(
    dimensions: Sequence[Dimension], root: Logical, time: TimeDomain, body: Logical, chain: Chain, nets: bool
) -> tuple[dict[Dimension, str], list[Candidate], Places]:
    """The dimensions that are right for a plan, with the places that they need, and why others are not."""
    clocked = any(node.reads_instants(time) for node in walk(root))
    top = root if isinstance(root, ToStream) else None
    reasons, candidates, places = dict[Dimension, str](), list[Candidate](), Places()
    for dimension in dimensions:
        distribution = Distribution(dimension)
        try:
            candidate = _candidate(distribution, body, chain, nets)
            if clocked and dimension.slice is not None:
                raise SpreadError("each partition must know the instants of all rows")
            if clocked:
                candidate = _with_instants(candidate, distribution, top, chain, time)
            candidates.append(candidate)
            for number, columns in distribution.places.items():
                places[number] = tuple(sorted({*places.get(number, ()), *columns}))
        except SpreadError as reason:
            reasons[dimension] = str(reason)
    return reasons, candidates, places


@dataclass(frozen=True)
class Way:
    """A way to spread a plan by one key: the routes of its streams, by number.

    ``stages``: what each stage computes, if there are two.
    """

    routes: Mapping[int, Route]
    stages: tuple[StageRelation, ...] = ()

    @property
    def is_spread(self) -> bool:
        """Whether all partitions take part."""
        return all(route.partitions > 1 for route in self.routes.values())

    @property
    def columns(self) -> int:
        """The columns whose hashes choose a partition."""
        return sum(len(axis.keys) for route in self.routes.values() for axis in route.axes)

    @property
    def by_row(self) -> bool:
        """Whether any partition may have any row, so that every other split is right, too."""
        split = self.is_spread and not self.stages
        return split and all(axis.by_row for route in self.routes.values() for axis in route.axes)


def ways(
    root: Logical,
    time: TimeDomain,
    partitions: int,
    first: Sequence[Dimension] = (),
    two_stages: bool = False,
) -> Iterator[Way]:
    """The ways to spread a plan by one key, where partitions get whole rows; the most parallel first.

    Those that split every stream come before those that send a stream to all partitions, and of both those in
    one stage; of equal ones the dimensions ``first``. The last way is one partition, which always is right.
    """
    if partitions > 1:
        top = root if isinstance(root, ToStream) else None
        body, chain = chain_of(top.input if top else root)
        nets = top is None or not top.shows_at_once
        _, candidates, _ = _candidates([*first, *proposals(root)], root, time, body, chain, nets)
        plain = [c for c in candidates if not (c.places or c.dimension.by_source or c.dimension.heavy)]
        many = len(sources(root))
        for c in sorted(plain, key=lambda c: (many - len(c.dimension.streams), c.cut <= len(chain))):
            routes = {s.number: Route((_axis(s.number, c.dimension, partitions),)) for s in sources(root)}
            if c.cut > len(chain):
                yield Way(routes)
            elif two_stages:
                yield Way(routes, cut(body, chain, c.cut, nets, top))
    yield Way({s.number: Route() for s in sources(root)})


def _unsplit(cube: Cube, reasons: Mapping[Dimension, str], root: Logical) -> Iterator[str]:
    """The reasons why heavy keys are not split."""
    leaves = {s.number: s for s in sources(root)}
    for candidate in cube.dimensions:
        dimension = candidate.dimension
        if candidate.heavy and not dimension.heavy:
            split = [r for d, r in reasons.items() if d.heavy and d.keys == dimension.keys]
            names = ", ".join(leaves[n].alias for n in sorted(candidate.heavy))
            yield f"heavy keys of {names} are not split: {split[0] if split else 'it would cost more'}"


def _candidate(distribution: Distribution, body: Logical, chain: Chain, nets: bool) -> Candidate:
    leaves, dimension = {s.number: s for s in sources(body)}, distribution.dimension
    heavy = frozenset(n for n, key in dimension.keys if heavy_values(leaves[n], key))
    spread = distribution.whole(body)
    joins = any(len(n.inputs) > 1 for n in walk(body))
    place = find_cut(distribution, spread, chain, nets, joins)
    return Candidate(dimension, frozenset(distribution.places), place, heavy)


def _with_instants(
    candidate: Candidate, distribution: Distribution, top: Logical | None, chain: Chain, time: TimeDomain
) -> Candidate:
    """The candidate where some RSTREAM outputs at the instants of all rows.

    In the first stage each partition must know them: split streams send places. A second stage gets them
    from the first one, if it has one partition.
    """
    if top is not None and top.reads_instants(time) and candidate.cut < len(chain):
        if chain[candidate.cut].two_phases(joins=True).meets:
            raise SpreadError(
                "RSTREAM outputs the relation at every instant with input, which the partitions of a second "
                "stage do not know; write EVERY after RSTREAM(...)"
            )
        if not any(node.reads_instants(time) for node in walk(top.inputs[0])):
            return candidate
    for number in distribution.dimension.streams:
        distribution.need_places(number)
    return replace(candidate, places=frozenset(distribution.places))


def _rates(root: Logical, measured: Mapping[str, float]) -> dict[int, float]:
    """Rows per second of each stream: measured, else declared, else the mean of the other streams."""
    known: dict[int, float | None] = {}
    for leaf in sources(root):
        known[leaf.number] = measured.get(leaf.definition.name, leaf.definition.options.rate)
    given = [r for r in known.values() if r is not None]
    usual = fmean(given) if given else 1.0
    return {number: usual if rate is None else rate for number, rate in known.items()}


def _route(leaf: Source, cube: Cube, places: Places) -> Route:
    pairs = zip(cube.dimensions, cube.shares, strict=True)
    axes = [_axis(leaf.number, c.dimension, share) for c, share in pairs]
    return Route(tuple(axes), places[leaf.number] if leaf.number in cube.places else None)


def _axis(number: int, dimension: Dimension, share: int) -> Axis:
    keys, heavy, ages = dict(dimension.keys), dict(dimension.heavy), dict(dimension.ages)
    if number in ages:
        return Axis(share, slice=dimension.slice, age=ages[number])
    if number not in keys:
        return Axis(share)
    key = keys[number]
    if key is None:
        return Axis(share, by_row=True)
    others = tuple(v for n, values in heavy.items() if n != number for v in values)
    return Axis(share, key, False, dimension.by_source, heavy.get(number, ()), others)
