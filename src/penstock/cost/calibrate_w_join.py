"""Measure how a W-join finds rows of the next stream: by nested loops, by merging, and by hash.

For buffers of several sizes, with one key per row of them: the CPU seconds per tuple that looks for rows. The
choice of an algorithm (``streamon/w_join.py``) has costs per tuple and per row of ``streamon/settings.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np

from penstock.cost.settings import BUFFER_ROWS, CALIBRATION_RUNS, LOOKED_UP_TUPLES, SCANNED_TUPLES
from penstock.engine.kernels import sweeping


@dataclass(frozen=True)
class Looking:
    """Seconds per tuple that looks for rows in a buffer of so many."""

    rows: int
    nlw: float
    mw: float
    hw: float

    @property
    def cheapest(self) -> str:
        return min(("nlw", "mw", "hw"), key=lambda name: float(getattr(self, name)))


def measured(buffers: Sequence[int] = BUFFER_ROWS, runs: int = CALIBRATION_RUNS) -> Iterator[Looking]:
    """Each algorithm at each size; the first call of a kernel is not timed."""
    _scans(16, 1)
    _hashed(16, 1)
    for rows in buffers:
        yield Looking(rows, *_scans(rows, runs), _hashed(rows, runs))


def _hashed(rows: int, runs: int) -> float:
    """Seconds per tuple by ``hw``, where a stream brings as many tuples as its buffer has rows."""
    random, count = np.random.default_rng(rows), max(rows, LOOKED_UP_TUPLES)
    times = np.arange(count)
    keys, probes = random.integers(0, rows, (2, 1, count))
    firsts = np.maximum(times - rows, 0)

    def looked() -> None:
        sweeping.in_buckets(times, keys, firsts, times + 1, times - rows, times, probes, probes, 1)

    return _fastest(looked, runs) / count


def _scans(rows: int, runs: int) -> tuple[float, float]:
    """Seconds per tuple by ``nlw`` and by ``mw``."""
    random, count = np.random.default_rng(rows), max(16, min(LOOKED_UP_TUPLES, SCANNED_TUPLES // rows))
    times, keys = np.sort(random.integers(0, 1 << 20, rows)), random.integers(0, rows, (1, rows))
    probes, firsts, stops = (
        random.integers(0, rows, (1, count)),
        np.zeros(count, np.int64),
        np.full(count, rows),
    )
    lows, highs = np.zeros(count, np.int64), np.full(count, 1 << 20)

    def nested() -> None:
        sweeping.in_period(times, keys, firsts, stops, lows, highs, probes, probes)

    def merged() -> None:
        sweeping.in_run(keys, firsts, stops, probes, probes)

    return _fastest(nested, runs) / count, _fastest(merged, runs) / count


def _fastest(work: Callable[[], None], runs: int) -> float:
    spent = []
    for _ in range(runs):
        began = thread_time()
        work()
        spent.append(thread_time() - began)
    return min(spent)
