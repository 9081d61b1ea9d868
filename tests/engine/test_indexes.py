"""The four access methods against a plain sorted list, over long runs of insertions, expiry and probes."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.indexes.b_plus_tree import BPlusTree
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.indexes.index import Index, RangeIndex
from penstock.engine.indexes.ordered import OrderedIndex
from penstock.engine.indexes.scan import Scan
from penstock.engine.indexes.t_tree import TTree
from penstock.engine.kernels.probing import EVERYTHING
from penstock.engine.synopses.store import METHODS, Store

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Entry = tuple[int, int]
"""A key and the row that has it."""

MADE: dict[str, Callable[[Store], Index]] = {
    "hash": lambda store: HashIndex(store, (0,)),
    "hash of ten a bucket": lambda store: HashIndex(store, (0,), bucket=10),
    "b+tree": lambda store: BPlusTree(store, (0,)),
    "b+tree of small nodes": lambda store: BPlusTree(store, (0,), node=4),
    "t-tree": lambda store: TTree(store, (0,)),
    "t-tree of small nodes": lambda store: TTree(store, (0,), node=3),
    "none": lambda store: Scan(store, (0,)),
}


class Run:
    """A store with every access method on its key, and a sorted list of what is alive."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = Store(pa.schema([]), keys=1)
        self.alive: list[Entry] = []
        self.now = 0
        self.indexes: dict[str, Index] = {}
        self.attach()
        self.draw = self.rng.choice([self.few, self.many, self.rising, self.falling, self.extreme])

    def attach(self) -> None:
        """Make the indexes, as the store holds what it holds."""
        self.indexes = {name: make(self.store) for name, make in MADE.items()}
        self.store._indexes = {((0,), name): index for name, index in self.indexes.items()}

    def few(self) -> int:
        return self.rng.randrange(-2, 3)

    def many(self) -> int:
        return self.rng.randrange(-(10**6), 10**6)

    def rising(self) -> int:
        return self.now * 10 + self.rng.randrange(30)

    def falling(self) -> int:
        return -self.rising()

    def extreme(self) -> int:
        return self.rng.choice([LEAST, MOST, LEAST + 1, MOST - 1, 0, self.many()])

    def arrive(self, count: int, life: int) -> None:
        keys = np.array([self.draw() for _ in range(count)], np.int64)
        valid = np.array([self.rng.random() > 0.05 for _ in range(count)], np.bool_)
        starts = np.full(count, self.now)
        rids = self.store.insert(starts, starts + life, [(keys, valid)], [])
        self.store.take_in(self.store.next)
        entries = zip(keys.tolist(), rids.tolist(), valid.tolist(), strict=True)
        self.alive += [(key, rid) for key, rid, known in entries if known]

    def expire(self) -> None:
        self.store.expire(self.now)
        self.alive = sorted(e for e in self.alive if e[1] >= self.store.base)

    def check(self) -> None:
        lows = np.array([self.draw() for _ in range(20)], np.int64)
        spread = [self.rng.choice([0, 3, 1000, 10**6]) for _ in lows]
        highs = np.array([min(int(low) + s, MOST) for low, s in zip(lows, spread, strict=True)], np.int64)
        lows[-1], highs[-1] = LEAST, MOST
        valid = np.array([self.rng.random() > 0.1 for _ in lows], np.bool_)
        life = np.full(len(lows), self.now), np.full(len(lows), self.now + 1)
        equal = [self.between(int(k), int(k)) if v else [] for k, v in zip(lows, valid, strict=True)]
        within = [self.between(*map(int, b)) if v else [] for *b, v in zip(lows, highs, valid, strict=True)]
        for name, index in self.indexes.items():
            matches = index.probe(self.store, lows, valid, *life, EVERYTHING)
            assert found(matches, len(lows)) == equal, name
            first = index.first(self.store, lows, valid, *life, EVERYTHING).tolist()
            assert all(f in e if e else f == -1 for f, e in zip(first, equal, strict=True)), name
            if isinstance(index, RangeIndex):
                matches = index.probe_range(self.store, lows, highs, valid, *life, EVERYTHING)
                assert found(matches, len(lows)) == within, name

    def between(self, low: int, high: int) -> list[int]:
        begin, end = bisect_left(self.alive, (low, LEAST)), bisect_right(self.alive, (high, MOST))
        return sorted(rid for _, rid in self.alive[begin:end])


def found(matches: tuple[np.ndarray, ...], probes: int) -> list[list[int]]:
    places, rids = matches[0].tolist(), matches[1].tolist()
    out: list[list[int]] = [[] for _ in range(probes)]
    for place, rid in zip(places, rids, strict=True):
        out[place].append(rid)
    return [sorted(rows) for rows in out]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.some(3)
def test_against_a_sorted_list(seed: int) -> None:
    run = Run(seed)
    most, life = run.rng.choice([(3, 400), (60, 30), (700, 5)])
    for step in range(250):
        run.now += 1
        run.arrive(run.rng.randrange(most), life)
        run.expire()
        if step % 5 == 0:
            run.check()
        if step == 125:
            run.attach()  # built of what is there
    run.now += 2 * life
    run.expire()
    run.check()
    assert run.alive == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("growing", [False, True])
def test_memory_is_bounded(method: str, growing: bool) -> None:
    store, rng = Store(pa.schema([]), keys=1), np.random.default_rng(1)
    index = store.index((0,), method)
    sizes = []
    for now in range(200):
        keys = np.arange(500) + 500 * now if growing else rng.integers(-(10**9), 10**9, 500)
        starts = np.full(500, now)
        store.insert(starts, starts + 4, [(keys, np.ones(500, np.bool_))], [])
        store.expire(now)
        sizes.append(index.nbytes())
    assert max(sizes) <= 4 * max(sizes[:10])
    if isinstance(index, OrderedIndex):
        assert index._entries() <= 3 * len(store) + 1000


@pytest.mark.parametrize("kind", [BPlusTree, TTree])
@pytest.mark.parametrize("draw", ["random", "rising", "falling", "equal"])
def test_trees_stay_shallow(kind: type[OrderedIndex], draw: str) -> None:
    store, count = Store(pa.schema([]), keys=1), 30_000
    keys = {
        "random": np.random.default_rng(0).permutation(count),
        "rising": np.arange(count),
        "falling": -np.arange(count),
        "equal": np.zeros(count, np.int64),
    }[draw]
    index = kind(store, (0,))
    store._indexes = {((0,), index.name): index}
    starts = np.zeros(count, np.int64)
    store.insert(starts, starts + 10, [(keys, np.ones(count, np.bool_))], [])
    if isinstance(index, BPlusTree):
        assert index._head[1] <= 2
    else:
        assert isinstance(index, TTree)
        assert index._heights[index._head[0]] <= 1.45 * np.log2(count / 25)
