"""A store against a plain list, over long runs of insertions, ends, expiry, probes and gathers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.element import FOREVER
from penstock.engine.kernels import probing
from penstock.engine.kernels.probing import EVERYTHING
from penstock.engine.synopses.directory import Directory
from penstock.engine.synopses.store import KeyOf, Store
from penstock.engine.synopses.stub import Stub

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(10, 2)),
        ("t", pa.date32()),
    ]
)


@dataclass
class Row:
    key: int | None
    other: int
    start: int
    end: int
    number: int


def insert(store: Store, rows: list[Row]) -> None:
    def key(values: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([v or 0 for v in values], np.int64), np.array([v is not None for v in values])

    numbers = pa.array([r.number for r in rows], pa.int64())
    columns = [
        numbers,
        pa.array([None if r.number % 7 == 0 else f"row {r.number}" for r in rows], pa.string()),
        pa.array([None if r.number % 5 == 0 else r.number % 2 == 0 for r in rows], pa.bool_()),
        numbers.cast(pa.decimal128(20, 0)).cast(pa.decimal128(10, 2), safe=False),
        numbers.cast(pa.int32()).cast(pa.date32()),
    ]
    store.insert(
        np.array([r.start for r in rows], np.int64),
        np.array([r.end for r in rows], np.int64),
        [key([r.key for r in rows]), key([r.other for r in rows])],
        columns,
    )


def check_payload(store: Store, rids: np.ndarray, expected: list[Row]) -> None:
    got = store.rows(rids).to_pylist()
    assert [r["i"] for r in got] == [r.number for r in expected]
    assert [r["s"] for r in got] == [None if r.number % 7 == 0 else f"row {r.number}" for r in expected]
    assert [r["b"] for r in got] == [None if r.number % 5 == 0 else r.number % 2 == 0 for r in expected]
    assert [int(r["d"]) for r in got] == [r.number for r in expected]


def probe(store: Store, keys: tuple[int, ...], wanted: list[int], life: tuple[int, int]) -> list[list[int]]:
    n = len(wanted)
    probe_keys = np.array(wanted, np.int64)
    places, rids, _, _ = store.index(keys).probe(
        store, probe_keys, np.ones(n, bool), np.full(n, life[0]), np.full(n, life[1]), EVERYTHING
    )
    numbers = store.gather("i", rids).to_pylist()
    return [sorted(x for p, x in zip(places.tolist(), numbers, strict=True) if p == i) for i in range(n)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.some(4)
def test_random_runs(seed: int) -> None:
    rng = random.Random(seed)
    store, alive, now, number = Store(SCHEMA, keys=2), [], 0, 0
    range_, holes = rng.choice([3, 40, 400]), rng.random() < 0.5
    for _ in range(60):
        rows = []
        for _ in range(rng.choice([0, 1, 7, 300])):
            end = FOREVER if holes else now + rng.randrange(range_) + 1
            rows.append(Row(rng.choice([None, *range(20)]), rng.randrange(4), now, end, number))
            number += 1
        insert(store, rows)
        alive += rows
        if holes and alive:
            gone = rng.sample(alive, rng.randrange(len(alive)))
            ids = store.gather("i", np.arange(store.base, store.next)).to_pylist()
            where = {x: store.base + k for k, x in enumerate(ids)}
            store.end(np.array([where[r.number] for r in gone], np.int64), np.full(len(gone), now))
            for row in gone:
                row.end = now
        now += rng.randrange(5)
        store.expire(now)
        alive = [r for r in alive if r.end > now]
        assert len(store) >= len(alive)
        keys = list(range(-1, 21))
        expected = [sorted(r.number for r in alive if r.key == k) for k in keys]
        assert probe(store, (0,), keys, (now, now + 1)) == expected
        assert probe(store, (), [0], (now, now + 1)) == [sorted(r.number for r in alive)]
        found = probing.alive(store.lives, store.base, store.next, store.mask, now)
        check_payload(store, found, alive)
    assert store.oldest() <= min((r.start for r in alive), default=FOREVER)


def test_state_is_bounded_by_the_window() -> None:
    store = Store(pa.schema([("i", pa.int64()), ("s", pa.string())]), keys=1)
    sizes = []
    for step in range(200):
        n = 1000
        starts = np.full(n, step)
        keys = np.arange(n, dtype=np.int64)
        text = pa.array([f"{step} {i}" for i in range(n)])
        store.insert(starts, starts + 3, [(keys, np.ones(n, bool))], [pa.array(keys), text])
        store.index((0,))
        store.expire(step)
        sizes.append(store.nbytes())
    assert max(sizes[100:]) <= 2 * max(sizes[:20])


def test_the_first_match_is_the_first_of_the_matches() -> None:
    rng = np.random.default_rng(3)
    store = Store(pa.schema([]), keys=1)
    keys, starts = rng.integers(0, 40, 500), np.arange(500)
    store.insert(starts, starts + rng.integers(1, 90, 500), [(keys, np.ones(500, bool))], [])
    n = 400
    wanted, begin = rng.integers(0, 50, n), rng.integers(0, 500, n)
    valid, ends = rng.random(n) < 0.9, begin + 10
    index = store.index((0,))
    first = index.first(store, wanted, valid, begin, ends, EVERYTHING)
    places, rids, _, _ = index.probe(store, wanted, valid, begin, ends, EVERYTHING)
    newest = np.full(n, -1)
    np.maximum.at(newest, places, rids)
    assert first.tolist() == newest.tolist()
    again = index.probe_from(store, first.copy(), wanted, begin, ends, EVERYTHING)
    assert sorted(zip(*(x.tolist() for x in again), strict=True)) == sorted(
        (p, r, max(b, s), min(e, f))
        for p, r in zip(places.tolist(), rids.tolist(), strict=True)
        for b, e, (s, f) in [(int(begin[p]), int(ends[p]), store.lives[r & store.mask].tolist())]
    )


def test_a_directory_has_room_for_what_is_in_it_not_for_what_went_through() -> None:
    groups = Directory([pa.int64(), pa.string()])
    few = np.random.default_rng(1).integers(0, 5, 200_000)
    numbers = groups.assign([pa.array(few), pa.array(few).cast(pa.string())], len(few))
    assert len(groups) == 5
    assert groups.nbytes() < 64 << 10
    assert [a.as_py() for a in groups.rows(numbers[:3])[0]] == few[:3].tolist()
    many = np.arange(100_000)
    assert len(set(groups.assign([pa.array(many), pa.array(many).cast(pa.string())], len(many)))) == 100_000
    assert len(groups) == 100_000


def test_an_index_gets_a_row_when_the_first_reader_takes_it_in() -> None:
    """Until then, probes would walk over rows that they do not see."""
    store = Store(pa.schema([("k", pa.int64())]), stored=())
    stub, later = (Stub(store, {"k": "k"}, [KeyOf("value", "k")]) for _ in range(2))
    sought, now = np.array([7]), np.array([0])

    def indexed() -> list[int]:
        index = store.index((stub.keys[0],), until=stub.frontier)
        known = np.ones(1, np.bool_)
        return sorted(index.probe(store, sought, known, now, now + 1, EVERYTHING)[1].tolist())

    assert indexed() == []
    first, second = (store.insert(now, now + 9, [], [pa.array([7])]) for _ in range(2))
    assert indexed() == []
    stub.read(first)
    assert indexed() == [0]
    later.read(second)
    assert indexed() == [0, 1]
    stub.read(second)
    assert indexed() == [0, 1]
