"""Measure searches and updates on this machine, and fit the weights of the cost model to them.

The paper's two workloads (Kang et al., section 4.3), for each access method and several sizes of a window:
probes without arrivals, and arrivals, each of which lets the oldest tuple expire, without probes. It measures
the CPU time of the calls that a join makes, in batches as a join makes them, in the fastest of a few runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from time import thread_time

import numpy as np
import pyarrow as pa

from penstock.cost.model import METHODS, AccessMethod, Weight, Weights, doublings
from penstock.cost.settings import (
    CALIBRATED_WINDOWS,
    CALIBRATION_RUNS,
    MEASURABLE_S,
    MIN_FREEING_CALLS,
    MIN_IMPROVEMENT,
    MIN_PROBED_BATCH_ROWS,
    PROBES,
    SCANNED_TUPLES,
    UPDATE_BATCH_ROWS,
)
from penstock.engine.kernels.probing import EVERYTHING
from penstock.engine.synopses.store import METHODS as STRUCTURES
from penstock.engine.synopses.store import Store


@dataclass(frozen=True)
class Measurement:
    """Seconds of a probe and of an update (an arrival and an expiry) at a size of the window."""

    method: str
    window: int
    probe: float
    update: float


def measure(
    windows: Sequence[int] = CALIBRATED_WINDOWS,
    runs: int = CALIBRATION_RUNS,
    methods: Sequence[str] = tuple(METHODS),
) -> Iterator[Measurement]:
    """Measure access methods at every size; the first call of each kernel is not timed."""
    for name in methods:
        _probe(name, 100, 1)
        _update(name, 100, 1)
        for window in windows:
            yield Measurement(name, window, _probe(name, window, runs), _update(name, window, runs))


class _Sliding:
    """A full window of random keys, about one tuple per key, that slides by a batch."""

    def __init__(self, window: int, batch: int) -> None:
        self.store, self.batch = Store(pa.schema([]), keys=1), batch
        self.random, self._keys, self._now = np.random.default_rng(window), window, 0
        self._life = max(window // batch, 1)
        for _ in range(2 * self._life):
            self.slide()

    def slide(self) -> int:
        """Insert a batch and expire the oldest; returns the first row of the batch."""
        first, starts = self.store.next, np.full(self.batch, self._now)
        keys = self.random.integers(0, self._keys, self.batch)
        self.store.insert(starts, starts + self._life, [(keys, np.ones(self.batch, np.bool_))], [])
        self.store.expire(self._now)
        self._now += 1
        return first

    def probes(self, count: int) -> tuple[np.ndarray, ...]:
        """Keys, whether they are valid, starts and ends, of probing tuples."""
        now = np.full(count, self._now - 1)
        return self.random.integers(0, self._keys, count), np.ones(count, np.bool_), now, now + 1


def _probe(name: str, window: int, runs: int) -> float:
    """Seconds per probe."""
    sliding = _Sliding(window, max(window // 10, MIN_PROBED_BATCH_ROWS))
    index = sliding.store.index((0,), name)
    count = max(16, min(PROBES, SCANNED_TUPLES // window)) if name == "none" else PROBES
    keys, valid, starts, ends = sliding.probes(count)

    def search() -> None:
        index.probe(sliding.store, keys, valid, starts, ends, EVERYTHING)

    return min(_seconds(search) for _ in range(runs)) / count


def _update(name: str, window: int, runs: int) -> float:
    """Seconds per update, over twice the rows of the window."""
    times = []
    for _ in range(runs):
        sliding = _Sliding(window, UPDATE_BATCH_ROWS)
        index, store = STRUCTURES[name](sliding.store, (0,)), sliding.store
        slides = max(2 * window, PROBES) // UPDATE_BATCH_ROWS
        times.append(
            [
                _seconds(partial(index.insert, store, sliding.slide(), UPDATE_BATCH_ROWS))
                for _ in range(slides)
            ]
        )
    # Every run does the same work, so the least time of each slide excludes other load of the machine.
    return float(np.min(times, axis=0).mean()) / UPDATE_BATCH_ROWS


def invalidation(runs: int = CALIBRATION_RUNS) -> tuple[float, float]:
    """Seconds of a call that frees expired rows, and of each row that it frees."""
    few, many = (min(_freed(rows) for _ in range(runs)) for rows in (1, UPDATE_BATCH_ROWS))
    row = max((many - few) / (UPDATE_BATCH_ROWS - 1), MEASURABLE_S)
    return few, row


def _freed(rows: int) -> float:
    """Seconds of a call that frees so many rows."""
    store, calls = Store(pa.schema([])), max(PROBES // rows, MIN_FREEING_CALLS)
    ends = np.repeat(np.arange(1, calls + 1), rows)
    store.insert(np.zeros(len(ends), np.int64), ends, [], [])
    store.expire(0)

    def free() -> None:
        for now in range(1, calls + 1):
            store.expire(now)

    return _seconds(free) / calls


def _seconds(work: Callable[[], None]) -> float:
    began = thread_time()
    work()
    return thread_time() - began


def fit(measurements: Sequence[Measurement]) -> Weights:
    """The weights under which the cost model is closest to the measurements."""
    return {name: _fit_one(m, [x for x in measurements if x.method == name]) for name, m in METHODS.items()}


def _fit_one(method: AccessMethod, measured: Sequence[Measurement]) -> Weight:
    windows = [m.window for m in measured]
    search = _nearest([method.probe(w) for w in windows], windows, [m.probe for m in measured])
    # The model counts an insertion and an expiry for each arrival.
    update = _nearest([method.update(w) for w in windows], windows, [m.update / 2 for m in measured])
    pairs = zip(search, update, strict=True)
    return Weight(*(value for pair in pairs for value in pair))


def _nearest(touched: Sequence[float], windows: Sequence[int], seconds: Sequence[float]) -> list[float]:
    """Seconds per touched tuple, at least, and per doubling: a non-negative fit of the relative error."""
    columns = np.array([touched, np.ones(len(windows)), [doublings(w) for w in windows]]).T
    target = np.maximum(np.array(seconds), MEASURABLE_S)
    scaled = columns / target[:, None]
    best, least = np.zeros(3), np.inf
    for size in (1, 2, 3):
        for chosen in map(list, combinations(range(3), size)):
            found, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones(len(target)), rcond=None)
            error = float(np.sum((scaled[:, chosen] @ found - 1) ** 2))
            # A further term must improve the fit.
            if (found >= 0).all() and error < MIN_IMPROVEMENT * least:
                best, least = np.zeros(3), error
                best[chosen] = found
    return [float(x) for x in best]


def errors(measurements: Sequence[Measurement], weights: Weights) -> list[tuple[Measurement, float, float]]:
    """Each measurement with the probe and update cost of the model."""
    found = []
    for m in measurements:
        method, weight = METHODS[m.method], weights[m.method]
        found.append((m, weight.probe(method, m.window), 2 * weight.change(method, m.window)))
    return found
