"""Random compositions: queries meet each other and Spark's own operators in one Spark query.

A composition is drawn as a tree: queries over the streams A and B and over other queries' DataFrames, unions,
also of a DataFrame with itself, filters, projections, joins with static tables, Spark's own deduplication and
aggregates. It runs with one or two sinks, with all that users do in ``foreachBatch``, and is stopped and
started again in the middle. Its result is that of the same done by hand: each query alone, then lists.
What cannot run is refused at the start, in one sentence.

One runs in ``make test``, 20 in ``make long`` and ``make faults``, as many as PENSTOCK_COMPOSED says; with
PENSTOCK_SEED others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from longer import sized
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from test_meeting import Row, Streams

import penstock
from penstock.errors import PenstockError
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

TRIALS = int(os.environ.get("PENSTOCK_COMPOSED", sized(1, 20)))
FIRST = int(os.environ.get("PENSTOCK_SEED", "1")) * 1000
FILES, BEFORE = 3, 2
"""Files of each stream, and how many of them there are at the first start."""


@dataclass
class Composed:
    """A DataFrame with the columns ts, k and n, and the rows that it has, made by hand.

    ``progress``: how far a stream over it is; None: as far as its rows.
    """

    text: str
    frame: Callable[[Run], DataFrame]
    rows: list[Row]
    progress: int | None = None


class Run:
    """One process's session over the streams; names that it gives to streams are used once."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.session, self.streams = Session(spark, 2), 0
        for name in "AB":
            self.session.sql(
                f"CREATE STREAM {name} (t BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY t "
                f"FROM PARQUET '{root / name}' OPTIONS (maxFilesPerTrigger '1')"
            )

    def over(self, df: DataFrame, query: str) -> DataFrame:
        self.streams += 1
        name = f"X{self.streams}"
        self.session.create_stream(name, df, timestamp="ts")
        found = self.session.sql(query.replace("FROM X", f"FROM {name}"))
        assert found is not None
        return found


