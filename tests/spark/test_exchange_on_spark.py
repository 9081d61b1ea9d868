"""Exchanges through all of Spark: the oracle's answers; sources are as they are declared, or refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bundle import run
from exchange_data import SCHEMA, data
from local_host import Manner
from longer import sized
from pyspark.sql import DataFrame
from strategies import Case

import penstock

pytestmark = pytest.mark.spark

QUERIES = {
    "a cube": "SELECT R.a, T.b FROM R [RANGE 5], S [RANGE 5], T [RANGE 5] WHERE R.a = S.a AND S.b = T.b",
    "places, by text": "SELECT R.a, S.b FROM R [ROWS 4], S [ROWS 3 SLIDE 2] WHERE R.c = S.c",
    "by row": "SELECT COUNT(*), SUM(R.b) FROM R [RANGE 3], S [RANGE 3] WHERE R.b <= S.b",
    "set operation": "SELECT a, c FROM R [RANGE 5] EXCEPT SELECT a, c FROM S [RANGE 4]",
    "band": "SELECT R.a, S.b FROM R [RANGE 5], S [RANGE 5] WHERE R.b BETWEEN S.b - 1 AND S.b + 1",
    "relation": "SELECT COUNT(*) FROM Q WHERE a NOT IN (SELECT b FROM S [RANGE 3])",
}


def test_the_answer_is_the_oracles_on_spark(spark: Any, tmp_path: Path) -> None:
    inputs = data(5)
    schemas = dict.fromkeys(inputs, SCHEMA)
    cases = [Case(query, inputs, schemas, 20) for query in list(QUERIES.values())[:: sized(2, 1)]]
    with closing(penstock.connect(spark)):
        found = run(cases, spark, tmp_path, [Manner(4, (0.5,))] * len(cases))
    for case, got in zip(cases, found, strict=True):
        oracle.assert_same(got, oracle.evaluate(case.cql, inputs, schemas, until=20), case.cql)


def write(directory: Path, number: int, keys: list[int]) -> None:
    """A file of rows (k, v, t), of which t goes on."""
    directory.mkdir(exist_ok=True)
    rows = {"k": keys, "v": keys, "t": [10 * number + i for i in range(len(keys))]}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in rows.items()})
    pq.write_table(table, directory / f"{number:03}.parquet")


def results(spark: Any, tmp_path: Path, declared: str, query: str) -> tuple[list[Any], list[Any]]:
    """The rows of a query over R and S, and how rows came to the partitions."""
    ps = penstock.connect(spark, partitions=2)
    for name in "RS":
        source = f"TIMESTAMP BY t SKEW 1000 {declared} FROM PARQUET '{tmp_path / name}'"
        ps.sql(f"CREATE STREAM {name} (k BIGINT, v BIGINT, t BIGINT) {source}")
    df = ps.sql(query)
    assert df is not None
    found: list[Any] = []
    skew: list[Any] = []

    def note(batch: DataFrame, _: int) -> None:
        found.extend(batch.collect())
        skew[:] = ps.skew()  # engines end with their query

    writer = df.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writer.trigger(availableNow=True).start()
    try:
        running.awaitTermination()
        return found, skew
    finally:
        ps.close()


JOIN = "SELECT ISTREAM ALL(R.k, R.v, S.v AS sv) FROM R, S WHERE R.k = S.k"


def test_the_advice_on_heavy_keys_splits_them(spark: Any, tmp_path: Path, caplog: Any) -> None:
    write(tmp_path / "R", 0, [1] * 90 + list(range(10)))
    write(tmp_path / "S", 0, [1, 2, 3])
    plain, before = results(spark, tmp_path, "", JOIN)
    uneven = next(s for s in before if s.input == "R")
    assert "declare the stream with HEAVY k IN (1)" in caplog.text
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    split, after = results(spark, tmp_path, uneven.declare, JOIN)
    assert len(plain) == 93
    assert sorted(plain) == sorted(split)
    even = next(s for s in after if s.input == "R")
    assert uneven.busiest > 1.7
    assert list(uneven.heavy) == ["1"]
    assert even.busiest < 1.4
    assert not even.declare


def test_partitioned_sources_on_spark(spark: Any, tmp_path: Path) -> None:
    for name in "RS":
        write(tmp_path / name, 0, [1, 3, 5])
    found, _ = results(spark, tmp_path, "PARTITIONED BY (k)", JOIN)
    assert sorted(r.k for r in found) == [1, 3, 5]


def test_sources_that_are_not_partitioned_as_declared_are_refused(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        for name in "RS":
            write(tmp_path / name, number, [1, 3, 5] * 2000)
    with pytest.raises(Exception, match="declared PARTITIONED BY"):
        results(spark, tmp_path, "PARTITIONED BY (k)", "SELECT k, COUNT(*) AS n FROM R GROUP BY k")
