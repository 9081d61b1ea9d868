"""Rows of equal timestamps on Spark: their order is the source's, whatever the batches and partitions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mock_kafka import mock_kafka

import penstock
from penstock.spark.driver.session import Session


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    session = penstock.connect(spark, partitions=2)
    yield session
    session.close()


def write(directory: Path, kind: str) -> None:
    """Files whose order by time and name is neither that of their names nor that of their times alone."""
    directory.mkdir(exist_ok=True)
    for number, (name, time) in enumerate((("e", 1), ("d", 2), ("c", 2), ("b", 3))):
        rows = [{"ts": 5 + (name == "b"), "k": v % 2, "v": 10 * number + v} for v in (3, 1, 2)]
        path = directory / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (time, time))


def instant(df: Any, tmp_path: Path) -> set[tuple[Any, ...]]:
    """The rows of the relation at the instant 5."""
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert all(ts == 5 and op == "+" for ts, op, *_ in rows), rows
    return {tuple(row) for _, _, *row in rows}


@pytest.mark.parametrize(
    ("kind", "query", "shown"),
    [
        ("json", "SELECT k, v FROM S [PARTITION BY k ROWS 1] WHERE v > 1", {(1, 11), (0, 12)}),
        ("parquet", "SELECT S.v, T.w FROM S [ROWS 2], T [RANGE 10] WHERE S.k = T.k", {(11, 1), (12, 0)}),
    ],
)
def test_rows_of_files_are_in_the_order_of_time_name_and_place(
    session: Session, tmp_path: Path, kind: str, query: str, shown: set[Any]
) -> None:
    write(tmp_path / "S", kind)
    (tmp_path / "T").mkdir()
    pq.write_table(pa.table({"ts": [4, 4, 6], "k": [0, 1, 2], "w": [0, 1, 2]}), tmp_path / "T" / "t.parquet")
    session.sql(
        f"CREATE STREAM T (ts BIGINT, k BIGINT, w BIGINT) TIMESTAMP BY ts FROM PARQUET '{tmp_path}/T'"
    )
    for files in (1, 4):
        session.sql(
            f"CREATE OR REPLACE STREAM S (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts "
            f"FROM {kind.upper()} '{tmp_path}/S' OPTIONS (maxFilesPerTrigger '{files}')"
        )
        # File d is of the time of c, and comes after it.
        assert instant(session.sql(query), tmp_path / str(files)) == shown


def test_rows_that_were_shuffled_are_in_the_order_of_their_values(
    spark: Any, session: Session, tmp_path: Path
) -> None:
    write(tmp_path / "S", "parquet")
    for files in (1, 4):
        reader = spark.readStream.schema("ts BIGINT, k BIGINT, v BIGINT").option("maxFilesPerTrigger", files)
        name = f"U{files}"
        session.create_stream(name, reader.parquet(f"{tmp_path}/S").repartition(3), timestamp="ts")
        shown = instant(session.sql(f"SELECT k FROM {name} [ROWS 4]"), tmp_path / str(files))
        # The rows with the largest k, and of these with the largest v, which is not selected.
        assert shown == {(1,)}
        assert instant(session.sql(f"SELECT v FROM {name} [ROWS 1]"), tmp_path / f"v{files}") == {(23,)}


def test_messages_are_in_the_order_of_partition_and_offset(session: Session, tmp_path: Path) -> None:
    with mock_kafka() as cluster:
        for partition in (1, 0):
            values = [{"ts": 5, "v": 10 * partition + v} for v in (9, 1, 2)]
            cluster.send("ties", [json.dumps(value).encode() for value in values], partition=partition)
        session.sql("SET penstock.at_end = 'complete'")
        for most in (2, 100):
            options = cluster.options(maxOffsetsPerTrigger=most)
            session.sql(
                "CREATE OR REPLACE STREAM K (ts BIGINT, v BIGINT) TIMESTAMP BY ts "
                f"FROM KAFKA 'ties' {options}"
            )
            assert instant(session.sql("SELECT v FROM K [ROWS 2]"), tmp_path / str(most)) == {(11,), (12,)}
