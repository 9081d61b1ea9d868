"""Windows that are filled, probed and expired as a join of two streams does it, with every access method.

One direction alone (``seconds``), or a whole join: both windows in turns, with an access method each
(``whole``). What is timed is the CPU time of the indexes' own calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np
import pyarrow as pa

from penstock.engine.indexes.index import Index, RangeIndex
from penstock.engine.kernels.probing import EVERYTHING
from penstock.engine.synopses.store import METHODS, Store

BATCH = 1_000
LEAST_BATCH = 250
EQUALITY, BAND = "equality", "band"
BY_PREDICATE = {EQUALITY: ("hash", "b+tree", "t-tree", "none"), BAND: ("b+tree", "t-tree", "none")}
MOST_PROBES = 20_000
"""Probes made at once of those that are due; the others take as long."""
MOST_TUPLES = 5_000_000
"""Tuples that scans read at once, at most."""
TURNS = 4
SPREAD = 1_000
"""Keys are this far apart on average; a band is half as wide to each side."""


@dataclass(frozen=True)
class OneWay:
    """Tuples probe a window of so many rows; ``updates`` rows enter it for ``probes`` that probe it."""

    probes: float
    updates: float
    window: int
    predicate: str = EQUALITY


def seconds(way: OneWay, method: str, rows: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """CPU seconds of each step of about so many arriving rows (or twice the window), and how many came."""
    share = way.updates / (way.probes + way.updates)
    batch = max(min(way.window // 10, BATCH), LEAST_BATCH)
    random, store = np.random.default_rng(seed), Store(pa.schema([]), keys=1)
    life, now = max(way.window // batch, 1), 0
    index = METHODS[method](store, (0,))
    spent, counted, owed = [], 0, 0.0
    for step in range(life + max(int(rows * share) // batch, 10)):
        first, starts = store.next, np.full(batch, now)
        keys = _keys(random, way, batch)
        before = store.capacity
        store.insert(starts, starts + life, [(keys, np.ones(batch, np.bool_))], [])
        store.expire(now)
        now += 1
        if store.capacity != before:
            index.rebuild(store)
            continue
        began = thread_time()
        index.insert(store, first, batch)
        took = thread_time() - began
        if step < life:
            continue
        owed += batch * way.probes / way.updates
        if owed >= 1:
            took += _probe(store, index, way, random, int(owed), now)
            counted += int(owed)
            owed -= int(owed)
        spent.append(took)
        counted += batch
    return np.array(spent), counted


def _keys(random: np.random.Generator, way: OneWay, count: int) -> np.ndarray:
    if way.predicate == EQUALITY:
        return random.integers(0, way.window, count)
    return random.integers(0, way.window * SPREAD, count)


def _probe(
    store: Store, index: Index, way: OneWay, random: np.random.Generator, owed: int, now: int
) -> float:
    """Seconds for the probes that are due."""
    limit = max(MOST_TUPLES // way.window, 10) if index.name == "none" else MOST_PROBES
    count = min(owed, limit)
    keys, valid = _keys(random, way, count), np.ones(count, np.bool_)
    life = np.full(count, now - 1), np.full(count, now)
    began = thread_time()
    if way.predicate == BAND:
        assert isinstance(index, RangeIndex)
        index.probe_range(store, keys - SPREAD // 2, keys + SPREAD // 2, valid, *life, EVERYTHING)
    else:
        index.probe(store, keys, valid, *life, EVERYTHING)
    return (thread_time() - began) * owed / count


def compared(way: OneWay, methods: Sequence[str], rows: int, turns: int = TURNS) -> dict[str, float]:
    """Seconds a row by each method.

    All turns do the same work, so of each step the fastest turn counts: what else the machine did then is
    left out, unless it did so in every turn. Methods take turns, so that all have quiet moments alike.
    """
    found: dict[str, list[np.ndarray]] = {m: [] for m in methods}
    counts = {}
    for _ in range(turns):
        for method in methods:
            times, counts[method] = seconds(way, method, rows)
            found[method].append(times)
    return {m: float(np.min(times, axis=0).sum()) / max(counts[m], 1) for m, times in found.items()}


def fastest(way: OneWay, method: str, rows: int, turns: int = TURNS) -> float:
    """Seconds a row by one method."""
    return compared(way, (method,), rows, turns)[method]


class _Window:
    """A full window of a whole join, with its index; ``rows`` enter and leave it in each step."""

    def __init__(self, size: int, rows: float, predicate: str, method: str, seed: int) -> None:
        self.way, self.rows = OneWay(1, 1, size, predicate), rows
        self._random, self.store = np.random.default_rng(seed), Store(pa.schema([]), keys=1)
        self._owed, self._life = 0.0, max(size / rows, 1.0)
        ends = np.ceil((1 + np.arange(size)) / rows).astype(np.int64)
        self._insert(np.zeros(size, np.int64), ends)
        self.index = METHODS[method](self.store, (0,))

    def _insert(self, starts: np.ndarray, ends: np.ndarray) -> None:
        keys = _keys(self._random, self.way, len(starts))
        self.store.insert(starts, ends, [(keys, np.ones(len(starts), np.bool_))], [])

    def slide(self, now: int) -> tuple[int, float]:
        """Let a step's rows enter and the oldest leave; how many came, and the index's seconds."""
        self._owed += self.rows
        count, first, before = int(self._owed), self.store.next, self.store.capacity
        self._owed -= count
        starts = np.full(count, now)
        self._insert(starts, starts + max(int(self._life), 1))
        self.store.expire(now)
        if self.store.capacity != before:
            self.index.rebuild(self.store)
            return count, 0.0
        began = thread_time()
        self.index.insert(self.store, first, count)
        return count, thread_time() - began

    def probed(self, count: int, now: int) -> float:
        """Seconds for so many rows of the other stream."""
        return _probe(self.store, self.index, self.way, self._random, count, now + 1) if count else 0.0


def whole(
    rates: tuple[float, float], windows: tuple[int, int], methods: tuple[str, str], predicate: str, rows: int
) -> tuple[np.ndarray, int]:
    """CPU seconds of each step of a whole join, and the rows that came."""
    total = sum(rates)
    a, b = (
        _Window(size, BATCH * rate / total, predicate, method, seed)
        for seed, (size, rate, method) in enumerate(zip(windows, rates, methods, strict=True))
    )
    spent, counted = [], 0
    for now in range(1, 1 + max(rows // BATCH, 10)):
        (of_a, took_a), (of_b, took_b) = a.slide(now), b.slide(now)
        spent.append(took_a + took_b + b.probed(of_a, now) + a.probed(of_b, now))
        counted += of_a + of_b
    return np.array(spent), counted


def whole_joins(
    rates: tuple[float, float],
    windows: tuple[int, int],
    methods: Sequence[tuple[str, str]],
    predicate: str,
    rows: int,
    turns: int = 2,
) -> dict[tuple[str, str], float]:
    """Seconds a row by each pair of methods; turns as in ``compared``."""
    found: dict[tuple[str, str], list[np.ndarray]] = {pair: [] for pair in methods}
    counted = 1
    for _ in range(turns):
        for pair in methods:
            times, counted = whole(rates, windows, pair, predicate, rows)
            found[pair].append(times)
    return {pair: float(np.min(times, axis=0).sum()) / counted for pair, times in found.items()}
