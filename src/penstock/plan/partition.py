"""How a query is spread over partitions, and what must be brought together again after.

Right is what does not change the answer. Rows that may meet must meet: rows that join, rows of a group,
rows of a row window's partition, and equal results, since they may cancel at an instant. The schemes
propose dimensions to spread streams in, the distribution says which of them are right, the hypercube how
many partitions each gets. Where none is right there is one partition, and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from penstock.expression import columns
from penstock.plan import logical
from penstock.plan.distribution import Cannot, Dimension, Distribution
from penstock.plan.hypercube import Candidate, Cube, choose_shares
from penstock.plan.schemes import proposals
from penstock.plan.second_stage import Chain, TwoStages, chain_of, climb, cut
from penstock.plan.update_patterns import passes_on
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class Scheme:
    """``routes``: where the rows of each stream go, by its number; empty: one partition, and ``why``.

    ``cube`` is what they come from. ``stages``: the query in two, where it needs a second stage.
    """

    routes: Mapping[int, Route] = field(default_factory=dict)
    cube: Cube | None = None
    stages: TwoStages | None = None
    why: str = ""


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
    reasons, candidates = list[str](), list[Candidate]()
    for dimension in proposals(root):
        try:
            candidates.append(_candidate(dimension, body, chain, nets))
        except Cannot as reason:
            reasons.append(str(reason))
    if not candidates:
        return Scheme(why=reasons[0] if reasons else "there is no stream to spread")
    cube = choose_shares(candidates, _rates(root, rates or {}), partitions, len(chain) + 1)
    routes = {s.number: _route(s, cube, root) for s in logical.spreadable(root)}
    stages = cut(body, chain, cube.cut, nets) if cube.cut <= len(chain) else None
    return Scheme(routes, cube, stages)


def _ticks_with_input(node: logical.Logical, time: TimeDomain) -> bool:
    by_instants = time.kind == "timestamp" and isinstance(node, logical.ToStream) and node.every is None
    return by_instants and isinstance(node, logical.ToStream) and node.kind == "rstream"


def _candidate(dimension: Dimension, body: logical.Logical, chain: Chain, nets: bool) -> Candidate:
    distribution = Distribution(dimension)
    spread = distribution.of(body)
    if spread.everywhere:
        raise Cannot("every partition would have the whole result")
    joins = any(isinstance(n, logical.Join | logical.Binary) for n in logical.walk(body))
    place = climb(distribution, spread, chain, nets, joins)
    return Candidate(dimension, frozenset(distribution.places), place)


def _rates(root: logical.Logical, measured: Mapping[str, float]) -> dict[int, float]:
    """Rows a second of each stream: measured, declared, else taken to be as many as of the others."""
    known: dict[int, float | None] = {}
    for leaf in logical.spreadable(root):
        defined = leaf.stream if isinstance(leaf, logical.StreamSource) else leaf.relation
        known[leaf.number] = measured.get(defined.name, defined.rate)
    given = [r for r in known.values() if r is not None]
    usual = fmean(given) if given else 1.0
    return {number: usual if rate is None else rate for number, rate in known.items()}


def _route(leaf: logical.Spreadable, cube: Cube, root: logical.Logical) -> Route:
    axes = []
    for candidate, share in zip(cube.dimensions, cube.shares, strict=True):
        keys = dict(candidate.dimension.keys)
        if leaf.number not in keys:
            axes.append(Axis(share))
        else:
            key = keys[leaf.number]
            axes.append(Axis(share, by_row=True) if key is None else Axis(share, key))
    return Route(tuple(axes), _places(leaf.number, root) if leaf.number in cube.places else None)


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
