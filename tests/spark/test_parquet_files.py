"""Parquet files that go to the packer as Arrow: the same rows as Spark reads, or a sentence why not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import DataError
from penstock.routing import partition_numbers
from penstock.schema import TIMESTAMP
from penstock.spark.driver.exchange import pack
from penstock.spark.map_side import parquet_files
from penstock.spark.map_side.parquet_files import read

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def column(path: Path, kind: pa.DataType, name: str = "a") -> list[Any]:
    """What is read as a column of that type."""
    return [v for batch in read(str(path), (pa.field(name, kind),)) for v in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("there", "declared"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1, None], pa.int8()), pa.int16()),
        (pa.array([1, None], pa.uint32()), pa.int64()),
        (pa.array([1, None], pa.int32()), pa.float64()),
        (pa.array([0.5, None], pa.float32()), pa.float64()),
        (pa.array(["x", None], pa.large_string()), pa.string()),
        (pa.array(["x", None]).dictionary_encode(), pa.string()),
        (pa.array([NOON, None], pa.timestamp("ms", "UTC")), TIMESTAMP),
        (pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")), TIMESTAMP),
    ],
    ids=str,
)
def test_a_type_that_the_declared_one_holds_is_widened(
    tmp_path: Path, there: pa.Array, declared: pa.DataType
) -> None:
    pq.write_table(pa.table({"a": there}), tmp_path / "f")
    got = column(tmp_path / "f", declared)
    assert got == pa.array(there.to_pylist(), declared).to_pylist()


def test_the_stamps_of_old_writers_are_instants(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([NOON], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "f", use_deprecated_int96_timestamps=True)
    assert column(tmp_path / "f", TIMESTAMP) == [NOON]


@pytest.mark.parametrize(
    ("there", "declared"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1], pa.int64()), pa.int32()),
        (pa.array([0.5]), pa.float32()),
        (pa.array([0.5]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([NOON], TIMESTAMP), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
    ],
    ids=str,
)
def test_any_other_type_is_refused_with_the_name_of_the_file(
    tmp_path: Path, there: pa.Array, declared: pa.DataType
) -> None:
    pq.write_table(pa.table({"a": there}), tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"f\.parquet: column 'a' is .*, and the stream declares"):
        column(tmp_path / "f.parquet", declared)


def test_columns_are_found_as_spark_finds_them(tmp_path: Path) -> None:
    part = tmp_path / "day=2026-01-01" / "name=a%2Fb"
    part.mkdir(parents=True)
    pq.write_table(pa.table({"A": [1, 2], "b": [3, 4]}), part / "f")
    assert column(part / "f", pa.int64(), "a") == [1, 2]
    assert column(part / "f", pa.int64(), "c") == [None, None]
    assert column(part / "f", pa.string(), "name") == ["a/b", "a/b"]
    assert column(part / "f", pa.date32(), "day") == [NOON.date(), NOON.date()]
    with pytest.raises(DataError, match="of column 'name', in the path, is not of type BIGINT"):
        column(part / "f", pa.int64(), "name")
    pq.write_table(pa.table({"A": [1], "a": [3]}), part / "f")
    assert column(part / "f", pa.int64(), "a") == [3]
    pq.write_table(pa.table([[1], [3]], ["AA", "aa"]), part / "f")
    with pytest.raises(DataError, match="has the columns AA, aa, which all match 'Aa'"):
        column(part / "f", pa.int64(), "Aa")


def test_files_with_the_old_calendar_are_left_to_spark(tmp_path: Path) -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(table, tmp_path / "f")
    with pytest.raises(DataError, match="calendar of Spark 2"):
        column(tmp_path / "f", pa.int64())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.none() | st.text(max_size=40), max_size=40))
def test_equal_texts_go_to_equal_partitions_and_others_to_all(texts: list[str | None]) -> None:
    keys = pa.array(texts, pa.string())
    numbers = partition_numbers([keys], 1 << 30, len(texts)).tolist()
    assert len(set(numbers)) == len(set(texts))
    by_slice = partition_numbers([keys.slice(len(texts) // 2)], 1 << 30, len(texts) - len(texts) // 2)
    assert by_slice.tolist() == numbers[len(texts) // 2 :]


SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int32()), ("ts", TIMESTAMP)])
DDL = "k STRING, v INT, ts TIMESTAMP"
JOIN = "SELECT ISTREAM ALL(A.k, A.v, B.v AS w) FROM A [RANGE 3 SECONDS], B [RANGE 2 SECONDS] WHERE A.k = B.k"


def write(directory: Path, seconds: range) -> None:
    """Files of one second each, one of them without rows, one with many row groups, one by a hard name."""
    directory.mkdir(parents=True)
    start = int(NOON.timestamp() * 1_000_000)
    for second in seconds:
        count = 0 if second == 3 else 50
        ts = pa.array([start + second * 1_000_000 + i * 20_000 for i in range(count)]).cast(TIMESTAMP)
        keys = [None if i % 9 == 0 else f"key {(i * 7 + second) % 23}" for i in range(count)]
        values = [second * 100 + i for i in range(count)]
        rows = pa.table([pa.array(keys, pa.string()), pa.array(values, pa.int32()), ts], schema=SCHEMA)
        pq.write_table(rows, directory / f"a file, 100% {second}.parquet", row_group_size=7)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in "AB":
        write(tmp_path / name, range(6))
    return tmp_path


def run(spark: Any, root: Path, over: list[str]) -> tuple[list[Any], list[int], bool]:
    """The results over both streams, Spark's count of rows in every batch, and whether Arrow read them."""
    ps = penstock.connect(spark, partitions=2)
    for name in "AB":
        df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(root / name))
        ps.create_stream(name, df.select(*over) if over else df, timestamp="ts")
    try:
        streams = ps._compile(JOIN).stages[0].inputs
        plan = pack(streams, (0, 1))._jdf.queryExecution().analyzed().toString()
        found: list[Any] = []
        df = ps.sql(JOIN)
        assert df is not None
        writer = df.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        return sorted(found, key=str), [p.numInputRows for p in running.recentProgress], "file_path" in plan
    finally:
        ps.close()


@pytest.mark.spark
def test_the_rows_are_those_that_spark_reads(spark: Any, files: Path) -> None:
    ours, counts, direct = run(spark, files, [])
    sparks, counted, not_direct = run(spark, files, ["*"])
    assert direct
    assert not not_direct
    assert len(ours) > 100
    assert ours == sparks
    assert counts == counted
    assert sum(counts) == 500


@pytest.mark.spark
def test_what_spark_reads_in_its_own_way_is_left_to_it(spark: Any, tmp_path: Path) -> None:
    reader = spark.readStream.schema(DDL)
    path = str(tmp_path)
    assert parquet_files.paths(reader.parquet(path)) is not None
    assert parquet_files.paths(reader.option("pathGlobFilter", "*.x").parquet(f"file://{path}")) is not None
    others = [
        reader.parquet(path).where("v > 1"),
        reader.parquet(path).select("k", "ts"),
        reader.csv(path),
        spark.readStream.schema(DDL).option("mergeSchema", "true").parquet(path),
        spark.readStream.schema(DDL).option("ignoreCorruptFiles", "true").parquet(path),
        spark.readStream.format("rate").load(),
    ]
    assert [parquet_files.paths(df) for df in others] == [None] * len(others)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert parquet_files.paths(spark.readStream.schema(DDL).parquet(path)) is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
