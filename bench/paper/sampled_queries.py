"""Aggregates over a sampled join as a user writes them in CQL, run by the engine on the streams of section 6.

The aggregate is taken over the join's results of the last so many seconds, every so many seconds; the exact
one is the same query without a budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.cli.script import bound_queries
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Measurements, measured
from penstock.plan import compile
from penstock.workloads.memory_limited import SECOND, Streams

Floats = npt.NDArray[np.float64]

EQUALITY, NEAR = "S1.k = S2.k", "S1.k - S2.k BETWEEN 0 AND 0"
"""The join by an equality; and without one, so that nothing is known of how often a value comes."""
_QUERY = """
CREATE STREAM S1 (k BIGINT, v DOUBLE, t BIGINT) TIMESTAMP BY t IN MILLISECONDS FROM PARQUET 'S1';
CREATE STREAM S2 (k BIGINT, v DOUBLE, t BIGINT) TIMESTAMP BY t IN MILLISECONDS FROM PARQUET 'S2';
SET penstock.seed = {seed};
RSTREAM(SELECT {select}
FROM (SELECT ISTREAM ALL(S1.v AS v, S2.t AS t) FROM S1 [RANGE {window} SECONDS], S2 [NOW] WHERE {where})
     [RANGE {over} MILLISECONDS] AS results
{within}) EVERY {every} SECONDS
"""


@dataclass(frozen=True)
class SampledQuery:
    """``select`` over the results of the last ``over`` ms of two streams' join, every ``every`` seconds."""

    streams: Streams
    select: str
    window: int
    over: int
    every: int

    def text(self, rows: float | None, goal: str, seed: int = 0, where: str = EQUALITY) -> str:
        """The script; without rows, the exact query."""
        within = "" if rows is None else f"WITHIN MEMORY {max(round(rows), 1)} ROWS {goal}"
        return _QUERY.format(
            seed=seed, select=self.select, window=self.window, where=where, over=self.over, within=within,
            every=self.every,
        )  # fmt: skip

    def run(self, rows: float | None, goal: str = "", seed: int = 0, where: str = EQUALITY) -> Answer:
        """What the query returned."""
        (bound,) = bound_queries(self.text(rows, goal, seed, where))
        stage = compile(bound.query, 1, bound.settings).stages[0].stage
        engine, found = Engine(stage), []
        columns = {i.name: i.schema.names for i in stage.inputs}
        for stop, before in self._steps():
            arrivals = [
                self._arrival(name, number, columns[name], before, stop)
                for number, name in enumerate(sorted(columns))
            ]
            found.append(engine.step(arrivals).only.batch)
        return Answer(pa.Table.from_batches(found), measured(engine.measure()))

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Where steps end and begin: four in a window."""
        end = max(int(s.ts[-1]) for s in self.streams) + 1
        step = self.window * SECOND // 4
        edges = [*range(0, end, step), end]
        return iter(zip(edges[1:], edges, strict=False))

    def _arrival(self, name: str, number: int, columns: list[str], begin: int, stop: int) -> Arrival:
        tuples = self.streams[number]
        a, b = np.searchsorted(tuples.ts, [begin, stop])
        values = {"k": tuples.key[a:b], "v": tuples.deviation[a:b], "t": tuples.ts[a:b]}
        arrays = {TS: pa.array(tuples.ts[a:b])}
        arrays |= {c: pa.array(values[c.rpartition(".")[2]]) for c in columns if c != TS}
        return Arrival(name, 0, pa.RecordBatch.from_pydict(arrays), begin, stop - 1, total=b - a)


@dataclass(frozen=True)
class Answer:
    """By instant, the row of the aggregates; what the operators measured."""

    table: pa.Table
    measured: Measurements

    def column(self, name: str, since: int) -> Floats:
        """A column from an instant on; NaN for NULL."""
        values = self.table.column(name).to_numpy().astype(np.float64)
        return np.asarray(values[self.table.column(TS).to_numpy() >= since], np.float64)
