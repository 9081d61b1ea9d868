"""Caches in the pipelines of a join: the worked examples of thesis 5.1 and 5.4, and what may befall them."""

from __future__ import annotations

from collections import Counter
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from caches import AnyCaches, check_consistency, joined, values
from restless import planned_by

import penstock
from penstock.engine.element import Chunk, Pattern
from penstock.engine.joins import operator
from penstock.engine.joins.caching import JoinCaches, Placement
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.joins.segments import SegmentCache, segment_of
from penstock.engine.kernels.caching import distinct
from penstock.engine.operator import Clock, StartContext
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.source import Source
from penstock.engine.overflow import Memory
from penstock.engine.stage import MemoryLimit
from penstock.engine.synopses.cache import Cache
from penstock.measurement import Kind, Property, measured
from penstock.settings import Settings

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


@pytest.mark.parametrize("first", (0, 2))
def test_updates_are_what_the_pipelines_compute_anyway(first: int) -> None:
    """5.4: with the prefix invariant an update takes no probe; what the pipeline does not show takes some."""
    cached, plain = Join(), Join(cached=False)

    def more(**rows: list[tuple[int, ...]]) -> int:
        """Probes that the rows take more with a cache than without."""
        before = cached.probes - plain.probes
        assert cached.insert(**rows) == plain.insert(**rows)
        return cached.probes - plain.probes - before

    for join in (cached, plain):
        # R2 probes R1 or R3 first. R3 has only R2 to probe first.
        filters = join.operator.caches.pipelines[1].filters
        filters.filters.ordering.order.sort(key=lambda f: filters.ends[f] != first)
        join.insert(R2=R2, R3=R3)
        assert join.insert(R1=[(1,), (2,)]) == [(1, 1, 2, 2)]
    assert more(R3=[(3,), (9,)]) == 0
    # Of three rows two have a key that the cache has.
    assert more(R2=[(1, 9), (2, 9), (7, 2)]) == (0 if first == 2 else 2)
    assert more(R2=[(2, 2)]) == (0 if first == 2 else 1)
    assert cached.contents() == {
        1: [(1, 2, 2), (1, 3, 3), (1, 9, 9)],
        2: [(2, 2, 2), (2, 3, 3), (2, 9, 9)],
    }


class SixWay:
    """The join of example 5.7.1 on one attribute, with a cache of (R2 ⋈ R3) ⋉ R1 for R6."""

    ORDERS = (
        (1, 2, 3, 4, 5),
        (0, 2, 4, 3, 5),
        (1, 0, 3, 4, 5),
        (4, 0, 1, 2, 5),
        (3, 1, 2, 0, 5),
        (1, 2, 3, 4, 0),
    )

    def __init__(self) -> None:
        names = [f"R{i}" for i in range(1, 7)]
        parts = [Source(n, pa.schema([(f"{n}.A", pa.int64())]), Pattern.EXPIRING) for n in names]
        classes = (tuple((i, f"{n}.A") for i, n in enumerate(names)),)
        node = MJoin(tuple(parts), tuple(names), classes, (), ("R1.A",), "static", cache_memory=1 << 20)
        with patch.object(operator, "AdaptiveCaches", JoinCaches):
            self.operator = node.start(StartContext())
        caches = self.operator.caches
        for pipeline, order in zip(caches.pipelines, self.ORDERS, strict=True):
            pipeline.order = lambda order=order: list(order)  # type: ignore[method-assign]
        segment = segment_of(caches.inputs, {5}, {1, 2}, {0})
        assert segment is not None and segment.beside == (0,)
        caches.use(frozenset([Placement(5, segment)]))
        self.cache, self.now = caches.caches[segment], 0

    def insert(self, end: int = 1000, **rows: list[int]) -> list[int]:
        chunks = []
        for name, part in zip(self.operator._node.labels, self.operator._node.parts, strict=True):
            new = rows.get(name, [])
            batch = pa.RecordBatch.from_arrays([pa.array(new, pa.int64())], names=part.schema.names)
            chunks.append(Chunk.of(np.full(len(new), self.now), batch, end=np.full(len(new), end)))
        out = self.operator.run(chunks, Clock(self.now, self.now + 1, 0))
        self.now += 1
        return sorted(out.columns.column(0).to_pylist())

    def sizes(self) -> dict[int, int]:
        """The number of joined rows of R2 and R3 that each key has."""
        check_consistency(self.cache)
        return {key[0]: sum(rows.values()) for key, rows in values(self.cache).items()}


