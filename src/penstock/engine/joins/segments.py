"""Segments of a join's pipelines and their caches (thesis 5.4).

A *segment* is a set of inputs that follow each other in a pipeline, linked among themselves by equalities,
and the classes of keys (K) that join them to the inputs before. Its cache has, for some keys, all joined rows
of the segment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.tuples import Tuples
from penstock.engine.synopses.cache import Cache


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
