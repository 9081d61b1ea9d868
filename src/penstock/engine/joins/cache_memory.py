"""The memory of a join's caches (thesis 5.6): pages go to the caches that save most per byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.engine.joins.segments import Segment, SegmentCache

Priority = Callable[[Segment], float]
"""Net benefit per byte."""


class Pages:
    """Hands out ``page`` bytes at a time."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._seen: dict[Segment, tuple[int, int]] = {}

    def allot(self, memory: int, caches: Mapping[Segment, SegmentCache], priority: Priority) -> None:
        """Give caches that are full more pages, as far as there are any or others use theirs less."""
        for segment in sorted(caches, key=priority, reverse=True):
            cache = caches[segment].cache
            evicted, limit = self._seen.get(segment, (0, 0))
            self._seen[segment] = cache.evicted, cache.limit
            if cache.evicted == evicted or limit != cache.limit:
                continue
            wanted = max(cache.limit // self._page, 1) * self._page
            free = max(memory - sum(c.cache.limit for c in caches.values()), 0)
            granted = min(wanted, free)
            granted += self._taken(caches, priority, segment, wanted - granted)
            if granted > 0:
                cache.resize(cache.limit + granted, caches[segment].bases())

    def _taken(
        self, caches: Mapping[Segment, SegmentCache], priority: Priority, segment: Segment, wanted: int
    ) -> int:
        """Take memory from the caches that save less per byte, those that save least first."""
        own, taken = priority(segment), 0
        for other in sorted(caches, key=priority):
            if taken >= wanted or priority(other) >= own:
                break
            taken += self._shrink(caches[other], wanted - taken, self._page)
        return taken

    def fit(self, memory: int, caches: Mapping[Segment, SegmentCache], priority: Priority) -> None:
        """There is less memory: the caches that save least per byte give theirs back first."""
        excess = sum(c.cache.limit for c in caches.values()) - memory
        for segment in sorted(caches, key=priority):
            if excess > 0:
                excess -= self._shrink(caches[segment], excess, 0)

    def _shrink(self, cache: SegmentCache, by: int, least: int) -> int:
        part = min(by, cache.cache.limit - least)
        if part <= 0:
            return 0
        cache.cache.resize(cache.cache.limit - part, cache.bases())
        return part
