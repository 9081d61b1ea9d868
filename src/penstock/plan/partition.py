"""How a query is spread over partitions, and what must be brought together again after.

Right is what does not change the answer. Rows that may meet must meet: rows that join, rows of a group,
rows of a row window's partition, and equal results, since they may cancel at an instant. The schemes
propose dimensions to spread streams in, the distribution says which of them are right, the hypercube how
many partitions each gets. Where none is right there is one partition, and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from penstock.expression import columns
from penstock.plan import logical
from penstock.plan.distribution import Cannot, Dimension, Distribution
from penstock.plan.hypercube import Candidate, Cube, choose_shares
from penstock.plan.schemes import proposals
from penstock.plan.schemes.heavy_keys import heavy_values
from penstock.plan.second_stage import Chain, TwoStages, chain_of, climb, cut
from penstock.plan.update_patterns import passes_on
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class Scheme:
    """``routes``: where the rows of each stream go, by its number; empty: one partition, and ``why``.

    ``cube`` is what they come from. ``stages``: the query in two, where it needs a second stage. ``unsplit``:
    why heavy keys are not split.
    """

    routes: Mapping[int, Route] = field(default_factory=dict)
    cube: Cube | None = None
    stages: TwoStages | None = None
    why: str = ""
    unsplit: tuple[str, ...] = ()


def choose(
    root: logical.Logical, time: TimeDomain, partitions: int, rates: Mapping[str, float] | None = None
) -> Scheme:
    """The way to spread a numbered plan; ``rates`` are streams' rows a second, where they were measured."""
    if partitions == 1:
        return Scheme(why="one partition was asked for")
    if any(_ticks_with_input(node, time) for node in logical.walk(root)):
        return Scheme(why="RSTREAM shows the relation at every instant at which any partition has input")
    relation = root.input if isinstance(root, logical.ToStream) else root
    body, chain = chain_of(relation)
    nets = not passes_on(root)
    reasons, candidates = dict[Dimension, str](), list[Candidate]()
    for dimension in proposals(root):
        try:
            candidates.append(_candidate(dimension, body, chain, nets))
        except Cannot as reason:
            reasons[dimension] = str(reason)
    if not candidates:
        return Scheme(why=next(iter(reasons.values()), "there is no stream to spread"))
    cube = choose_shares(candidates, _rates(root, rates or {}), partitions, len(chain) + 1)
    routes = {s.number: _route(s, cube, root) for s in logical.spreadable(root)}
    stages = cut(body, chain, cube.cut, nets) if cube.cut <= len(chain) else None
    return Scheme(routes, cube, stages, unsplit=tuple(_unsplit(cube, reasons, root)))


def _unsplit(cube: Cube, reasons: Mapping[Dimension, str], root: logical.Logical) -> Iterator[str]:
    """Of heavy keys that are not split: why not."""
    leaves = {s.number: s for s in logical.spreadable(root)}
    for candidate in cube.dimensions:
        dimension = candidate.dimension
        if candidate.heavy and not dimension.heavy:
            split = [r for d, r in reasons.items() if d.heavy and d.keys == dimension.keys]
            names = ", ".join(leaves[n].alias for n in sorted(candidate.heavy))
            yield f"heavy keys of {names} are not split: {split[0] if split else 'it would cost more'}"


def _ticks_with_input(node: logical.Logical, time: TimeDomain) -> bool:
    by_instants = time.kind == "timestamp" and isinstance(node, logical.ToStream) and node.every is None
    return by_instants and isinstance(node, logical.ToStream) and node.kind == "rstream"


def _candidate(dimension: Dimension, body: logical.Logical, chain: Chain, nets: bool) -> Candidate:
    leaves = {s.number: s for s in logical.spreadable(body)}
    heavy = frozenset(n for n, key in dimension.keys if heavy_values(leaves[n], key))
    distribution = Distribution(dimension)
    spread = distribution.whole(body)
    joins = any(isinstance(n, logical.Join | logical.Binary) for n in logical.walk(body))
    place = climb(distribution, spread, chain, nets, joins)
    return Candidate(dimension, frozenset(distribution.places), place, heavy)


def _rates(root: logical.Logical, measured: Mapping[str, float]) -> dict[int, float]:
    """Rows a second of each stream: measured, declared, else taken to be as many as of the others."""
    known: dict[int, float | None] = {}
    for leaf in logical.spreadable(root):
        defined = logical.definition_of(leaf)
        known[leaf.number] = measured.get(defined.name, defined.options.rate)
    given = [r for r in known.values() if r is not None]
    usual = fmean(given) if given else 1.0
    return {number: usual if rate is None else rate for number, rate in known.items()}


def _route(leaf: logical.Spreadable, cube: Cube, root: logical.Logical) -> Route:
    pairs = zip(cube.dimensions, cube.shares, strict=True)
    axes = [_axis(leaf.number, c.dimension, share) for c, share in pairs]
    return Route(tuple(axes), _places(leaf.number, root) if leaf.number in cube.places else None)


def _axis(number: int, dimension: Dimension, share: int) -> Axis:
    keys, heavy = dict(dimension.keys), dict(dimension.heavy)
    if number not in keys:
        return Axis(share)
    key = keys[number]
    if key is None:
        return Axis(share, by_row=True)
    others = tuple(v for n, values in heavy.items() if n != number for v in values)
    return Axis(share, key, False, dimension.by_source, heavy.get(number, ()), others)


def _places(number: int, root: logical.Logical) -> tuple[str, ...]:
    """The columns that every partition needs of all rows of a stream: what its row window counts by.

    And what a filter below the window reads, which the engine may have to evaluate.
    """
    for node in logical.walk(root):
        source = logical.stream_of(node) if isinstance(node, logical.Window) else None
        if isinstance(node, logical.Window) and source is not None and source.number == number:
            below = node.input.conjuncts if isinstance(node.input, logical.Select) else ()
            return tuple(sorted({*node.spec.partition_by, *(c for e in below for c in columns(e))}))
    raise AssertionError(number)
