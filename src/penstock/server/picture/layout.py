"""Places for the nodes of a directed acyclic graph, in layers from top to bottom (Sugiyama's method).

Every node is one layer below the lowest node it reads. Edges that pass layers get invisible nodes there.
Within layers, nodes are ordered by the mean place of their neighbours, in sweeps down and up; of all orders
seen, the one with the fewest crossings is kept. Their places are as near to their neighbours' as widths and
order allow: a least-squares problem for each layer, which pooling adjacent violators solves exactly.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from penstock.server.picture.settings import GAP, LAYER_GAP, NEAR_GAP, PASSING_WIDTH, SWEEPS

PASSING = "\0"
"""In the names of nodes for edges that pass a layer."""
Size = tuple[float, float]
Edge = tuple[str, str]


@dataclass
class Layout:
    """The centre of each node, the points of each edge from top to bottom, and the size of the whole."""

    centres: dict[str, tuple[float, float]] = field(default_factory=dict)
    paths: dict[Edge, list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def layout(
    sizes: Mapping[str, Size],
    edges: Sequence[Edge],
    layers: Mapping[str, int] | None = None,
    near: frozenset[Edge] = frozenset(),
) -> Layout:
    """Places for nodes of these widths and heights; ``layers`` if they are given.

    Where only edges that are ``near`` lead from a layer to the next, these are close to each other.

    >>> found = layout({"a": (10, 10), "b": (10, 10)}, [("a", "b")])
    >>> found.centres["a"][1] < found.centres["b"][1]
    True
    """
    edges = list(dict.fromkeys(e for e in edges if e[0] != e[1]))
    level = dict(layers) if layers is not None else levels(sizes, edges)
    rows, links, passing = _with_passing(sizes, edges, level)
    width = {n: sizes[n][0] if n in sizes else PASSING_WIDTH for row in rows for n in row}
    rows = _ordered(rows, links)
    x = _placed(rows, links, width)
    far = {level[a] + n for a, b in edges for n in range(level[b] - level[a]) if (a, b) not in near}
    gaps = [LAYER_GAP if n in far else NEAR_GAP for n in range(len(rows))]
    return _result(rows, x, width, sizes, edges, passing, gaps)


def levels(nodes: Mapping[str, object], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each node: one below its lowest producer."""
    above: dict[str, list[str]] = {n: [] for n in nodes}
    below: dict[str, list[str]] = {n: [] for n in nodes}
    for a, b in edges:
        above[b].append(a)
        below[a].append(b)
    order = _topological(above, below)
    found: dict[str, int] = {}
    for n in order:
        found[n] = max((found[a] + 1 for a in above[n]), default=0)
    return found


def _topological(above: Mapping[str, list[str]], below: Mapping[str, list[str]]) -> list[str]:
    waiting = {n: len(set(a)) for n, a in above.items()}
    ready = [n for n, left in waiting.items() if not left]
    found = []
    while ready:
        n = ready.pop(0)
        found.append(n)
        for b in dict.fromkeys(below[n]):
            waiting[b] -= 1
            if not waiting[b]:
                ready.append(b)
    return found


Links = dict[str, tuple[list[str], list[str]]]
"""The neighbours of a node in the layers above and below."""


def _with_passing(
    nodes: Mapping[str, object], edges: Sequence[Edge], level: Mapping[str, int]
) -> tuple[list[list[str]], Links, dict[Edge, list[str]]]:
    """The layers with nodes for the edges that pass them, the links between layers, and those nodes."""
    rows: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for n in nodes:
        rows[level[n]].append(n)
    links: Links = {n: ([], []) for n in nodes}
    passing: dict[Edge, list[str]] = {}
    for a, b in edges:
        chain = [a, *(f"{a}{PASSING}{b}{PASSING}{at}" for at in range(level[a] + 1, level[b])), b]
        passing[a, b] = chain[1:-1]
        for at, n in enumerate(chain[1:-1], start=level[a] + 1):
            rows[at].append(n)
            links[n] = ([], [])
        for upper, lower in zip(chain, chain[1:], strict=False):
            links[upper][1].append(lower)
            links[lower][0].append(upper)
    return rows, links, passing


