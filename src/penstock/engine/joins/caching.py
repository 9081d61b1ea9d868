"""Caches in the pipelines of a join (thesis 5.4): CacheLookup and CacheUpdate.

A *segment* is a set of inputs that follow each other in a pipeline, linked among themselves by equalities,
and the classes of keys (K) that join them to the inputs before. Its cache has, for some keys, all joined rows
of the segment. ``CacheLookup`` stands in the place of the segment's probes. A slice looks up all of its keys
at once; the different keys that are missing go through the segment's probes, for all lives, and their joined
rows become values of the cache; then all tuples of the slice read their values, in their order.

``CacheUpdate`` keeps the values complete. A new row of an input of the segment is joined with the others of
the segment, and the joined rows are added where the cache has their key; as soon as the key is known, rows
whose key it does not have are left out. These probes are apart from the row's own pipeline, since that drops
rows at the first input that they do not join, in A-Greedy's order: so it stays as it is, and caches need no
particular order in the pipelines that feed them. Rows that leave need no update, because
who reads a value intersects the lives of its rows with the tuple's.

A segment X may have inputs Y *beside* it (5.7): then a value has only those joined rows of X that join some
row of Y, and new rows of Y update the cache too, with the rows that they are the first to join. Rows that no
row of Y joins any more may stay. So a value is between X ⋉ (all others) and X (definition 5.7.1).

Predicates are not evaluated in caches, but on the tuples that come out of a look-up: so no predicate fails on
rows that are in no result. Pipelines with the same segment share its cache (definition 5.5.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import BEFORE_TIME, FOREVER, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.steps import PipelineStep, Probe
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels import caching
from penstock.engine.synopses.cache import Cache
from penstock.measurement import Kind, Property, Reading, under

if TYPE_CHECKING:
    from penstock.engine.joins.pipeline import Pipeline

_PLACE = -1
"""In the rows of tuples, beside the numbers of inputs: the place of the key that a tuple belongs to."""


@dataclass(frozen=True)
class Segment:
    """The inputs of a cached join, in the order of their numbers, and the classes of its key.

    ``beside``: Y, the inputs that its rows must join, in the order in which they are probed; empty for a join
    that is kept whole.
    """

    inputs: tuple[int, ...]
    classes: tuple[int, ...]
    beside: tuple[int, ...] = ()

    @property
    def fed_by(self) -> tuple[int, ...]:
        """The inputs whose new rows update the cache."""
        return *self.inputs, *self.beside


@dataclass(frozen=True)
class Placement:
    """A cache in the pipeline of input ``root``."""

    root: int
    segment: Segment


CachePlan = frozenset[Placement]
"""The caches in use."""


def segment_of(
    inputs: JoinInputs, before: Collection[int], members: Collection[int], beside: Collection[int] = ()
) -> Segment | None:
    """The segment of some inputs behind those ``before``; None if their join cannot be cached.

    Of the inputs ``beside`` it, those count that equalities lead to from the segment.
    """
    members, before = set(members), set(before)
    classes = {c for j in members for c in inputs.shared(j, before)}
    crossing = any(b.inputs & members and b.inputs & before for b in inputs.bands)
    linked = len(spanning(inputs, min(members), members)) == len(members) - 1
    if not classes or crossing or not linked or members & inputs.passing:
        return None
    return Segment(tuple(sorted(members)), tuple(sorted(classes)), beside_of(inputs, members, beside))


def beside_of(inputs: JoinInputs, members: Collection[int], beside: Collection[int]) -> tuple[int, ...]:
    """Y in the order of its probes: inputs that equalities lead to from X."""
    found: list[int] = []
    left = sorted(set(beside) - inputs.passing - set(members))
    while near := [j for j in left if inputs.shared(j, {*members, *found})]:
        found.append(near[0])
        left.remove(near[0])
    return tuple(found)


def spanning(inputs: JoinInputs, first: int, members: Collection[int]) -> list[int]:
    """The other members that equalities lead to from the first, each linked to one before it."""
    order: list[int] = []
    while True:
        bound = {first, *order}
        near = [j for j in sorted(members) if j not in bound and inputs.shared(j, bound)]
        if not near:
            return order
        order.append(max(near, key=lambda j: len(inputs.shared(j, bound))))


def keyed(
    inputs: JoinInputs, classes: Sequence[int], tuples: Tuples, among: Collection[int]
) -> tuple[Tuples, np.ndarray]:
    """The tuples without a NULL in a key, and the keys, from their rows of some inputs."""
    words = np.empty((len(tuples), len(classes)), np.int64)
    known = np.ones(len(tuples), np.bool_)
    for at, c in enumerate(classes):
        i = next(i for i in tuples.rows if i in among and i in inputs.column[c])
        words[:, at], valid = inputs.key(i, c, tuples.rows[i])
        known &= valid
    return (tuples, words) if known.all() else (tuples.where(known), words[known])


class SegmentCache:
    """The cache of a segment, and how it is kept complete."""

    def __init__(self, inputs: JoinInputs, segment: Segment, limit: int, expected: int = 0) -> None:
        self.inputs, self.segment = inputs, segment
        self.cache = Cache(len(segment.classes), len(segment.inputs), limit, expected)
        self._moves = self._moved()
        self.seconds = 0.0

    def _moved(self) -> list[int]:
        return [self.inputs.stubs[m].store.moves for m in self.segment.inputs]

    def current(self) -> Cache:
        """The cache; empty if the ids of rows have changed."""
        if self._moves != self._moved():
            self._moves = self._moved()
            self.cache.clear()
        return self.cache

    def bases(self) -> Int64s:
        return np.array([self.inputs.stubs[m].store.base for m in self.segment.inputs])

    def stores(self, min_ends: Sequence[int]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """The lives in the stores of the inputs, and how a reader sees them (``kernels.caching.read``)."""
        stubs = [self.inputs.stubs[m] for m in self.segment.inputs]
        views = [s.view(min_ends[m]) for s, m in zip(stubs, self.segment.inputs, strict=True)]
        seen = [(s.store.mask, v.longer, v.min_end) for s, v in zip(stubs, views, strict=True)]
        return tuple(s.lives for s in stubs), np.array(seen)

    def keyed(self, tuples: Tuples, among: Collection[int]) -> tuple[Tuples, np.ndarray]:
        return keyed(self.inputs, self.segment.classes, tuples, among)

    def rows(self, tuples: Tuples) -> np.ndarray:
        return np.stack([tuples.rows[m] for m in self.segment.inputs], axis=1)

    def life(self, tuples: Tuples) -> tuple[Int64s, Int64s]:
        """The common life of the segment's rows."""
        lives = [self.inputs.life(m, tuples.rows[m]) for m in self.segment.inputs]
        return np.maximum.reduce([s for s, _ in lives]), np.minimum.reduce([e for _, e in lives])

    def feeding(self, j: int) -> Iterator[PipelineStep]:
        """The steps of new rows of input j, which is in the segment or beside it."""
        bound, known, classes = {j}, False, self.segment.classes
        new_beside = j in self.segment.beside
        others = self.segment.fed_by if new_beside else self.segment.inputs
        for k in (None, *spanning(self.inputs, j, others)):
            if k is not None:
                yield Probe(self.inputs, j, k, None)
                bound.add(k)
            held = bound & set(self.segment.inputs)
            if not known and all(not self.inputs.column[c].keys().isdisjoint(held) for c in classes):
                known = True
                yield CachedKeys(self)
        if self.segment.beside and not new_beside:
            yield SemiJoin(self)
        yield CacheUpdate(self, absent=new_beside)


