"""HyperCube: how many coordinates each dimension gets, so that the load of a partition is least.

Partitions are the cells of a cube, one dimension for each way in which streams are spread (the shares of
Afrati and Ullman; the HyperCube of Beame, Koutris and Suciu). A stream's rows go to one coordinate in the
dimensions that split it and to all in the others, so a partition receives rate / (product of the shares of
its own dimensions) of it. The shares are the integers with a product of at most the number of partitions for
which the sum of that over all streams is least: leaving a partition idle can be better than replicating.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from penstock.plan.distribution import Dimension
from penstock.plan.settings import (
    HEAVY_KEYS_PART,
    JOINED_HEAVY_KEYS_PART,
    MAX_DIMENSIONS,
    PLACE_COST,
    SECOND_STAGE_COST,
)


@dataclass(frozen=True)
class Candidate:
    """A dimension that is right for a query, and what it requires.

    ``places``: the streams that send places. ``cut``: where in the chain of operators above the body a second
    stage begins; ``len(chain) + 1`` if there is none. ``heavy``: the streams with heavy values of its key.
    """

    dimension: Dimension
    places: frozenset[int]
    cut: int
    heavy: frozenset[int] = frozenset()

    def part(self, number: int, share: int) -> float:
        """The part of a stream's rows that the busiest coordinate receives."""
        if number not in self.dimension.streams:
            return 1.0
        if self.dimension.slice is not None:
            copies = 1 + dict(self.dimension.ages)[number] / self.dimension.slice
            return min(1.0, copies / min(share, self.dimension.at_once))
        spreading = {n for n, _ in self.dimension.heavy}
        if number in spreading or (not spreading and number not in self.heavy):
            return 1 / share
        heavy = HEAVY_KEYS_PART if number in self.heavy else JOINED_HEAVY_KEYS_PART
        return heavy + (1 - heavy) / share


@dataclass(frozen=True)
class Cube:
    """Dimensions and their shares."""

    dimensions: tuple[Candidate, ...]
    shares: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return prod(self.shares)

    @property
    def places(self) -> frozenset[int]:
        return frozenset().union(*(c.places for c in self.dimensions))

    @property
    def cut(self) -> int:
        return min(c.cut for c in self.dimensions)


def choose_shares(
    candidates: Sequence[Candidate], rates: Mapping[int, float], partitions: int, whole: int
) -> Cube:
    """The best cube of at most ``partitions`` cells. ``whole``: the cut of a query without second stage."""

    def cost(cube: Cube) -> tuple[float, int, int]:
        received = sum(rate * _part(number, cube) for number, rate in rates.items())
        price = received if cube.cut == whole else received * SECOND_STAGE_COST
        return round(price, 9), -cube.cut, len(cube.dimensions)

    alone = [Cube((c,), (partitions,)) for c in candidates]
    best = [cube.dimensions[0] for cube in sorted(alone, key=cost)[:MAX_DIMENSIONS]]
    ordered = [c for c in candidates if c in best]
    return min(_cubes(ordered, partitions), key=cost)


def _part(number: int, cube: Cube) -> float:
    """The part of a stream's rows that a partition receives."""
    part = prod(c.part(number, s) for c, s in zip(cube.dimensions, cube.shares, strict=True))
    return PLACE_COST + (1 - PLACE_COST) * part if number in cube.places else part


def _cubes(candidates: Sequence[Candidate], partitions: int) -> Iterator[Cube]:
    """Every choice of dimensions and shares; dimensions of share 1 are left out."""
    for shares in _shares(len(candidates), partitions):
        used = [(c, s) for c, s in zip(candidates, shares, strict=True) if s > 1]
        if used:
            yield Cube(tuple(c for c, _ in used), tuple(s for _, s in used))


def _shares(dimensions: int, product: int) -> Iterator[tuple[int, ...]]:
    """All tuples of positive integers whose product is at most ``product``."""
    if dimensions == 0:
        yield ()
        return
    for share in range(product, 0, -1):
        for rest in _shares(dimensions - 1, product // share):
            yield share, *rest
