"""Which caches of join subresults to use (thesis 5.5.1, 5.5.4, 5.7): candidates, their value, the best set.

The pipeline of each input probes the others in some order. A cache stands for a segment of a pipeline: inputs
that follow each other. It is a candidate if its segment satisfies the *prefix invariant*: the pipelines of
the segment's inputs begin with the others of the segment, so that its updates are what they compute anyway.
Candidates of one pipeline that overlap contain each other: they form trees. Caches of several pipelines with
the same inputs and the same key are one cache, whose maintenance is paid once (definition 5.5.1).

The best set of caches that do not overlap maximizes the sum of benefit - cost. Without shared caches the best
set of a tree is its root or the best sets of its children. With shared caches the problem is NP-hard: the
groups that are paid for are tried one set after the other, if they are few, and otherwise chosen greedily as
in weighted set cover. Globally-consistent caches may overlap partly; there are few candidates then, and all
sets of them are tried.

>>> orders = [[1, 2], [2, 0], [1, 0]]     # R1 ⋈ R2 ⋈ R3 as in example 5.4.3
>>> [(c.root, sorted(c.inputs)) for c in candidates(orders)]
[(0, [1, 2])]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from penstock.streamon.settings import MOST_BESIDE, MOST_CACHE_GROUPS, MOST_TRIED_CACHES

Orders = Sequence[Sequence[int]]
"""For each input the order in which its tuples probe the others."""
KeyOf = Callable[[Collection[int], Collection[int], Collection[int]], Hashable]
"""The key of a segment (second) behind some inputs (first) and beside others (third); None if it cannot be
cached."""


@dataclass(frozen=True)
class Candidate:
    """A cache of ``inputs`` in the pipeline of ``root``, from position ``first`` on, by ``key``.

    ``beside``: for a segment X without the prefix invariant, the inputs Y with which it has it (5.7). Of X
    only the rows are cached then that join rows of Y.
    """

    root: int
    first: int
    inputs: frozenset[int]
    key: Hashable = None
    beside: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def group(self) -> tuple[frozenset[int], Hashable]:
        """What shared caches have in common."""
        return self.inputs, self.key

    @property
    def positions(self) -> range:
        """The positions in the pipeline that it stands for."""
        return range(self.first, self.first + len(self.inputs))

    def overlaps(self, other: Candidate) -> bool:
        return self.root == other.root and bool(self.inputs & other.inputs)


@dataclass(frozen=True)
class Value:
    """Benefit and cost of a cache per unit of time."""

    benefit: float
    cost: float

    @property
    def net(self) -> float:
        return self.benefit - self.cost


Values = Mapping[Candidate, Value]


def benefit(
    tuples: Sequence[float], costs: Sequence[float], after: float, probe: float, update: float, miss: float
) -> float:
    """The benefit of a cache: work without it, less the look-ups, less the work for misses (5.5.1).

    ``tuples`` and ``costs``: how many tuples the segment's joins process per unit of time, and what each
    takes. ``after``: the tuples they return. ``probe``, ``update``: what a look-up and the insertion of a
    tuple take. ``miss``: the share of look-ups that miss.
    """
    work = sum(d * c for d, c in zip(tuples, costs, strict=True))
    return work - tuples[0] * probe - miss * (work + after * update)


def no_key(before: Collection[int], members: Collection[int], beside: Collection[int]) -> Hashable:
    """Joins on one attribute: every segment has the same key."""
    return 0 if not beside else tuple(sorted(beside))


def has_prefixes(orders: Orders, inputs: Collection[int]) -> bool:
    """The prefix invariant (definition 5.4.2)."""
    count = len(inputs)
    return all({i, *orders[i][: count - 1]} == set(inputs) for i in inputs)


def prefix_sets(orders: Orders) -> list[frozenset[int]]:
    """All sets of inputs with the prefix invariant: as many pipelines as a set has inputs begin with it.

    >>> prefix_sets([[1, 2], [2, 0], [1, 0]])
    [frozenset({1, 2}), frozenset({0, 1, 2})]
    """
    times = Counter[int]()
    for i, order in enumerate(orders):
        # As the bits of a number: a wide join has hundreds of prefixes.
        bits = 1 << i
        for j in order:
            bits |= 1 << j
            times[bits] += 1
    whole = sorted(bits for bits, count in times.items() if count == bits.bit_count())
    return [frozenset(i for i in range(len(orders)) if bits >> i & 1) for bits in whole]


def candidates(orders: Orders, key: KeyOf = no_key) -> list[Candidate]:
    """The caches with the prefix invariant and at least one join, pipeline by pipeline."""
    sets = prefix_sets(orders)
    return [c for root in range(len(orders)) for c in _of_pipeline(orders, root, sets, key)]


def _of_pipeline(
    orders: Orders, root: int, sets: Iterable[frozenset[int]], key: KeyOf
) -> Iterator[Candidate]:
    """The segments of a pipeline that are one of some sets of inputs."""
    place = {j: at for at, j in enumerate(orders[root])}
    others = [s for s in sets if root not in s]
    for first, inputs in sorted(
        ((min(place[j] for j in s), s) for s in others), key=lambda f: (f[0], len(f[1]))
    ):
        if max(place[j] for j in inputs) != first + len(inputs) - 1:
            continue
        found = key({root, *orders[root][:first]}, inputs, ())
        if found is not None:
            yield Candidate(root, first, inputs, found)


def _longest_first(orders: Orders) -> Iterator[tuple[int, int, frozenset[int]]]:
    """All segments, as pipeline, first position and inputs."""
    for length in range(len(orders) - 1, 1, -1):
        for root, order in enumerate(orders):
            for first in range(len(order) - length + 1):
                yield root, first, frozenset(order[first : first + length])


def with_global(orders: Orders, quota: int, key: KeyOf = no_key) -> list[Candidate]:
    """Candidates with the prefix invariant and, up to ``quota`` in all, globally-consistent ones (5.7).

    Those leave out one input, then two, and so on: the larger a segment, the more it saves.
    """
    found = candidates(orders, key)
    if len(found) >= quota:
        return found
    known = {(c.root, c.first, c.inputs) for c in found}
    # Keys are computed only for those that are taken: a wide join has thousands of segments.
    for root, first, inputs in _longest_first(orders):
        if len(found) >= quota:
            break
        before = {root, *orders[root][:first]}
        if (root, first, inputs) in known or key(before, inputs, ()) is None:
            continue
        beside = beside_of(orders, inputs)
        found.append(Candidate(root, first, inputs, key(before, inputs, beside), beside))
    return found


def without_worse(values: Values) -> dict[Candidate, Value]:
    """Of candidates that stand for the same joins of a pipeline, such as X and X ⋉ Y, the best."""
    best: dict[tuple[int, frozenset[int]], Candidate] = {}
    for c, value in values.items():
        other = best.get((c.root, c.inputs))
        if other is None or value.net > values[other].net:
            best[c.root, c.inputs] = c
    return {c: values[c] for c in best.values()}


def beside_of(orders: Orders, inputs: frozenset[int]) -> frozenset[int]:
    """The fewest inputs that satisfy the prefix invariant together with a segment; all others always do."""
    others = [i for i in range(len(orders)) if i not in inputs]
    if len(others) > MOST_BESIDE:
        return frozenset(others)
    sets = chain.from_iterable(combinations(others, n) for n in range(1, len(others)))
    near = (frozenset(y) for y in sets if has_prefixes(orders, inputs | frozenset(y)))
    return next(near, frozenset(others))


@dataclass
class Tree:
    """A candidate and, of those it contains, the trees of the largest (figure 5.8)."""

    top: Candidate
    below: list[Tree]


def forest(some: Iterable[Candidate]) -> list[Tree]:
    """The candidates of one pipeline as trees."""
    roots: list[Tree] = []
    for c in sorted(some, key=lambda c: (-len(c.inputs), c.first)):
        level = roots
        while holder := next((t for t in level if c.inputs < t.top.inputs), None):
            level = holder.below
        level.append(Tree(c, []))
    return roots


Gain = Callable[[Candidate], float]


def best_of(trees: Iterable[Tree], gain: Gain) -> tuple[float, list[Candidate]]:
    """The best candidates that do not overlap: of each tree its top, or the best below it (5.5.1)."""
    total, chosen = 0.0, list[Candidate]()
    for tree in trees:
        own, below = gain(tree.top), best_of(tree.below, gain)
        worth, some = (own, [tree.top]) if own > below[0] else below
        total, chosen = total + max(worth, 0.0), chosen + (some if worth > 0 else [])
    return total, chosen


def select(values: Values) -> frozenset[Candidate]:
    """The set of caches that do not overlap with the largest sum of benefit - cost."""
    if any(c.beside for c in values) and len(values) <= MOST_TRIED_CACHES:
        return max(_sets(list(values)), key=lambda some: worth(some, values))
    pipelines = _pipelines(values)
    groups = _shared(values)
    if not groups:
        gain = {c: v.net for c, v in values.items()}
        return _chosen(pipelines, gain.__getitem__)
    if len(groups) <= MOST_CACHE_GROUPS:
        return max(_by_groups(values, pipelines, groups), key=lambda some: worth(some, values))
    return greedy(values)


def _sets(some: Sequence[Candidate]) -> Iterator[frozenset[Candidate]]:
    """All sets of candidates that do not overlap."""
    if not some:
        yield frozenset()
        return
    first, *others = some
    yield from _sets(others)
    for chosen in _sets([c for c in others if not c.overlaps(first)]):
        yield chosen | {first}


def _pipelines(some: Iterable[Candidate]) -> list[list[Tree]]:
    by_root: dict[int, list[Candidate]] = {}
    for c in some:
        by_root.setdefault(c.root, []).append(c)
    # Segments without the prefix invariant may overlap without one containing the other.
    return [forest(_laminar(own)) for _, own in sorted(by_root.items())]


def _laminar(some: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without those that overlap another one partly."""
    kept: list[Candidate] = []
    for c in sorted(some, key=lambda c: (bool(c.beside), -len(c.inputs), c.first)):
        clash = (k for k in kept if c.overlaps(k) and not (c.inputs < k.inputs or k.inputs < c.inputs))
        if next(clash, None) is None:
            kept.append(c)
    return kept


