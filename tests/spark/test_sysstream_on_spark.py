"""SysStream on Spark: published while a query reads it, read like any stream, and never feeding itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    ps = penstock.connect(spark, partitions=2)
    for name in ("R", "S"):
        (tmp_path / name).mkdir()
        ps.sql(f"CREATE STREAM {name} (t INT, a INT) TIMESTAMP BY t FROM PARQUET '{tmp_path / name}'")
    ps.sql(f"SET penstock.sysstream = '{tmp_path / 'sys'}'; SET penstock.sysstream_every = '0 seconds'")
    yield ps
    for query in spark.streams.active:
        query.stop()
    ps.close()


def add(directory: Path, batch: int, matches: int) -> None:
    """A batch of ten rows of R, and of S as many that join one of them each, and others."""
    for name, keys in (("R", range(10)), ("S", [*range(matches), *range(100, 110 - matches)])):
        own = pa.table({"t": pa.array([batch] * 10, pa.int32()), "a": pa.array([*keys], pa.int32())})
        pq.write_table(own, directory / name / f"{batch}.parquet")


def settled(spark: SparkSession) -> None:
    """Wait until Spark has told of all batches."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)


def rows_of(spark: SparkSession, name: str) -> list[Any]:
    return [tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()]


def selectivity(files: list[Path]) -> float:
    """The average over all publications."""
    rows = [row for f in files for row in pq.read_table(f).to_pylist()]
    joins = [row for row in rows if row["entity"].startswith("binary-join.")]
    values = [row["value"] for row in joins if row["property"] == "selectivity"]
    return float(sum(values) / len(values))


def test_a_query_over_a_running_join(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    published = tmp_path / "sys"
    join = "SELECT ISTREAM ALL(R.a, R.t) FROM R [NOW], S [NOW] WHERE R.a = S.a"
    session.sql(f"CREATE SINK joined TO NOOP; INSERT INTO joined {join}")
    add(tmp_path, 1, 10)
    session.query("joined").processAllAvailable()
    settled(spark)
    assert not published.exists(), "nobody reads it"
    session.sql(
        "CREATE SINK watch TO MEMORY; INSERT INTO watch SELECT query, AVG(value) AS selectivity "
        "FROM SysStream [RANGE 1 HOUR] WHERE property = 'selectivity' AND entity LIKE 'binary-join.%' "
        "GROUP BY query;"
        "CREATE SINK whole TO MEMORY; INSERT INTO whole SELECT ISTREAM(query, entity, property, value, text) "
        "FROM SysStream [NOW] WHERE kind = 'query'"
    )
    for batch, matches in ((2, 5), (3, 0)):
        add(tmp_path, batch, matches)
        session.query("joined").processAllAvailable()
        settled(spark)
    session.query("joined").stop()
    settled(spark)
    files = sorted(published.glob("*.parquet"))
    for name in ("watch", "whole"):
        session.query(name).processAllAvailable()
    settled(spark)
    assert sorted(published.glob("*.parquet")) == files, "readers alone publish nothing"
    assert len(files) >= 3
    last = [row for row in rows_of(spark, "watch") if row[1] == "+"][-1]
    assert last[2] == "joined" and last[3] == pytest.approx(selectivity(files)) and 0 < last[3] < 0.5
    told = {(row[1], row[3], row[5]) for row in rows_of(spark, "whole")}
    assert {("joined", "batch_seconds", ""), ("joined", "latency", "p99"), ("joined", "ended", "")} <= told
    found = pa.concat_tables(pq.read_table(f) for f in files)
    assert set(found["partition"].to_pylist()) == {0, 1} and set(found["query"].to_pylist()) == {"joined"}
    read = [r["kind"] == "query" or r["property"] == "selectivity" for r in found.to_pylist()]
    assert all(read), "only what the two queries read"
