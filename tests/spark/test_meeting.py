"""Queries that meet: in one Spark query, or beside others whose jobs look the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waiting import until

import penstock
from penstock.errors import CatalogError
from penstock.measurement import Kind, Property, Reading, encode, under
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.session import Session, _jvm_pid
from penstock.spark.resident.directory import EngineId, new_plan

COUNTS = "SELECT ISTREAM(k, COUNT(*) AS n) FROM A [RANGE 7] GROUP BY k"
SUMS = "SELECT ISTREAM(k, SUM(v) AS n) FROM B [RANGE 5] GROUP BY k"
ROW = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
Row = tuple[int, int, int]


class Streams:
    """Streams A and B in files, of which a batch has one each."""

    def __init__(self, root: Path, session: Session, files: int = 3) -> None:
        self.root, self.session = root, session
        self.rows: dict[str, list[tuple[int, dict[str, int]]]] = {"A": [], "B": []}
        for name, step in (("A", 3), ("B", 2)):
            (root / name).mkdir(parents=True)
            for file in range(files):
                self.write(name, file, [(t, t % step, t * step) for t in range(5 * file, 5 * file + 5)])
            session.sql(
                f"CREATE STREAM {name} (t BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY t "
                f"FROM PARQUET '{root / name}' OPTIONS (maxFilesPerTrigger '1')"
            )

    def write(self, name: str, file: int, rows: list[Row]) -> None:
        path = self.root / name / f"{file:03}.parquet"
        pq.write_table(pa.Table.from_pylist([dict(zip("tkv", r, strict=True)) for r in rows], ROW), path)
        os.utime(path, (file, file))
        self.rows[name] += [(t, {"k": k, "v": v}) for t, k, v in rows]

    def expected(self, query: str, **inputs: Any) -> list[tuple[int, ...]]:
        """The rows of a stream that a query returns once all files are read, without its last instant."""
        found = penstock.evaluate(query, self.rows | inputs)
        return sorted((ts, *row.values()) for ts, _, row in found if ts < self.rows["A"][-1][0])

    def run(self, df: Any, each: Callable[[Any, int], None] | None = None) -> list[tuple[int, ...]]:
        """All results."""
        found, query = self.start(df, each)
        query.awaitTermination()
        return sorted(found)

    def start(
        self, df: Any, each: Callable[[Any, int], Any] | None = None, checkpoint: str | None = None
    ) -> tuple[list[Any], Any]:
        found: list[Any] = []

        def sink(batch: Any, number: int) -> None:
            rows = each(batch, number) if each else None
            found.extend(map(tuple, rows or batch.collect()))

        writer = df.writeStream.foreachBatch(sink).trigger(availableNow=True)
        return found, (writer.option("checkpointLocation", checkpoint) if checkpoint else writer).start()


@pytest.fixture
def streams(tmp_path: Path, session: Session) -> Streams:
    return Streams(tmp_path, session)


def engines(spark: Any) -> list[psutil.Process]:
    """The processes of the hosts' engines."""
    own = [
        p
        for p in psutil.process_iter(["cmdline"])
        if "penstock.spark.resident.host" in (p.info["cmdline"] or [])
    ]
    hosts = [p for p in own if str(_jvm_pid(spark)) in p.cmdline()]
    return [p for p in hosts if any(p.ppid() == other.pid for other in hosts)]


@pytest.mark.spark
def test_job_groups_and_threads_of_users_change_nothing(spark: Any, streams: Streams) -> None:
    """What a job carries besides the query's id is the user's; a thread of the user has not even that."""

    def grouped(batch: Any, number: int) -> None:
        spark.sparkContext.setJobGroup(f"mine {number}", "for the UI")

    def in_a_thread(batch: Any, number: int) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(batch.collect).result()

    sql = streams.session.sql
    started = [
        streams.start(sql(COUNTS), grouped),
        streams.start(sql(SUMS), grouped),
        streams.start(sql(COUNTS.replace("7", "3")), in_a_thread),
    ]
    for _, query in started:
        query.awaitTermination()
    queries = (COUNTS, SUMS, COUNTS.replace("7", "3"))
    for text, (found, _) in zip(queries, started, strict=True):
        assert sorted(found) == streams.expected(text)
    until(lambda: not engines(spark))
    assert not streams.session.metrics()


INNER = "SELECT ISTREAM(k, v) FROM A [RANGE 3] WHERE v < 9"
OUTER = "SELECT ISTREAM(COUNT(*) AS n, MAX(v) AS m) FROM X [RANGE 4]"


@pytest.mark.spark
def test_a_union_has_the_rows_of_both_queries(streams: Streams) -> None:
    sql = streams.session.sql
    assert streams.run(sql(COUNTS).union(sql(SUMS))) == sorted(
        streams.expected(COUNTS) + streams.expected(SUMS)
    )
    counts = sql(COUNTS)
    assert streams.run(counts.union(counts)) == sorted(streams.expected(COUNTS) * 2)