def _shared(some: Iterable[Candidate]) -> list[Hashable]:
    """The groups that have several caches."""
    counts: dict[Hashable, int] = {}
    for c in some:
        counts[c.group] = counts.get(c.group, 0) + 1
    return [g for g, n in counts.items() if n > 1]


def _chosen(pipelines: Sequence[list[Tree]], gain: Gain) -> frozenset[Candidate]:
    return frozenset(c for trees in pipelines for c in best_of(trees, gain)[1])


def _by_groups(
    values: Values, pipelines: Sequence[list[Tree]], groups: Sequence[Hashable]
) -> Iterator[frozenset[Candidate]]:
    """The best caches for each set of shared groups that are paid for."""
    for paid in chain.from_iterable(combinations(groups, n) for n in range(len(groups) + 1)):

        def gain(c: Candidate, paid: tuple[Hashable, ...] = paid) -> float:
            value = values[c]
            if c.group not in groups:
                return value.net
            return value.benefit if c.group in paid else 0.0

        yield _chosen(pipelines, gain)


def worth(some: Iterable[Candidate], values: Values) -> float:
    """The sum of benefit - cost; the cost of shared caches counts once."""
    costs = {c.group: values[c].cost for c in some}
    return sum(values[c].benefit for c in some) - sum(costs.values())


