"""Joins that get less memory than they need, run by the operator of the query's own plan.

A run has ``LEARNS`` windows' length to learn from before anything is counted: the paper takes its models from
an initial pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from bench.paper.figure import Scale
from penstock.cli.script import bound_queries
from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Node, StartContext
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.measurement import Measurements, measured
from penstock.plan import compile
from penstock.workloads.memory_limited import SECOND, Streams, results_of

WINDOW = 500
"""W1 of section 6.2, in its time units."""
LEARNS = 4
MEMORY = range(10, 101, 10)
"""Percent of what the whole window takes."""
_QUERY = """
CREATE STREAM S1 (k BIGINT, v DOUBLE, t BIGINT) TIMESTAMP BY t IN MILLISECONDS FROM PARQUET 'S1';
CREATE STREAM S2 (k BIGINT, v DOUBLE, t BIGINT) TIMESTAMP BY t IN MILLISECONDS FROM PARQUET 'S2';
SELECT ISTREAM ALL(S1.v) FROM S1 [RANGE {window} SECONDS], S2 [NOW] WHERE {where}
WITHIN MEMORY {rows} ROWS {goal}
"""


@dataclass(frozen=True)
class Experiment:
    """Two streams, the window on S1 in seconds, and by how much keys differ, if not by nothing."""

    streams: Streams
    window: int = WINDOW
    band: tuple[int, int] | None = None

    @property
    def from_(self) -> int:
        """When counting begins."""
        return LEARNS * self.window * SECOND

    @property
    def rows(self) -> float:
        """Tuples in the whole window."""
        ts = self.streams[0].ts
        return len(ts) * self.window * SECOND / int(ts[-1])

    def plan(self, rows: float, goal: str) -> BinaryJoin:
        """The join as it is planned; ``rows`` is what it may hold."""
        where = "S1.k = S2.k"
        if self.band is not None:
            where = f"S2.k BETWEEN S1.k + {self.band[0]} AND S1.k + {self.band[1]}"
        text = _QUERY.format(window=self.window, where=where, rows=max(round(rows), 1), goal=goal)
        (bound,) = bound_queries(text)
        node: Node = compile(bound.query, 1, bound.settings).stages[0].stage.root
        while not isinstance(node, BinaryJoin):
            (node,) = node.inputs
        return node

    def run(self, node: BinaryJoin) -> tuple[Chunk, Measurements]:
        """All results, and what the join publishes at the end."""
        running = Running(self, node)
        found = [running.step(stop) for stop in self.stops]
        return Chunk.concat(found, node.schema), running.measured

    @property
    def stops(self) -> list[int]:
        """Where the steps of a run end: four in a window."""
        end = max(int(s.ts[-1]) for s in self.streams) + 1
        step = self.window * SECOND // 4
        return [*range(step, end, step), end]

    def chunks(self, node: BinaryJoin, begin: int, stop: int) -> list[Chunk]:
        """What comes in a stretch of time."""
        chunks = []
        for part, tuples, size in zip(node.parts, self.streams, (self.window * SECOND, 0), strict=True):
            a, b = np.searchsorted(tuples.ts, [begin, stop])
            by_name = {"k": tuples.key[a:b], "v": tuples.deviation[a:b]}
            columns = [pa.array(by_name[f.name.split(".")[1]]) for f in part.schema]
            batch = pa.RecordBatch.from_arrays(columns, schema=part.schema)
            chunks.append(Chunk.of(tuples.ts[a:b], batch, end=tuples.ts[a:b] + size + 1))
        return chunks

    def recall(self, rows: float, using: str) -> float:
        """The part of all results that a policy found with so many rows, after it had learned."""
        found, _ = self.run(self.plan(rows, f"MAXIMIZE RESULTS USING {using}"))
        return self.counted(found) / self.results

    def counted(self, found: Chunk) -> int:
        """The results since counting began."""
        return int((found.ts >= self.from_).sum())

    @cached_property
    def results(self) -> int:
        """All that there are since then."""
        every = results_of(self.streams, self.window, self.band)
        return int(every[self.streams[1].ts >= self.from_].sum())


class Running:
    """A join at work."""

    def __init__(self, experiment: Experiment, node: BinaryJoin) -> None:
        self._experiment, self._node, self._at = experiment, node, 0
        self._operator = node.start(StartContext())

    def step(self, stop: int, share: float = 1.0) -> Chunk:
        """Go on to an instant with a part of the budget; the results."""
        chunks = self._experiment.chunks(self._node, self._at, stop)
        found = self._operator.run(chunks, Clock(self._at, stop, 0, share=share))
        self._at = stop
        return found

    @property
    def measured(self) -> Measurements:
        """What it publishes."""
        return measured(self._operator.measure())


def percents(scale: Scale) -> Iterator[int]:
    """Memory to try."""
    return iter((20, 60) if scale.quick else MEMORY)