class Drawn:
    """Draws compositions over the rows of two streams."""

    def __init__(self, seed: int, rows: dict[str, list[tuple[int, dict[str, int]]]]) -> None:
        self.die, self.inputs = Random(seed), rows
        self.end = rows["A"][-1][0]

    def any(self, depth: int) -> Composed:
        if depth == 0:
            return self.leaf()
        kinds = [self.filtered, self.selected, self.union, self.twice, self.joined, self.distinct]
        return self.die.choice([*kinds, self.over, self.over, self.over])(depth - 1)

    def query(self, stream: str, value: str) -> str:
        size, other = self.die.choice((0, 2, 4)), self.die.choice((1, 3))
        w = f"[RANGE {size}]"
        return self.die.choice(
            (
                f"SELECT ISTREAM(k, COUNT(*) AS n) FROM {stream} {w} GROUP BY k",
                f"SELECT ISTREAM(k, SUM({value}) AS n) FROM {stream} {w} GROUP BY k",
                f"SELECT ISTREAM(MAX(k) AS k, COUNT(*) AS n) FROM {stream} {w}",
                f"SELECT DSTREAM(k, {value} AS n) FROM {stream} {w}",
                f"SELECT ISTREAM(k, {value} AS n) FROM {stream} [ROWS {other}]",
                f"SELECT k, {value} AS n FROM {stream} WHERE {value} > {size}",
                f"SELECT ISTREAM(DISTINCT k, {value} AS n) FROM {stream} {w}",
            )
        )

    def by_hand(self, query: str, **inputs: Any) -> list[Row]:
        return sorted((t, row["k"], row["n"]) for t, _, row in penstock.evaluate(query, inputs))

    def leaf(self) -> Composed:
        if self.die.random() < 0.15:
            return self.sparks_aggregate()
        stream = self.die.choice("AB")
        query = self.query(stream, "v")
        rows = self.complete(query, self.by_hand(query, **{stream: self.inputs[stream]}), self.end)
        return Composed(query, lambda run: run.session.sql(query), rows, self.end)

    def complete(self, query: str, rows: list[Row], until: int) -> list[Row]:
        """The rows of complete instants; a query without state waits for none."""
        return [r for r in rows if r[0] < until or query.startswith("SELECT k")]

    def sparks_aggregate(self) -> Composed:
        """Spark counts in windows of two seconds; a query of ours is over it."""
        counts = Counter((t // 2 * 2, row["k"]) for t, row in self.inputs["A"])
        # Its watermark in the last batch is the time of the file before.
        watermark = self.inputs["A"][-6][0]
        rows = sorted((t, k, n) for (t, k), n in counts.items() if t + 2 <= watermark)

        def frame(run: Run) -> DataFrame:
            df = run.session.catalog["A"].source.df.select(F.timestamp_seconds("t").alias("at"), "k")
            windows = df.withWatermark("at", "0 seconds").groupBy(F.window("at", "2 seconds"), "k").count()
            return windows.select(F.unix_seconds("window.start").alias("ts"), "k", F.col("count").alias("n"))

        return self._over(Composed("Spark's aggregate", frame, rows))

    def over(self, depth: int) -> Composed:
        return self._over(self.any(depth))

    def _over(self, inner: Composed) -> Composed:
        query = self.query("X", "n")
        latest = max((t for t, _, _ in inner.rows), default=0)
        progress = latest if inner.progress is None else inner.progress
        rows = self.by_hand(query, X=[(t, {"k": k, "n": n}) for t, k, n in inner.rows])
        text, rows = f"({query} over {inner.text})", self.complete(query, rows, progress)
        return Composed(text, lambda run: run.over(inner.frame(run), query), rows, progress)

    def filtered(self, depth: int) -> Composed:
        inner, least = self.any(depth), self.die.choice((1, 3, 10))
        own = self.die.random() < 0.5

        def frame(run: Run) -> DataFrame:
            df = inner.frame(run)
            return df.where(df.n >= least) if own else df.filter(f"n >= {least}")

        rows = [r for r in inner.rows if r[2] >= least]
        return Composed(f"{inner.text} where n >= {least}", frame, rows, inner.progress)

    def selected(self, depth: int) -> Composed:
        inner = self.any(depth)

        def frame(run: Run) -> DataFrame:
            return inner.frame(run).select("ts", "k", (F.col("n") + 1).alias("n"))

        rows = [(t, k, n + 1) for t, k, n in inner.rows]
        return Composed(f"{inner.text} with n + 1", frame, rows, inner.progress)

    def union(self, depth: int) -> Composed:
        one, other = self.any(depth), self.any(depth)
        text, rows = f"[{one.text} and {other.text}]", sorted(one.rows + other.rows)
        return Composed(text, lambda run: one.frame(run).union(other.frame(run)), rows)

    def twice(self, depth: int) -> Composed:
        inner = self.any(depth)

        def frame(run: Run) -> DataFrame:
            df = inner.frame(run)
            return df.union(df.where("n > 2"))

        rows = sorted(inner.rows + [r for r in inner.rows if r[2] > 2])
        return Composed(f"twice {inner.text}", frame, rows)

    def joined(self, depth: int) -> Composed:
        inner = self.any(depth)

        def frame(run: Run) -> DataFrame:
            table = run.session.spark.createDataFrame([(0, 5), (1, 7)], "k BIGINT, w BIGINT")
            return inner.frame(run).join(table, "k").select("ts", "k", (F.col("n") + F.col("w")).alias("n"))

        rows = [(t, k, n + {0: 5, 1: 7}[k]) for t, k, n in inner.rows if k in (0, 1)]
        return Composed(f"{inner.text} joined", frame, rows)

    def distinct(self, depth: int) -> Composed:
        inner = self.any(depth)
        rows = sorted(set(inner.rows))
        text = f"distinct {inner.text}"
        return Composed(text, lambda run: inner.frame(run).dropDuplicates(), rows)


Batch = Callable[[DataFrame, int], Any]


def sinks(spark: Any, die: Random) -> Iterator[tuple[str, Batch]]:
    """What users do in ``foreachBatch`` before they write."""

    def count_first(batch: DataFrame, number: int) -> Any:
        count, rows = batch.count(), batch.collect()
        assert len(rows) == count
        return rows

    def grouped(batch: DataFrame, number: int) -> Any:
        spark.sparkContext.setJobGroup(f"group {number}", "of a user")
        return batch.collect()

    def local(batch: DataFrame, number: int) -> Any:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"pool {number % 2}")
        spark.sparkContext.setJobDescription("of a user")
        return batch.collect()

    def threaded(batch: DataFrame, number: int) -> Any:
        with ThreadPoolExecutor(2) as pool:
            count, rows = pool.submit(batch.count), pool.submit(batch.collect)
            assert count.result() == len(rows.result())
            return rows.result()

    every = {f.__name__: f for f in (count_first, grouped, local, threaded)}
    while True:
        yield die.choice(list(every.items()))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + TRIALS))
def test_compositions(spark: Any, session: Session, seed: int, tmp_path: Path) -> None:
    streams = Streams(tmp_path, session, FILES)
    drawn = Drawn(seed, streams.rows)
    composed, die = drawn.any(drawn.die.choice((1, 2, 2))), drawn.die
    chosen = [s for s, _ in zip(sinks(spark, die), range(die.choice((1, 1, 2))), strict=False)]
    about = f"seed {seed}: {composed.text}, {[name for name, _ in chosen]}"
    later = [tmp_path / name / f"{file:03}.parquet" for name in "AB" for file in range(BEFORE, FILES)]
    for path in later:
        path.rename(path.with_name(f".{path.name}"))
    found: list[list[Row]] = [[] for _ in chosen]
    for start in range(2):
        for path in later if start else ():
            path.with_name(f".{path.name}").rename(path)
        run = Run(spark, tmp_path)
        try:
            df = composed.frame(run).select("ts", "k", "n")
            queries = [
                write(df, tmp_path / f"checkpoint{i}", each, found[i]) for i, (_, each) in enumerate(chosen)
            ]
        except (AnalysisException, PenstockError) as refused:
            assert not start, about
            print(f"{about} is refused: {refused}")
            return
        for query in queries:
            query.awaitTermination()
        run.session.close()
    for rows in found:
        extra, missing = Counter(rows) - Counter(composed.rows), Counter(composed.rows) - Counter(rows)
        assert not extra and not missing, f"{about}: extra {sorted(extra)}, missing {sorted(missing)}"


def write(df: DataFrame, checkpoint: Path, each: Batch, found: list[Row]) -> Any:
    def sink(batch: DataFrame, number: int) -> None:
        found.extend(map(tuple, each(batch, number)))

    writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()