def _ordered(rows: list[list[str]], links: Links) -> list[list[str]]:
    """The rows in an order with few crossings."""
    best, fewest = [list(r) for r in rows], _crossings(rows, links)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for row in rows[1:] if side == 0 else rows[-2::-1]:
            _sort(row, links, side, rows)
        found = _crossings(rows, links)
        if found < fewest:
            best, fewest = [list(r) for r in rows], found
        if not fewest:
            break
    return best


def _sort(row: list[str], links: Links, side: int, rows: list[list[str]]) -> None:
    place = {n: i for r in rows for i, n in enumerate(r)}
    means = {n: fmean([place[m] for m in links[n][side]] or [place[n]]) for n in row}
    row.sort(key=means.__getitem__)


def _crossings(rows: Sequence[Sequence[str]], links: Links) -> int:
    total = 0
    for upper, lower in zip(rows, rows[1:], strict=False):
        place = {n: i for i, n in enumerate(lower)}
        seen: list[int] = []
        for n in upper:
            ends = sorted(place[m] for m in links[n][1])
            total += sum(len(seen) - bisect_right(seen, e) for e in ends)
            for e in ends:
                insort(seen, e)
    return total


def _placed(rows: Sequence[Sequence[str]], links: Links, width: Mapping[str, float]) -> dict[str, float]:
    """The x of every node."""
    x: dict[str, float] = {}
    for row in rows:
        at = 0.0
        for n in row:
            x[n] = at + width[n] / 2
            at += width[n] + GAP
    for sweep in range(SWEEPS):
        side = sweep % 2
        for row in rows if side == 0 else reversed(rows):
            wanted = [fmean([x[m] for m in links[n][side] or links[n][1 - side]] or [x[n]]) for n in row]
            x.update(zip(row, _spread(wanted, _offsets(row, width)), strict=True))
    left = min((x[n] - width[n] / 2 for n in x), default=0.0)
    return {n: at - left for n, at in x.items()}


def _offsets(row: Sequence[str], width: Mapping[str, float]) -> list[float]:
    """How far each node is from the first, if they stand as close as they may."""
    offsets = [0.0]
    for a, b in zip(row, row[1:], strict=False):
        passing = (PASSING in a) + (PASSING in b)
        gap = (GAP, GAP / 2, 0.0)[passing]
        offsets.append(offsets[-1] + (width[a] + width[b]) / 2 + gap)
    return offsets


def _spread(wanted: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """The places nearest to those wanted that keep the order and do not overlap."""
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, size = want - offset, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, size = (mean * size + before * many) / (size + many), size + many
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [at + offset for at, offset in zip(flat, offsets, strict=False)]


def _result(
    rows: Sequence[Sequence[str]],
    x: Mapping[str, float],
    width: Mapping[str, float],
    sizes: Mapping[str, Size],
    edges: Sequence[Edge],
    passing: Mapping[Edge, list[str]],
    gaps: Sequence[float],
) -> Layout:
    found = Layout(width=max((x[n] + width[n] / 2 for n in x), default=0.0))
    middle: dict[str, tuple[float, float]] = {}
    through: dict[str, list[tuple[float, float]]] = {}
    top = 0.0
    for row, gap in zip(rows, gaps, strict=True):
        height = max((sizes[n][1] for n in row if n in sizes), default=0.0)
        middle |= {n: (x[n], top + height / 2) for n in row}
        through |= {n: [(x[n], top), (x[n], top + height)] for n in row if n not in sizes}
        top += height + gap
    found.height = max(0.0, top - gaps[-1]) if gaps else 0.0
    found.centres = {n: middle[n] for n in sizes}
    for a, b in edges:
        start, end = found.centres[a], found.centres[b]
        first = (start[0], start[1] + sizes[a][1] / 2)
        last = (end[0], end[1] - sizes[b][1] / 2)
        found.paths[a, b] = [first, *(at for n in passing[a, b] for at in through[n]), last]
    return found
