"""Caches in the pipelines of a join: the worked examples of thesis 5.1 and 5.4, and what may befall them."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from caches import check_consistency

from penstock.engine.element import Chunk, Pattern
from penstock.engine.joins import operator
from penstock.engine.joins.caching import JoinCaches, Placement, SegmentCache, segment_of
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.kernels.caching import distinct
from penstock.engine.operator import Clock, StartContext
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.source import Source
from penstock.engine.synopses.cache import Cache
from penstock.measurement import Property, measured

COLUMNS = {"R1": ("R1.A",), "R2": ("R2.A", "R2.B"), "R3": ("R3.B",)}
CLASSES = (((0, "R1.A"), (1, "R2.A")), ((1, "R2.B"), (2, "R3.B")))
OUTPUT = ("R1.A", "R2.A", "R2.B", "R3.B")


class Join:
    """R1(A) ⋈ R2(A, B) ⋈ R3(B) as in thesis figure 5.2, with a cache of R2 ⋈ R3 for R1 (figure 5.7)."""

    def __init__(self, cached: bool = True, memory: int = 1 << 20) -> None:
        parts = [
            Source(n, pa.schema([(c, pa.int64()) for c in columns]), Pattern.EXPIRING)
            for n, columns in COLUMNS.items()
        ]
        node = MJoin(tuple(parts), tuple(COLUMNS), CLASSES, (), OUTPUT, "static", cache_memory=memory)
        with patch.object(operator, "AdaptiveCaches", JoinCaches):  # those that the test chooses
            self.operator = node.start(StartContext())
        assert isinstance(self.operator, JoinOperator) and self.operator.caches is not None
        self.now = 0
        if cached:
            inputs = self.operator.caches.inputs
            segment = segment_of(inputs, {0}, {1, 2})
            assert segment is not None
            self.operator.caches.use(frozenset([Placement(0, segment)]))

    @property
    def cache(self) -> SegmentCache:
        (cache,) = self.operator.caches.caches.values()
        return cache

    def insert(self, end: int = 1000, **rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Insert rows at the next instant; the joined rows that this makes."""
        chunks = []
        for name, columns in COLUMNS.items():
            new = rows.get(name, [])
            arrays = [pa.array([r[k] for r in new], pa.int64()) for k in range(len(columns))]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            ts = np.full(len(new), self.now)
            chunks.append(Chunk.of(ts, batch, end=np.full(len(new), end)))
        out = self.operator.run(chunks, Clock(self.now, self.now + 1, 0))
        self.now += 1
        return sorted(tuple(r.values()) for r in out.columns.to_pylist())

    def contents(self) -> dict[int, list[tuple[int, ...]]]:
        """The cache's keys, and their values as tuples of R2 ⋈ R3."""
        check_consistency(self.cache)
        inputs, cache = self.cache.inputs, self.cache.cache
        found = {}
        for bucket, (first, count, _) in enumerate(cache._spans):
            if first >= 0:
                rows = cache.rows[first : first + count]
                columns = [inputs.stubs[1].gather(c, rows[:, 0]).to_pylist() for c in COLUMNS["R2"]]
                columns.append(inputs.stubs[2].gather("R3.B", rows[:, 1]).to_pylist())
                found[int(cache._keys[bucket, 0])] = sorted(zip(*columns, strict=True))
        return found

    @property
    def probes(self) -> int:
        return sum(self.operator.caches.inputs.probes)


R2, R3 = [(1, 2), (1, 3), (2, 3)], [(2,)]
"""Figure 5.2(b)."""


def test_example_5_1_1() -> None:
    join = Join(cached=False)
    assert join.insert(R2=R2, R3=R3) == []
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2)]


def test_examples_5_4_1_to_5_4_4() -> None:
    join = Join()
    join.insert(R2=R2, R3=R3)
    assert join.contents() == {}
    # 5.4.1: the first <1> misses, its joined tuple is cached, the second hits and probes nothing.
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2)]
    assert join.contents() == {1: [(1, 2, 2)]}
    assert (join.cache.cache.hits, join.cache.cache.misses) == (0, 1)
    probes = join.probes
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2)]
    assert (join.cache.cache.hits, join.probes) == (1, probes)
    # 5.4.2 and 5.4.4: <3> enters R3. The value of <1> gets <1, 3, 3>; the key of <2, 3, 3> is not there.
    join.insert(R3=[(3,)])
    assert join.contents() == {1: [(1, 2, 2), (1, 3, 3)]}
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2), (1, 1, 3, 3)]
    assert join.insert(R1=[(2,)]) == [(2, 2, 3, 3)]
    assert join.contents() == {1: [(1, 2, 2), (1, 3, 3)], 2: [(2, 3, 3)]}


