"""Caches of joins in tests: any caches at any time, and whether each of their values is what it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import product
from math import prod
from random import Random

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.evaluate import true_mask
from penstock.engine.joins.caching import CachePlan, Element, JoinCaches, Placement
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.segments import Segment, SegmentCache, segment_of
from penstock.engine.joins.tuples import Tuples
from penstock.errors import DataError
from penstock.expression import columns

Rows = tuple[int, ...]
FEW = 500
"""Combinations of rows that are few enough to look at all of them."""


def values(cache: SegmentCache) -> dict[Rows, Counter[Rows]]:
    """The keys of a cache and the joined rows of each, as far as these are still kept."""
    of, bases = cache.current(), cache.bases()
    found: dict[Rows, Counter[Rows]] = {}
    for bucket, (first, count, _) in enumerate(of._spans):
        if first >= 0:
            rows = of.rows[first : first + count]
            rows = rows[(rows >= bases).all(axis=1)]
            found[tuple(of._keys[bucket].tolist())] = Counter(map(tuple, rows.tolist()))
    return found


def joined(inputs: JoinInputs, segment: Segment) -> dict[Rows, Counter[Rows]]:
    """The join of a segment, computed plainly: rows that have a common life, by key."""
    found: dict[Rows, Counter[Rows]] = {}
    stubs = [inputs.stubs[m] for m in segment.inputs]
    for rows in product(*(range(s.store.base, min(s.store.next, s.frontier)) for s in stubs)):
        keys = _keys(inputs, segment, rows)
        if keys is not None and lives_together(inputs, segment, rows):
            found.setdefault(tuple(keys[c] for c in segment.classes), Counter())[rows] += 1
    return found


def _keys(inputs: JoinInputs, segment: Segment, rows: Rows) -> dict[int, int] | None:
    """The keys of all classes, if the rows have the same and all bands among them hold."""
    keys: dict[int, int] = {}
    of = dict(zip(segment.inputs, rows, strict=True))
    for m, row in of.items():
        for c in inputs.classes_of[m]:
            (key,), (valid,) = inputs.key(m, c, _array(row))
            inside = sum(k in inputs.column[c] for k in segment.inputs) > 1 or c in segment.classes
            if inside and (not valid or keys.setdefault(c, int(key)) != int(key)):
                return None
    for band in (b for b in inputs.bands if b.inputs <= set(of)):
        right, left = (inputs.order_keys(side, _array(of[side[0]]))[0] for side in (band.right, band.left))
        low, high = band.bounds(right)
        if not low[0] <= left[0] <= high[0]:
            return None
    return keys


def lives_together(inputs: JoinInputs, segment: Segment, rows: Rows) -> bool:
    lives = [inputs.life(m, _array(row)) for m, row in zip(segment.inputs, rows, strict=True)]
    return max(int(s[0]) for s, _ in lives) < min(int(e[0]) for _, e in lives)


def _array(row: int) -> Int64s:
    return np.array([row])


def joins_beside(inputs: JoinInputs, segment: Segment, rows: Rows) -> bool:
    """Whether rows of a segment join rows of all inputs beside it, at some instant."""
    whole = Segment(segment.fed_by, ())
    beside = [inputs.stubs[j] for j in segment.beside]
    others = product(*(range(s.store.base, min(s.store.next, s.frontier)) for s in beside))
    return any(
        _keys(inputs, whole, (*rows, *more)) is not None and lives_together(inputs, whole, (*rows, *more))
        for more in others
    )


def check_consistency(cache: SegmentCache) -> None:
    """Definition 5.4.1 by lives: each value has the joined rows of its key that live, once each. With inputs
    beside the segment (5.7.1) it has at least those that join rows there.

    Rows with a NULL among their keys of other classes are in no result, nor those that a predicate rejects: a
    value may have them or not.
    """
    inputs, segment = cache.inputs, cache.segment
    expected = joined(inputs, segment)
    for key, rows in values(cache).items():
        alive = Counter({r: n for r, n in rows.items() if lives_together(inputs, segment, r)})
        most = expected.get(key, Counter())
        least = Counter({r: n for r, n in most.items() if _usable(inputs, segment, r)})
        if segment.beside:
            least = Counter({r: n for r, n in least.items() if joins_beside(inputs, segment, r)})
        assert least <= alive <= most, (segment, key)


def _usable(inputs: JoinInputs, segment: Segment, rows: Rows) -> bool:
    stubs = [inputs.stubs[m] for m in segment.inputs]
    known = all(
        s.key(k, _array(row))[1][0] for s, row in zip(stubs, rows, strict=True) for k in range(len(s.keys))
    )
    return known and _passes(inputs, segment, rows)


def _passes(inputs: JoinInputs, segment: Segment, rows: Rows) -> bool:
    """Whether the predicates on a segment alone accept its rows."""
    of = Tuples({m: _array(r) for m, r in zip(segment.inputs, rows, strict=True)}, *[_array(0)] * 2, ())
    for predicate, reads in inputs.residual:
        if reads <= set(segment.inputs):
            known = {c: inputs.gather(of, c) for c in columns(predicate)}
            try:
                if not true_mask(predicate, known, 1)[0]:
                    return False
            except DataError:
                return False
    return True


class AnyCaches(JoinCaches):
    """Other caches at random, for every few rows, in much or in little memory; all of them are checked."""

    def __init__(self, inputs: JoinInputs, later: Collection[int], memory: int) -> None:
        self._die = Random(len(inputs))
        super().__init__(inputs, later, self._die.choice((1 << 20, 1500)))
        self._orders: dict[int, list[int]] = {}

    def elements(self, root: int, order: Sequence[int]) -> list[Element]:
        self._orders[root] = list(order)
        if self._die.random() < 0.3:
            self.use(self._any_plan())
        for cache in self.caches.values():
            if self.updates is not None and root in cache.segment.inputs:
                continue  # it is about to know of the rows that are on their way
            stores = [self.inputs.stubs[m].store for m in cache.segment.fed_by]
            if prod(s.next - s.base for s in stores) < FEW:
                check_consistency(cache)
        return super().elements(root, order)

    def _any_plan(self) -> CachePlan:
        plan = set()
        for root, order in self._orders.items():
            taken: set[int] = set()
            for at in range(len(order)):
                for stop in range(at + 2, len(order) + 1):
                    others = [i for i in range(len(self.inputs)) if i not in order[at:stop]]
                    beside = [i for i in others if self._die.random() < 0.4]
                    segment = segment_of(self.inputs, {root, *order[:at]}, order[at:stop], beside)
                    if segment and not taken & set(segment.inputs) and self._die.random() < 0.5:
                        plan.add(Placement(root, segment))
                        taken |= set(segment.inputs)
        return frozenset(plan)