def greedy(values: Values) -> frozenset[Candidate]:
    """An O(log n) approximation of the least cost (theorem 5.5.3).

    A group of shared caches is a set that covers its joins at its cost; a join alone is one that costs what
    it takes. Always the set that costs least per join that is not covered is taken. Then each pipeline uses
    the best of the groups that are paid for.
    """
    groups: dict[Hashable, list[Candidate]] = {}
    for c in values:
        groups.setdefault(c.group, []).append(c)
    covered: set[tuple[int, int]] = set()
    paid: set[Hashable] = set()
    while True:
        rates = {}
        for g, some in groups.items():
            joins = {(c.root, p) for c in some for p in c.positions} - covered
            gain = sum(values[c].benefit for c in some if not covered & {(c.root, p) for p in c.positions})
            if joins and g not in paid and gain > values[some[0]].cost:
                rates[g] = (values[some[0]].cost - gain) / len(joins)
        if not rates:
            break
        best = min(rates, key=lambda g: rates[g])
        paid.add(best)
        covered |= {(c.root, p) for c in groups[best] for p in c.positions}
    chosen = _chosen(_pipelines(values), lambda c: values[c].benefit if c.group in paid else 0.0)
    return _without_losses(chosen, values)


def _without_losses(some: frozenset[Candidate], values: Values) -> frozenset[Candidate]:
    """The caches of groups whose benefits exceed their cost."""
    groups: dict[Hashable, list[Candidate]] = {}
    for c in some:
        groups.setdefault(c.group, []).append(c)
    return frozenset(c for own in groups.values() if worth(own, values) > 0 for c in own)