def test_example_5_7_1() -> None:
    join = SixWay()
    join.insert(R1=[1], R2=[1, 2], R3=[1, 2, 2], R4=[1, 2], R5=[1, 2])
    # R2 ⋈ R3 has one joined row with 1 and two with 2; R1 has only 1.
    assert join.insert(R6=[1, 2]) == [1]
    assert join.sizes() == {1: 1, 2: 0}
    # <2> enters R1, which is beside: its key gets the rows that it joins, and it finds its results.
    assert join.insert(R1=[2]) == [2, 2]
    assert join.sizes() == {1: 1, 2: 2}
    # A second one joins rows that are there already.
    assert join.insert(R1=[2]) == [2, 2]
    assert join.sizes() == {1: 1, 2: 2}
    probes = sum(join.operator.caches.inputs.probes)
    assert join.insert(R6=[2]) == [2] * 4
    # R4, R5 and R1 are probed for two joined rows each, R2 and R3 not at all.
    assert sum(join.operator.caches.inputs.probes) - probes == 2 + 2 + 2
    # New rows of R3: with 2 it joins R1 and is added, with 3 nothing has the key.
    join.insert(R3=[2, 3])
    assert join.sizes() == {1: 1, 2: 3}
    join.insert(R6=[3])
    assert join.sizes() == {1: 1, 2: 3, 3: 0}


def test_rows_that_nothing_joins_any_more_may_stay() -> None:
    """Definition 5.7.1: between X ⋉ Y and X."""
    join = SixWay()
    join.insert(R2=[1], R3=[1], R4=[1], R5=[1])
    join.insert(R1=[1], end=3)
    assert join.insert(R6=[1]) == [1]
    join.now = 10
    assert join.insert(R6=[1]) == []
    assert join.sizes() == {1: 1}


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
    none = np.empty(0, np.int64)
    cache.create(key, none, (none,), (none, none), bases)
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
    cache = found.of_kind(Kind.CACHE)
    assert cache.texts(Property.DESCRIPTION) == ["R2 ⋈ R3 for R1"]
    counts = (Property.ENTRIES, Property.HITS, Property.MISSES, Property.EVICTED)
    assert [cache.value(p) for p in counts] == [1, 1, 1, 0]
    assert cache.value(Property.BYTES) == join.cache.cache.nbytes() == join.operator.spare_bytes() > 0
    own = sum(s.nbytes() for s in join.operator.caches.inputs.owned)
    assert join.operator.bytes() == own + join.operator.spare_bytes()


def test_memory_limit_of_the_engine_takes_from_caches_first() -> None:
    """What exceeds penstock.memory_limit is taken from the caches before anything is moved to disk."""
    join = Join()
    join.insert(R2=[(k, 2) for k in range(500)], R3=R3)
    for _ in range(2):
        join.insert(R1=[(k,) for k in range(500)])
    caches, rest = join.operator.caches, join.operator.bytes() - join.operator.spare_bytes()
    large = caches.bytes()
    memory = Memory(MemoryLimit(bytes=rest + large // 2 + 20_000))
    memory.settle([join.operator], [join.operator])
    small = caches.bytes()
    assert 0 < small < large
    check_consistency(join.cache)
    # They grow again when there is more room, up to what was set.
    Memory(MemoryLimit(bytes=1 << 30)).settle([join.operator], [join.operator])
    assert join.cache.cache.limit == 1 << 20
    memory = Memory(MemoryLimit(bytes=1))
    memory.settle([join.operator], [join.operator])
    assert len(join.cache.cache) == 0
    assert join.insert(R1=[(1,)]) == [(1, 1, 2, 2)]


@pytest.mark.parametrize("seed", range(6))
def test_changes_and_then_all_of_them_reversed_leave_nothing(seed: int) -> None:
    """The law, with any caches at any time: results are those without, and no entry is alive in the end."""
    random, used = Random(seed), []
    given: dict[str, list[tuple[int, str, dict[str, int]]]] = {}
    for name, columns in {"A": "k", "B": "kj", "C": "jm", "D": "m"}.items():
        changes = [
            (t, "+", {c: random.randrange(3) for c in columns})
            for t in range(12)
            for _ in range(random.randrange(3))
        ]
        given[name] = changes + [(40 - t, "-", row) for t, _, row in reversed(changes)]

    class Noted(AnyCaches):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            used.append(self)

    query = "SELECT A.k, D.m FROM A, B, C, D WHERE A.k = B.k AND B.j = C.j AND C.m = D.m"
    schemas = {n: ", ".join(f"{c} INT" for c in changes[0][2]) for n, changes in given.items()}
    with patch.object(operator, "AdaptiveCaches", Noted), planned_by("restless"):
        found = penstock.evaluate(query, given, schemas, batches=7)
    always = property(lambda settings: "mjoin", lambda settings, value: None)
    with patch.object(Settings, "join", always):
        plain = penstock.evaluate(query, given, schemas, batches=3)
    assert sorted(found, key=str) == sorted(plain, key=str)
    net: Counter[tuple[int, ...]] = Counter()
    for _, sign, row in found:
        net[tuple(row.values())] += 1 if sign == "+" else -1
    assert not any(net.values()) and used
    for caches in used:
        for cache in caches.caches.values():
            check_consistency(cache)
            assert not any(rows for rows in joined(caches.inputs, cache.segment).values())
