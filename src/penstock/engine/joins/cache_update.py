"""How caches of a join are kept complete (thesis 5.4): CacheUpdate in the pipelines of the segment's inputs.

A new row of an input of a segment goes through its own pipeline. If that joins it with the others of the
segment first (the prefix invariant, definition 5.4.2) and takes all matches, the joined rows of the segment
come up on the way: they are added where the cache has their key, and no probe is made for it. What the
pipeline does not show is computed apart, in the end, for the rows that it concerns alone: those that an input
outside the segment drops first, those of which only a first match is asked or that were sampled to learn an
order, and those of tables that do not probe. So updates are complete whatever the order is, and whenever it
changes. There too, rows whose key a cache does not have are left out as soon as the key is known.

The new rows of an input beside the segment (5.7) update it before they go through their pipeline, which may
look up the cache: with the rows of the segment that they are the first to join.

Rows that a predicate rejects are in no result: values may have them or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.joins.segments import SegmentCache, spanning
from penstock.engine.joins.steps import PipelineStep, Probe
from penstock.engine.joins.tuples import Tuples

PLACE = -1
"""In the rows of tuples, beside the numbers of inputs: the place of the key that a tuple belongs to."""

Add = Callable[[SegmentCache, Tuples], None]
"""What takes joined rows of a segment for its cache."""


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
        found = replace(tuples, rows={**own, PLACE: np.arange(len(tuples))}, paths=None, at={})
        for j in self._segment.beside:
            found = Probe(self.inputs, self._segment.inputs[0], j, None).run(found)
        some = np.zeros(len(tuples), np.bool_)
        some[found.rows[PLACE]] = True
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


def adding(cache: SegmentCache) -> Iterator[PipelineStep]:
    """The steps of joined rows of a cache's segment."""
    if cache.segment.beside:
        yield CachedKeys(cache)
        yield SemiJoin(cache)
    yield CacheUpdate(cache)


def apart(cache: SegmentCache, j: int) -> Iterator[PipelineStep]:
    """The steps of new rows of input j, which is in the segment of a cache or beside it, apart from its
    pipeline.
    """
    bound, known, segment = {j}, False, cache.segment
    new_beside = j in segment.beside
    others = segment.fed_by if new_beside else segment.inputs
    for k in (None, *spanning(cache.inputs, j, others)):
        if k is not None:
            yield Probe(cache.inputs, j, k, None)
            bound.add(k)
        held = bound & set(segment.inputs)
        if not known and all(not cache.inputs.column[c].keys().isdisjoint(held) for c in segment.classes):
            known = True
            yield CachedKeys(cache)
    if segment.beside and not new_beside:
        yield SemiJoin(cache)
    yield CacheUpdate(cache, absent=new_beside)


class Updates:
    """New rows of input ``j`` on their way through its pipeline, and the caches that are to know of them."""

    def __init__(self, j: int, rows: Int64s, caches: Collection[SegmentCache], add: Add) -> None:
        self._j, self._rows, self._add = j, rows, add
        self._first = int(rows.min())
        new = np.zeros(int(rows.max()) - self._first + 1, np.bool_)
        new[rows - self._first] = True
        self._waiting = [(cache, frozenset(cache.segment.inputs), new.copy()) for cache in caches]
        """For each cache, the inputs of its segment, and of which rows it does not know all joined rows."""

    def joined(self, before: Tuples, found: Tuples) -> None:
        """A step has made these tuples of those before: all tuples of some rows."""
        bound = found.rows.keys()
        if len(bound) == len(before.rows) and len(found) == len(before):
            return
        for cache, members, waiting in self._waiting:
            if bound <= members:
                at = found.rows[self._j] - self._first
                new = waiting[at]
                waiting[before.rows[self._j] - self._first] = False
                if len(bound) == len(members):
                    self._add(cache, found.where(new))
                else:
                    # A row without tuples is in no joined row of the segment.
                    waiting[at] = new

    def dropped(self, rows: Int64s, bound: Iterable[int]) -> None:
        """Some rows have no tuple with all of these inputs."""
        bound = set(bound)
        for _, members, waiting in self._waiting:
            if bound <= members:
                waiting[rows - self._first] = False

    def left(self) -> Iterator[tuple[SegmentCache, Int64s]]:
        """For each cache, the rows of which it does not know all joined rows."""
        for cache, _, waiting in self._waiting:
            if waiting.any():
                yield cache, self._rows[waiting[self._rows - self._first]]