@pytest.mark.spark
def test_a_query_over_a_querys_dataframe_has_its_progress(streams: Streams) -> None:
    """The inner query has no rows any more long before its time ends; the outer one counts them out."""
    inner, session = streams.session.sql(INNER), streams.session
    rows = [(t, {"k": k, "v": v}) for t, k, v in streams.expected(INNER)]
    assert rows[-1][0] + 10 < streams.rows["A"][-1][0]
    wanted = penstock.evaluate(OUTER, {"X": rows}, until=streams.rows["A"][-1][0])
    expected = sorted((ts, *row.values()) for ts, _, row in wanted if ts < streams.rows["A"][-1][0])
    assert expected[-1][1:] == (0, None)
    session.create_stream("X", inner, timestamp="ts")
    assert streams.run(session.sql(OUTER)) == expected
    some = inner.where(inner.v < 100).select("*", (inner.v + 1).alias("w")).drop("w", "k")
    session.create_stream("X", some.withColumnRenamed("ts", "at"), timestamp="at", replace=True)
    assert streams.run(session.sql(OUTER)) == expected


@pytest.mark.spark
def test_a_finite_run_ends_an_inner_query_first(streams: Streams) -> None:
    session = streams.session
    session.sql("SET penstock.at_end = 'complete'")
    session.create_stream("X", session.sql(SUMS), timestamp="ts")
    total = "SELECT ISTREAM(SUM(n) AS s) FROM X [RANGE 2]"
    rows = [(ts, row) for ts, _, row in penstock.evaluate(SUMS, streams.rows)]
    expected = sorted((ts, *row.values()) for ts, _, row in penstock.evaluate(total, {"X": rows}))
    assert expected[-1][0] == streams.rows["A"][-1][0]
    assert streams.run(session.sql(total)) == expected


@pytest.mark.spark
def test_an_inner_query_goes_on_with_its_tables_and_refuses_anothers_state(
    spark: Any, streams: Streams, tmp_path: Path
) -> None:
    session, checkpoint = streams.session, str(tmp_path / "checkpoint")
    inner = "SELECT ISTREAM(k, w) FROM A [NOW], W WHERE A.k = W.id"
    last = tmp_path / "A" / "002.parquet"
    last.rename(tmp_path / "A" / ".later")

    def run(query: str, factor: int) -> list[Any]:
        table = spark.createDataFrame([(k, k * factor) for k in range(3)], "id BIGINT, w BIGINT")
        session.create_table("W", table, replace=True)
        session.create_stream("X", session.sql(query), timestamp="ts", replace=True)
        found, query = streams.start(session.sql("SELECT k, w FROM X"), checkpoint=checkpoint)
        query.awaitTermination()
        return sorted(found)

    assert run(inner, 10) == [(t, t % 3, t % 3 * 10) for t in range(10)]
    (tmp_path / "A" / ".later").rename(last)
    with pytest.raises(CatalogError, match="the checkpoint was written by another query: it has"):
        run(inner.replace("[NOW]", "[RANGE 2]"), 100)
    assert run(inner, 100) == [(t, t % 3, t % 3 * 100) for t in range(10, 15)]


def registry(**readings: EngineId) -> Registry:
    """A registry whose engines have each published one property: their name."""
    published = {
        engine: (1, encode(under("engine", Kind.ENGINE, [Reading(Property.NAME, 1, name)])))
        for name, engine in readings.items()
    }
    return Registry(SimpleNamespace(accumulator=lambda *_: SimpleNamespace(value=published)))  # type: ignore[arg-type]


def shown(found: Registry, run: str | None = None) -> list[tuple[str, int, int, str]]:
    return [(m.query, m.stage, m.partition, m.text) for m in found.latest(run)]


def test_stages_of_two_plans_in_one_query_are_counted_on() -> None:
    inner, outer = new_plan(), new_plan()
    found = registry(
        second=EngineId("q", outer, 0, 0), b=EngineId("q", inner, 1, 0), a=EngineId("q", inner, 0, 0)
    )
    found.begin("q", "run")
    assert shown(found, "run") == [("run", 1, 0, "a"), ("run", 2, 0, "b"), ("run", 3, 0, "second")]


def test_a_run_that_ends_after_the_next_has_begun_ends_no_engine() -> None:
    found = registry(own=EngineId("q", "p", 0, 0), of_a_thread=EngineId("", "p", 0, 1))
    found.begin("q", "first")
    found.started("q", "p")
    assert len(shown(found, "first")) == 2
    found.begin("q", "second")
    assert shown(found) == []  # what the first run published
    assert found.end("q", "first") is None
    found.started("q", "p")
    assert found.end("q", "second") == ["p"]
    assert found.end("q", "second") is None