class CachedKeys(PipelineStep):
    """Keeps the tuples whose key a cache has: no others can change it."""

    def __init__(self, cache: SegmentCache) -> None:
        super().__init__(cache.inputs)
        self._cache = cache

    def run(self, tuples: Tuples) -> Tuples:
        tuples, words = self._cache.keyed(tuples, self._cache.segment.inputs)
        return tuples.where(self._cache.current().find(words) >= 0)


class SemiJoin(PipelineStep):
    """Keeps the joined rows of a segment that some rows of the inputs beside it join, whenever they live."""

    def __init__(self, cache: SegmentCache) -> None:
        super().__init__(cache.inputs)
        self._segment = cache.segment

    def run(self, tuples: Tuples) -> Tuples:
        own = {m: tuples.rows[m] for m in self._segment.inputs}
        found = replace(tuples, rows={**own, _PLACE: np.arange(len(tuples))}, paths=None, at={})
        for j in self._segment.beside:
            found = Probe(self.inputs, self._segment.inputs[0], j, None).run(found)
        some = np.zeros(len(tuples), np.bool_)
        some[found.rows[_PLACE]] = True
        return tuples.where(some)


class CacheUpdate(PipelineStep):
    """Adds joined rows of a segment to the values of their keys; ``absent``: those that are not there yet."""

    def __init__(self, cache: SegmentCache, absent: bool = False) -> None:
        super().__init__(cache.inputs)
        self._cache, self._absent = cache, absent

    def run(self, tuples: Tuples) -> Tuples:
        tuples, words = self._cache.keyed(tuples, self._cache.segment.inputs)
        cache = self._cache.current()
        rows = self._cache.rows(tuples)
        # The life of joined rows of the segment, without that of a row beside it.
        starts, ends = self._cache.life(tuples) if self._absent else (tuples.starts, tuples.ends)
        cache.insert(words, rows, np.stack([starts, ends], axis=1), self._cache.bases(), self._absent)
        cache.trim(self._cache.bases())
        return tuples


