"""Caches in the pipelines of a join (thesis 5.4): CacheLookup and CacheUpdate.

The cache of a segment (``segments.py``) has, for some keys, all joined rows of its inputs. ``CacheLookup``
stands in the place of the segment's probes. A slice looks up all of its keys
at once; the different keys that are missing go through the segment's probes, for all lives, and their joined
rows become values of the cache; then all tuples of the slice read their values, in their order.

``CacheUpdate`` keeps the values complete (``cache_update.py``). Rows that leave need no update, because who
reads a value intersects the lives of its rows with the tuple's.

A segment X may have inputs Y *beside* it (5.7): then a value has only those joined rows of X that join some
row of Y, and new rows of Y update the cache too, with the rows that they are the first to join. Rows that no
row of Y joins any more may stay. So a value is between X ⋉ (all others) and X (definition 5.7.1).

Predicates are not evaluated in caches, but on the tuples that come out of a look-up: so no predicate fails on
rows that are in no result. Pipelines with the same segment share its cache (definition 5.5.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import BEFORE_TIME, FOREVER, Int64s
from penstock.engine.joins.cache_update import PLACE, SemiJoin, Updates, adding, apart
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.segments import Segment, SegmentCache
from penstock.engine.joins.steps import PipelineStep, Probe, through
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels import caching
from penstock.measurement import Kind, Property, Reading, under

if TYPE_CHECKING:
    from penstock.engine.joins.pipeline import Pipeline


@dataclass(frozen=True)
class Placement:
    """A cache in the pipeline of input ``root``."""

    root: int
    segment: Segment


CachePlan = frozenset[Placement]
"""The caches in use."""


class CacheLookup(PipelineStep):
    """Joins tuples with a segment: keys that the cache has are read, the others are probed and added.

    ``order``: the segment's inputs in the order of their probes. ``later``: those whose rows' ends become
    known later; if there are any, ends are read from the stores.
    """

    def __init__(self, cache: SegmentCache, root: int, order: Sequence[int], later: Collection[int]) -> None:
        super().__init__(cache.inputs)
        self._cache, self._root = cache, root
        self._order, self._later = order, bool(later)
        self.whole = not cache.segment.beside

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
            found = self._joined(tuples.take(new))
            rows = tuple(found.rows[m] for m in self._cache.segment.inputs)
            cache.reserve(len(found), bases)
            values = cache.values(buckets)
            lives = found.starts, found.ends
            values[missing] = cache.create(words[new], found.rows[PLACE], rows, lives, bases)[numbers]
        places, read, starts, ends = cache.read(
            values, tuples.starts, tuples.ends, bases, *self._cache.stores(tuples.min_ends), self._later
        )
        joined = {i: r[places] for i, r in tuples.rows.items()}
        joined.update(zip(self._cache.segment.inputs, read, strict=True))
        cache.trim(bases)
        return Tuples(joined, starts, ends, tuples.min_ends, tuples.unsure)

    def _joined(self, tuples: Tuples) -> Tuples:
        """The joined rows of the segment for the keys of some tuples, whenever they are alive, with the place
        of the tuple that each belongs to.
        """
        count = len(tuples)
        always = np.full(count, BEFORE_TIME), np.full(count, FOREVER)
        every = [int(BEFORE_TIME)] * len(self.inputs)
        found = Tuples({**tuples.rows, PLACE: np.arange(count)}, *always, every)
        for j in self._order:
            found = Probe(self.inputs, self._root, j, None).run(found)
        return SemiJoin(self._cache).run(found) if self._cache.segment.beside else found


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
        self.updates: Updates | None = None
        """Of the new rows that go through a pipeline now, if there are caches that are to know of them."""

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

    @contextmanager
    def updating(self, j: int, rows: Int64s) -> Iterator[None]:
        """Input j has new rows: bring the caches up to date while they go through its pipeline."""
        fed = [c for c in self.caches.values() if j in c.segment.fed_by] if len(rows) else []
        for cache in (c for c in fed if j in c.segment.beside):
            self.feed(cache, j, rows)
        inside = [c for c in fed if j in c.segment.inputs]
        self.updates = Updates(j, rows, inside, self.add) if inside else None
        yield
        for cache, left in self.updates.left() if self.updates else ():
            self.feed(cache, j, left)
        self.updates = None

    def add(self, cache: SegmentCache, tuples: Tuples) -> None:
        """Add joined rows of its segment to a cache."""
        through(adding(cache), tuples)

    def feed(self, cache: SegmentCache, j: int, rows: Int64s) -> None:
        """Add the joined rows of new rows of input j to a cache, apart from the pipeline of j."""
        every = [int(BEFORE_TIME)] * len(self.inputs)
        through(apart(cache, j), Tuples({j: rows}, *self.inputs.life(j, rows), every))

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
