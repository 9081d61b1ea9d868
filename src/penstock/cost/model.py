"""The cost of a window join per unit of time, for each direction and access method.

After Kang, Naughton and Viglas, "Evaluating Window Joins over Unbounded Streams", section 4. A join of
windows A and B has two independent directions: tuples of A arrive and probe the structure on window B, which
B's own arrivals update; and the reverse. The cost of a direction is the number of tuples it touches, each
times a weight that is measured on the machine (equation 7 has those of the paper's).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil, inf, log, log2

from penstock.cost.invalidation import invalidations
from penstock.cost.settings import HASH_BUCKET_TUPLES
from penstock.engine.settings import TREE_NODE_ROWS


@dataclass(frozen=True)
class AccessMethod:
    """How a window is searched: the tuples touched by a probe, and by an insertion or an expiry."""

    name: str
    letter: str
    probe: Callable[[float], float]
    update: Callable[[float], float]
    ordered: bool = False


def _b_tree(window: float) -> float:
    """Nodes from the root to a leaf, each by binary search (equation 5)."""
    leaves = max(1, ceil(window / TREE_NODE_ROWS))
    return (ceil(log(leaves, TREE_NODE_ROWS + 1)) + 1) * ceil(log2(TREE_NODE_ROWS))


def _t_tree(window: float) -> float:
    """One and a half comparisons per node on the path, then one binary search (equation 6)."""
    nodes = max(1, ceil(window / TREE_NODE_ROWS))
    return 1.5 * max(0, ceil(log2(nodes)) - 1) + ceil(log2(TREE_NODE_ROWS))


SCAN = AccessMethod("none", "N", probe=lambda window: window, update=lambda _: 1)
HASH = AccessMethod("hash", "H", probe=lambda _: HASH_BUCKET_TUPLES, update=lambda _: 1)
B_TREE = AccessMethod("b+tree", "B", _b_tree, _b_tree, ordered=True)
T_TREE = AccessMethod("t-tree", "T", _t_tree, _t_tree, ordered=True)

METHODS = {m.name: m for m in (HASH, B_TREE, T_TREE, SCAN)}
BY_LETTER = {m.letter: m for m in METHODS.values()}


@dataclass(frozen=True)
class Weight:
    """The cost of touching a tuple: in a search (the papers' P) and in an update (I).

    With caches a search also has a least cost, and costs more in a larger structure: ``at_least``, and each
    ``doubling`` of the window, are added. The papers' weights have neither.
    """

    search: float
    update: float
    search_at_least: float = 0.0
    update_at_least: float = 0.0
    search_doubling: float = 0.0
    update_doubling: float = 0.0

    def probe(self, method: AccessMethod, window: float) -> float:
        more = self.search_at_least + self.search_doubling * doublings(window)
        return method.probe(window) * self.search + more

    def change(self, method: AccessMethod, window: float) -> float:
        """The cost of an insertion or an expiry."""
        more = self.update_at_least + self.update_doubling * doublings(window)
        return method.update(window) * self.update + more


def doublings(window: float) -> float:
    """The number of doublings from one tuple to the window."""
    return log2(max(window, 1.0))


Weights = Mapping[str, Weight]

PAPER: Weights = {
    "none": Weight(3e-4, 1e-4),
    "hash": Weight(5.5e-4, 7.8e-4),
    "b+tree": Weight(2.6e-4, 2.6e-4),
    "t-tree": Weight(2.6e-4, 2.7e-4),
}
"""Weights of the paper's machine (equation 7)."""


@dataclass(frozen=True)
class Direction:
    """Tuples arrive at ``rate`` and probe a ``window`` of tuples; ``updates`` enter it per unit of time."""

    rate: float
    window: float
    updates: float

    def cost(self, method: AccessMethod, weights: Weights) -> float:
        """Equation 2 with the terms of the method: probes, and an insertion and an expiry per update."""
        weight = weights[method.name]
        probes = self.rate * weight.probe(method, self.window)
        return probes + 2 * self.updates * weight.change(method, self.window)


@dataclass(frozen=True)
class Workload:
    """The rates of two streams and the tuples in their windows."""

    rate_a: float
    rate_b: float
    window_a: float
    window_b: float

    @staticmethod
    def timed(rate_a: float, rate_b: float, seconds_a: float, seconds_b: float) -> Workload:
        """A workload of time windows, which hold the rate times their length."""
        return Workload(rate_a, rate_b, rate_a * seconds_a, rate_b * seconds_b)

    def regulated(self, rate_a: float, rate_b: float) -> Workload:
        """The same with lower rates, and so with fewer tuples in the windows."""
        part_a, part_b = (
            new / old if old else 1.0 for new, old in ((rate_a, self.rate_a), (rate_b, self.rate_b))
        )
        return Workload(rate_a, rate_b, self.window_a * part_a, self.window_b * part_b)

    @property
    def into_b(self) -> Direction:
        return Direction(self.rate_a, self.window_b, self.rate_b)

    @property
    def into_a(self) -> Direction:
        return Direction(self.rate_b, self.window_a, self.rate_a)


@dataclass(frozen=True)
class Choice:
    """The access methods of windows A and B, and the cost of each direction."""

    on_a: AccessMethod
    on_b: AccessMethod
    into_a: float
    into_b: float

    @property
    def name(self) -> str:
        """The paper's name: the first letter is the structure on window A."""
        return self.on_a.letter + self.on_b.letter

    @property
    def total(self) -> float:
        return self.into_a + self.into_b


def full(name: str, workload: Workload, weights: Weights = PAPER) -> Choice:
    """The cost of a combination by its letters."""
    on_a, on_b = (BY_LETTER[letter] for letter in name)
    return _choice(on_a, on_b, workload, weights)


def combinations(
    workload: Workload, weights: Weights, methods: Sequence[AccessMethod] = tuple(METHODS.values())
) -> list[Choice]:
    """Every combination, the cheapest first."""
    pairs = product(methods, repeat=2)
    return sorted((_choice(a, b, workload, weights) for a, b in pairs), key=lambda c: c.total)


def cheapest(direction: Direction, weights: Weights, methods: Sequence[AccessMethod]) -> AccessMethod:
    """The method for one direction, which is independent of the other."""
    return min(methods, key=lambda m: direction.cost(m, weights))


def crossover(one: AccessMethod, other: AccessMethod, window: float, weights: Weights = PAPER) -> float:
    """The ratio of probes to updates at which both cost the same (equations 8-11); inf if one is always
    cheaper.
    """
    w, v = weights[one.name], weights[other.name]
    probes = w.probe(one, window) - v.probe(other, window)
    updates = w.change(one, window) - v.change(other, window)
    if probes == 0 or updates / probes > 0:
        return inf
    return -2 * updates / probes


@dataclass(frozen=True)
class ByCost:
    """Prefers the cheapest method under some weights; ``forced`` is used wherever it finds the rows.

    ``invalidation``: how expired rows are freed; None for the cheaper way.
    """

    weights: Weights = field(repr=False)
    forced: str | None = None
    invalidation: str | None = None

    def among(self, methods: Sequence[str]) -> Sequence[str]:
        """The methods to choose from: the forced one, or all."""
        return methods if self.forced is None or self.forced not in methods else (self.forced,)

    def costs(self, probes: float, updates: float, window: float, methods: Sequence[str]) -> dict[str, float]:
        """The cost of these probes and updates by each method, the cheapest first."""
        direction = Direction(probes, window, updates)
        found = {name: direction.cost(METHODS[name], self.weights) for name in methods}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def invalidations(self, steps: float, probed: float, rows: float, window: float) -> dict[str, float]:
        """The cost of freeing rows by each policy, the cheapest first."""
        return invalidations(steps, probed, rows, window)

    def crossover(self, one: str, other: str, window: float) -> float:
        """As ``crossover`` of these weights."""
        return crossover(METHODS[one], METHODS[other], window, self.weights)


def _choice(on_a: AccessMethod, on_b: AccessMethod, workload: Workload, weights: Weights) -> Choice:
    return Choice(on_a, on_b, workload.into_a.cost(on_a, weights), workload.into_b.cost(on_b, weights))