class CacheLookup(PipelineStep):
    """Joins tuples with a segment: keys that the cache has are read, the others are probed and added.

    ``order``: the segment's inputs in the order of their probes. ``later``: those whose rows' ends become
    known later; if there are any, ends are read from the stores.
    """

    def __init__(self, cache: SegmentCache, root: int, order: Sequence[int], later: Collection[int]) -> None:
        super().__init__(cache.inputs)
        self._cache, self._root = cache, root
        self._order, self._later = order, bool(later)

    def run(self, tuples: Tuples) -> Tuples:
        cache, bases = self._cache.current(), self._cache.bases()
        tuples, words = self._cache.keyed(tuples, [i for i in tuples.rows if i not in self._order])
        buckets = cache.find(words)
        missing = np.flatnonzero(buckets < 0)
        cache.hits += len(tuples) - len(missing)
        if not len(missing):
            values = cache.values(buckets)
        else:
            firsts, numbers = caching.distinct(words[missing])
            cache.misses += len(firsts)
            cache.hits += len(missing) - len(firsts)
            new = missing[firsts]
            counts, found, lives = self._joined(tuples.take(new))
            cache.reserve(len(found), bases)
            values = cache.values(buckets)
            values[missing] = cache.create(words[new], counts, found, lives, bases)[numbers]
        places, rows, starts, ends = cache.read(
            values, tuples.starts, tuples.ends, bases, *self._cache.stores(tuples.min_ends), self._later
        )
        joined = {i: r[places] for i, r in tuples.rows.items()}
        joined.update(zip(self._cache.segment.inputs, rows, strict=True))
        cache.trim(bases)
        return Tuples(joined, starts, ends, tuples.min_ends, tuples.unsure)

    def _joined(self, tuples: Tuples) -> tuple[Int64s, np.ndarray, np.ndarray]:
        """The joined rows of the segment for the keys of some tuples, whenever they are alive: how many of
        each key, and the rows and lives, in the order of the tuples.
        """
        count = len(tuples)
        always = np.full(count, BEFORE_TIME), np.full(count, FOREVER)
        every = [int(BEFORE_TIME)] * len(self.inputs)
        found = Tuples({**tuples.rows, _PLACE: np.arange(count)}, *always, every)
        for j in self._order:
            found = Probe(self.inputs, self._root, j, None).run(found)
        if self._cache.segment.beside:
            found = SemiJoin(self._cache).run(found)
        counts = np.bincount(found.rows[_PLACE], minlength=count)
        found = found.take(caching.in_order(found.rows[_PLACE], counts))
        return counts, self._cache.rows(found), np.stack([found.starts, found.ends], axis=1)


def named(inputs: Iterable[int], beside: Iterable[int], labels: Sequence[str]) -> str:
    """A cached join in words."""
    shown, others = (" ⋈ ".join(labels[m] for m in sorted(some)) for some in (inputs, beside))
    return f"({shown}) ⋉ {f'({others})' if ' ' in others else others}" if others else shown


Element = int | SegmentCache
"""An input to probe, or a cache to look up in the place of several."""