def test_a_key_without_a_match_is_cached_too() -> None:
    join = Join()
    join.insert(R2=R2, R3=R3)
    assert join.insert(R1=[(2,), (7,)]) == []
    assert join.contents() == {2: [], 7: []}
    probes = join.probes
    assert join.insert(R1=[(2,), (7,)]) == []
    assert join.probes == probes
    # What makes it match is added.
    join.insert(R2=[(7, 2)])
    assert join.contents() == {2: [], 7: [(7, 2, 2)]}


def test_equal_keys_of_a_slice_are_probed_once() -> None:
    join = Join()
    join.insert(R2=R2, R3=R3)
    before = join.probes
    assert join.insert(R1=[(1,)] * 5) == [(1, 1, 2, 2)] * 5
    # One probe of R2 and one of R3 for each of the two rows found there; R1's update feeds no cache.
    assert join.probes - before == 1 + 2
    assert (join.cache.cache.hits, join.cache.cache.misses) == (4, 1)


def test_rows_that_end_need_no_update() -> None:
    """Ends are known on arrival: the value keeps the row, and who looks it up later does not see it."""
    join = Join()
    join.insert(R2=R2, R3=R3, end=1000)
    join.insert(R3=[(3,)], end=4)
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2), (1, 1, 3, 3)]
    updates = join.cache.cache.updates
    join.now = 5
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2)]
    assert join.cache.cache.updates == updates


def test_without_memory_results_are_the_same() -> None:
    join = Join(memory=1)
    join.insert(R2=[(k, b) for k in range(200) for b in (2, 3)], R3=R3)
    expected = Counter((k, k, 2, 2) for k in range(200))
    for _ in range(3):
        assert Counter(join.insert(R1=[(k,) for k in range(200)])) == expected
    assert join.cache.cache.evicted > 0


def test_memory_that_shrinks() -> None:
    join = Join()
    join.insert(R2=[(k, 2) for k in range(500)], R3=R3)
    join.insert(R1=[(k,) for k in range(500)])
    join.insert(R1=[(k,) for k in range(500)])
    large, cache = len(join.cache.cache), join.cache.cache
    for limit in (20_000, 8_000, 4_000):
        cache.resize(limit, join.cache.bases())
        assert cache.nbytes() <= max(limit, 64 * 8 * 6)
        check_consistency(join.cache)
    assert 0 < len(cache) < large


def test_different_keys_are_found_in_order() -> None:
    words = np.array([[5, 1], [5, 2], [5, 1], [7, 1], [5, 2]])
    firsts, numbers = distinct(words)
    assert (firsts.tolist(), numbers.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 1])


def test_a_value_grows_and_moves() -> None:
    cache, bases = Cache(words=1, parts=1, limit=1 << 20), np.zeros(1, np.int64)
    key = np.array([[1]])
    cache.create(key, np.array([0]), np.empty((0, 1), np.int64), np.empty((0, 2), np.int64), bases)
    for row in range(300):
        cache.insert(key, np.array([[row]]), np.array([[0, 9]]), bases)
    alive = np.array([0]), np.array([9])
    more = (np.zeros((8, 2), np.int64),), np.zeros((1, 3), np.int64)
    assert cache.read(cache.values(cache.find(key)), *alive, bases, *more)[1].tolist() == [list(range(300))]
    # Rows before the base are passed over.
    found = cache.read(cache.values(cache.find(key)), *alive, np.array([298]), *more)
    assert found[1].tolist() == [[298, 299]]


@pytest.mark.parametrize("members", [{1}, {1, 2}])
def test_segments(members: set[int]) -> None:
    inputs = Join().cache.inputs
    segment = segment_of(inputs, {0}, members)
    assert segment is not None and segment.classes == (0,)
    # R1 and R3 are not linked with each other.
    assert segment_of(inputs, {1}, {0, 2}) is None


def test_measurements() -> None:
    join = Join()
    join.insert(R2=R2, R3=R3)
    join.insert(R1=[(1,), (1,)])
    found = measured(join.operator.measure())
    assert found.has(Property.PROBES)
