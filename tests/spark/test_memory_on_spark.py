"""Budgets of memory through Spark: the same rows are kept as without it, and queries share a memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.measurement import Property
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

JOIN = "FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"
INPUTS = {n: [(t // 8, {"k": t % 13, n.lower(): float(t % 9)}) for t in range(800)] for n in "AB"}


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    session = penstock.connect(spark)
    yield session
    session.close()


def test_the_same_rows_are_kept_as_without_spark(spark: Any) -> None:
    text = f"SELECT ISTREAM ALL(A.a, B.b) {JOIN} WITHIN MEMORY 90 ROWS MAXIMIZE RESULTS"
    engine, on_spark = (
        penstock.evaluate(text, INPUTS, on=on, partitions=2, batches=2) for on in ("engine", "spark")
    )
    assert 0 < len(engine)
    assert sorted(map(str, engine)) == sorted(map(str, on_spark))


def test_estimates_are_the_same_as_without_spark(spark: Any) -> None:
    text = f"SELECT RSTREAM(SUM(A.a) AS s, AVG(B.b) AS m) {JOIN} WITHIN MEMORY 90 ROWS SAMPLE CLUSTER"
    runs = [
        penstock.evaluate(text, INPUTS, on=on, partitions=2, batches=2, until=90)
        for on in ("engine", "spark")
    ]
    for (t, _, row), (at, _, other) in zip(*runs, strict=True):
        assert (t, row) == (at, pytest.approx(other))


def test_queries_share_the_memory_of_a_session(session: Session, tmp_path: Path) -> None:
    for name, rows in INPUTS.items():
        (tmp_path / name).mkdir()
        for part in range(4):
            some = [{"t": t, **row} for t, row in rows[part * 200 : part * 200 + 200]]
            pq.write_table(pa.Table.from_pylist(some), tmp_path / name / f"{part}.parquet")
        columns = f"k BIGINT, {name} DOUBLE, t BIGINT"
        session.sql(
            f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t IN SECONDS "
            f"FROM PARQUET '{tmp_path / name}' OPTIONS (maxFilesPerTrigger = 1)"
        )
    session.sql("SET penstock.memory = '24 KB'")
    queries = []
    for weight in (1, 3):
        session.sql(f"SET penstock.weight = {weight}")
        df = session.sql(f"SELECT ISTREAM ALL(A.a, B.b) {JOIN} MAXIMIZE RESULTS")
        queries.append(df.writeStream.format("noop").start())
    try:
        for query in queries:
            query.processAllAvailable()
        found = session.metrics()
    finally:
        for query in queries:
            query.stop()
    assert {m.value for m in found.of(Property.WEIGHT)} == {1.0, 3.0}
    assert {m.value for m in found.of(Property.SHARED_MEMORY)} == {24 << 10}
