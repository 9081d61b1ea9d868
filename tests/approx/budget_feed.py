"""Streams for joins inside a budget, and a way to run the operator alone on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.approx.memory_policy import MemoryBudget
from penstock.budget import Maximize, Sample, Within
from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.measurement import Measurements, measured
from penstock.workloads import memory_limited
from penstock.workloads.memory_limited import SECOND, Streams, curve

Int64s = npt.NDArray[np.int64]
Goal = Maximize | Sample


@dataclass(frozen=True)
class Stream:
    """Tuples of one stream: time, key, and a number of their own."""

    ts: Int64s
    keys: Int64s
    values: npt.NDArray[np.float64]


def evenly(rate: float, ticks: int) -> Int64s:
    """Arrivals at a constant rate a tick."""
    return (np.arange(int(ticks * rate)) / rate).astype(np.int64)


def by_age(shape: str, length: int, rate: float, ticks: int, seed: int = 0) -> tuple[Stream, Stream]:
    """Section 6.2.1: unique ids on the first stream; the second picks one by the age that a curve says."""
    return _in_ticks(memory_limited.by_age(curve(shape), length, rate, ticks, seed))


def by_value(
    parts: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    rates: tuple[float, float],
    ticks: int,
    seed: int = 0,
) -> tuple[Stream, Stream]:
    """Section 6.2.3: values of fixed frequencies on both streams."""
    return _in_ticks(memory_limited.by_value(parts, rates, ticks, seed))


def _in_ticks(streams: Streams) -> tuple[Stream, Stream]:
    """A second is a tick; values are 100, give or take 20."""
    one, two = (Stream(s.ts // SECOND, s.key, 100 + 20 * s.deviation) for s in streams)
    return one, two


def budget_join(rows: int, goal: Goal, lengths: tuple[int, int], **more: Any) -> BinaryJoin:
    """A join by key of two windows of so many ticks, of which it may hold ``rows``."""
    parts = tuple(
        SeqWindow(
            Source(n, pa.schema([(f"{n}.k", pa.int64()), (f"{n}.n", pa.int64())])), "range", t - 1, (), ""
        )
        for n, t in zip("AB", lengths, strict=True)
    )
    keeps = MemoryBudget(Within(rows=rows, goal=goal), lengths, keyed=True, **more)
    keys = (((0, "A.k"), (1, "B.k")),)
    return BinaryJoin(parts, ("A", "B"), keys, (), ("A.n", "B.n"), budget=keeps)


class Run:
    """The operator fed with two streams, in steps; what it gave, and the most rows that it held."""

    def __init__(self, node: BinaryJoin, streams: Sequence[Stream], steps: int = 20) -> None:
        self.node, self.streams = node, streams
        self.operator: Operator = node.start(StartContext())
        self.most, self.chunks = 0, list[Chunk]()
        end = max(int(s.ts[-1]) for s in streams) + 1
        cuts = np.linspace(0, end, steps + 1).astype(np.int64)
        for begin, stop in zip(cuts[:-1], cuts[1:], strict=True):
            self.step(int(begin), int(stop))

    def step(self, begin: int, stop: int) -> None:
        """Let time pass."""
        chunks = [self.chunk(i, begin, stop) for i in range(2)]
        self.chunks.append(self.operator.run(chunks, Clock(begin, stop, 0)))
        self.most = max(self.most, self.operator.rows())

    def chunk(self, i: int, begin: int, stop: int) -> Chunk:
        """What comes on one stream in a stretch of time."""
        part, stream = self.node.parts[i], self.streams[i]
        assert isinstance(part, SeqWindow) and part.size is not None
        a, b = np.searchsorted(stream.ts, [begin, stop])
        columns = [pa.array(stream.keys[a:b]), pa.array(np.arange(a, b))]
        ts = stream.ts[a:b]
        return Chunk.of(ts, pa.RecordBatch.from_arrays(columns, schema=part.schema), end=ts + part.size + 1)

    def columns(self, *names: str) -> list[npt.NDArray[Any]]:
        """Columns of all results."""
        every = Chunk.concat(self.chunks, self.node.schema)
        return [every.column(n).to_numpy(zero_copy_only=False) for n in names]

    def pairs(self) -> set[tuple[int, int]]:
        """All results, by the numbers of their tuples."""
        return set(zip(*(c.tolist() for c in self.columns("A.n", "B.n")), strict=True))

    @property
    def measured(self) -> Measurements:
        """What the join publishes."""
        return measured(self.operator.measure())
