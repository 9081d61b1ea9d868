"""Late rows are counted, and can be read as a stream of their own."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import cql
from penstock.catalog import Input, InputOptions
from penstock.engine.engine import Engine
from penstock.engine.stage import SIGN, TS, Arrival
from penstock.errors import CatalogError, EngineError
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.plan.physical import PlannedStage
from penstock.schema import TIMESTAMP, TIMESTAMP_TIME, TimeDomain
from penstock.spark.driver.dataframe import late_rows

ROW = pa.schema([("k", pa.int64()), ("v", pa.string()), ("t", pa.int64())])
SECONDS = TimeDomain("integer", "seconds")


def planned(query: str, **streams: Any) -> PlannedStage:
    (stage,) = compile(cql.bind(query, streams), 1).stages
    return stage


def arrival(name: str, **columns: Any) -> Arrival:
    batch = pa.RecordBatch.from_pydict(columns)
    stamps = batch.column(TS).to_pylist()
    return Arrival(name, 0, batch, min(stamps), max(stamps))


def test_a_step_gives_its_late_rows_back() -> None:
    stage = planned("SELECT k FROM S [RANGE 5]", S=Input("S", ROW, InputOptions(timestamp="t", skew=2))).stage
    engine = Engine(stage)
    assert engine.step([arrival("S", **{TS: [10, 20], "S.k": [1, 2]})]).only.late == {}
    out = engine.step([arrival("S", **{TS: [17, 30, 18, 5], "S.k": [3, 4, 5, 6]})])
    late = out.only.late["S"]
    assert (late.column(TS).to_pylist(), late.column("S.k").to_pylist()) == ([17, 5], [3, 6])
    assert measured(engine.measure()).of_kind(Kind.INPUT).by_name(Property.LATE) == {"S": 2}
    assert engine.step([arrival("S", **{TS: [40], "S.k": [1]})]).only.late == {}


def test_a_row_that_several_partitions_get_is_late_in_one() -> None:
    stage = planned("SELECT k FROM S [RANGE 5]", S=Input("S", ROW, InputOptions(timestamp="t"))).stage
    engine = Engine(stage)
    engine.step([arrival("S", **{TS: [10], "S.k": [1]})])
    copied = replace(arrival("S", **{TS: [5], "S.k": [3]}), copy=True)
    out = engine.step([copied])
    assert out.only.late["S"].num_rows == 0
    assert measured(engine.measure()).of_kind(Kind.INPUT).by_name(Property.LATE) == {"S": 0}


def test_files_have_the_declared_names_and_types(tmp_path: Path) -> None:
    time = pa.schema([("k", pa.int64()), ("v", pa.string()), ("at", TIMESTAMP)])
    stream = Input("S", time, InputOptions(TIMESTAMP_TIME, "at"))
    stage = planned("SELECT x.k FROM S [RANGE 5] AS x", S=stream)
    late = pa.RecordBatch.from_pydict({TS: [1_000_000], SIGN: pa.array([1], pa.int8()), "x.k": [7]})
    found = late_rows(str(tmp_path), stage)
    assert found is not None
    for _ in range(2):  # a step that is taken again
        found.write({"x": late}, "query-s0p0v3")
    (file,) = (tmp_path / "S").iterdir()
    assert file.name == "query-s0p0v3-i0.parquet"
    table = pq.read_table(file)
    assert table.schema.names == ["k", "at"]
    assert table.column("at").cast(pa.int64()).to_pylist() == [1_000_000]


def test_changes_of_a_relation(tmp_path: Path) -> None:
    own = pa.schema([("k", pa.int64())])
    options = InputOptions(timestamp="t", change="op")
    stage = planned("SELECT k FROM R", R=Input("R", own, options, "relation"))
    late = pa.RecordBatch.from_pydict({TS: [4, 5], SIGN: pa.array([1, -1], pa.int8()), "R.k": [7, 8]})
    found = late_rows(str(tmp_path), stage)
    assert found is not None
    found.write({"R": late}, "step")
    (file,) = (tmp_path / "R").iterdir()
    rows = [{"k": 7, "t": 4, "op": "+"}, {"k": 8, "t": 5, "op": "-"}]
    assert pq.read_table(file).to_pylist() == rows


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    stage = planned("SELECT k FROM S [RANGE 5]", S=Input("S", ROW, InputOptions(timestamp="t")))
    found = late_rows(str(tmp_path), stage)
    assert found is not None
    (tmp_path / "S" / ".step-i0.parquet").mkdir(parents=True)
    late = pa.RecordBatch.from_pydict({TS: [4], SIGN: pa.array([1], pa.int8()), "S.k": [7]})
    with pytest.raises(EngineError, match="late rows of stream 'S' cannot be written to"):
        found.write({"S": late}, "step")


@pytest.mark.spark
def test_late_rows_are_a_stream(spark: Any, tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    files = [[(10, 1), (20, 2)], [(17, 3), (30, 4), (18, 5), (5, 6)], [(29, 7), (3, 8)]]
    (tmp_path / "S").mkdir()
    for n, rows in enumerate(files):
        table = {"k": [k for _, k in rows], "v": ["x"] * len(rows), "t": [t for t, _ in rows]}
        path = tmp_path / "S" / f"{n}.parquet"
        pq.write_table(pa.table(table, schema=ROW), path)
        os.utime(path, (n, n))  # Spark takes older files first
    session = penstock.connect(spark)
    session.sql(
        f"CREATE STREAM S (k BIGINT, v STRING, t BIGINT) TIMESTAMP BY t SKEW 2 FROM PARQUET '{tmp_path}/S' "
        f"OPTIONS (maxFilesPerTrigger '1'); SET penstock.late_rows = 'late'"
    )

    def run(df: Any) -> tuple[list[Any], Any]:
        rows: list[Any] = []
        writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return rows, query

    late = session.late_rows("s")
    queries = [run(session.sql(f"SELECT k FROM S [RANGE {n}]"))[1] for n in (5, 6)]
    found = [run(df)[0] for df in (late, session.late_rows("S", queries[1]))]
    session.close()
    for progress in (queries[0].lastProgress, queries[0].recentProgress[-1]):
        assert progress["observedMetrics"]["penstock.late_rows"]["S"] == 3
    # It is said when it is seen first, and at the end if there were more.
    told = re.findall(r"(\d) rows? of 'S' came too late and w[a-z]+ left out", caplog.text)
    assert 2 <= len(told) <= 4 and told[-1] == "3"
    assert "read such rows by ps.late_rows('S')" in caplog.text
    expected = [(3, None, 17), (6, None, 5), (8, None, 3)]
    assert sorted((r.k, r.v, r.t) for r in found[0]) == sorted(2 * expected)
    assert sorted((r.k, r.v, r.t) for r in found[1]) == expected


@pytest.mark.spark
def test_wrong_uses(spark: Any) -> None:
    session = penstock.connect(spark)
    session.create_stream("S", spark.readStream.format("rate").load(), timestamp="timestamp")
    with pytest.raises(CatalogError, match="late rows are only counted; SET penstock.late_rows"):
        session.late_rows("S")
    with pytest.raises(CatalogError, match="unknown stream 'T'"):
        session.late_rows("T")
    session.close()