class JoinCaches:
    """The caches of a join: those in use, by segment, within ``memory`` bytes.

    ``later``: the inputs whose rows' ends become known after they arrive.
    """

    def __init__(self, inputs: JoinInputs, later: Collection[int], memory: int) -> None:
        self.inputs, self._memory = inputs, memory
        self._most_memory = memory
        self._later = frozenset(later)
        self.plan: CachePlan = frozenset()
        self.caches: dict[Segment, SegmentCache] = {}
        self.pipelines: Sequence[Pipeline] = ()
        """Of the join, by input."""

    def use(self, plan: CachePlan) -> None:
        """Use these caches from now on. New ones are empty, those that no pipeline uses are dropped."""
        self.plan = plan
        wanted = {p.segment for p in plan}
        self.caches = {s: c for s, c in self.caches.items() if s in wanted}
        for segment in sorted(wanted - self.caches.keys(), key=lambda s: s.inputs):
            self.caches[segment] = SegmentCache(self.inputs, segment, self._memory)
        self.share(dict.fromkeys(self.caches, 1.0))

    def share(self, parts: Mapping[Segment, float]) -> None:
        """Divide the memory by these parts."""
        whole = sum(parts.values())
        for segment, cache in self.caches.items():
            limit = int(self._memory * parts[segment] / whole)
            if limit != cache.cache.limit:
                cache.cache.resize(limit, cache.bases())

    def bytes(self) -> int:
        return sum(c.cache.nbytes() for c in self.caches.values())

    def allow(self, memory: int) -> None:
        """There are so many bytes for caches from now on, as far as they are not more than was set."""
        memory = max(min(memory, self._most_memory), 0)
        if memory != self._memory:
            self._memory = memory
            self._resized()

    def _resized(self) -> None:
        """The memory has become more or less."""
        self.share(dict.fromkeys(self.caches, 1.0))

    def updated(self, j: int, rows: Int64s) -> None:
        """Input j has new rows: bring the caches of its segments up to date."""
        for cache in self.caches.values():
            if j in cache.segment.fed_by and len(rows):
                self.feed(cache, j, rows)

    def feed(self, cache: SegmentCache, j: int, rows: Int64s) -> None:
        """Add the joined rows of new rows of input j to a cache."""
        every = [int(BEFORE_TIME)] * len(self.inputs)
        tuples = Tuples({j: rows}, *self.inputs.life(j, rows), every)
        for step in cache.feeding(j):
            if not len(tuples):
                break
            tuples = step.run(tuples)

    def run(self, pipeline: Pipeline, tuples: Tuples) -> list[Tuples]:
        """Take a slice of tuples through a pipeline, with its caches; the results, in one or more parts."""
        elements = self.elements(pipeline.root, pipeline.order())
        cached = any(not isinstance(e, int) for e in elements)
        steps = pipeline.cached_steps(elements) if cached else pipeline.steps()
        return [pipeline.through(steps, tuples)]

    def settle(self) -> None:
        """A step is over."""

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """The caches in use: where, how full, how often they were hit."""
        for number, (segment, cache) in enumerate(self.caches.items()):
            of, roots = cache.cache, sorted(p.root for p in self.plan if p.segment == segment)
            shown = named(segment.inputs, segment.beside, labels)
            own = [
                Reading(Property.DESCRIPTION, 0, f"{shown} for {', '.join(labels[r] for r in roots)}"),
                Reading(Property.ENTRIES, len(of)),
                Reading(Property.BYTES, of.nbytes()),
                Reading(Property.HITS, of.hits),
                Reading(Property.MISSES, of.misses),
                Reading(Property.UPDATES, of.updates),
                Reading(Property.EVICTED, of.evicted),
                *self.worth(segment),
            ]
            yield from under(f"cache.{number}", Kind.CACHE, own)

    def worth(self, segment: Segment) -> Iterator[Reading]:
        """What a cache saves and costs, if that is known."""
        return iter(())

    def elements(self, root: int, order: Sequence[int]) -> list[Element]:
        """The probes and look-ups of a pipeline, for an order of its probes."""
        found: list[Element] = list(order)
        for placement in (p for p in self.plan if p.root == root):
            members = set(placement.segment.inputs)
            at = next(n for n, e in enumerate(found) if e in members)
            if set(found[at : at + len(members)]) == members:
                found[at : at + len(members)] = [self.caches[placement.segment]]
        return found

    def lookup(self, cache: SegmentCache, root: int, order: Iterable[int]) -> CacheLookup:
        members = [j for j in order if j in cache.segment.inputs]
        return CacheLookup(cache, root, members, self._later & set(members))
