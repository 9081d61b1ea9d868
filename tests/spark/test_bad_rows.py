"""Bad rows are named: the file, the line, the column and the value; they are never silent NULLs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.spark.driver.file_columns import check_columns
from penstock.spark.driver.session import Session
from penstock.spark.map_side.bad_rows import with_line

COLUMNS = "t BIGINT, k BIGINT, s STRING"
FILES = {
    "json": '{"t": 1, "k": 5, "s": "a"}\n{"t": 2, "k": "x", "s": "b"}\n{"k": 9}\n',
    "csv": "t,k,s\n1,5,a\n2,x,b\n,9,c\n4,4\n",
}


def declare(session: Session, directory: Path, format_: str, policy: str = "") -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"1.{format_}").write_text(FILES[format_])
    options = "OPTIONS (header 'true')" if format_ == "csv" else ""
    declared = f"CREATE STREAM {format_} ({COLUMNS}) TIMESTAMP BY t {policy}"
    session.sql(f"{declared} FROM {format_} '{directory}' {options}")


def run(session: Session, query: str) -> tuple[list[Any], Any]:
    rows: list[Any] = []
    frame: Any = session.sql(query)
    writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    started = writer.trigger(availableNow=True).start()
    started.awaitTermination()
    return rows, started


@pytest.mark.spark
@pytest.mark.parametrize(("format_", "line"), [("json", 2), ("csv", 3)])
def test_a_value_of_another_type(session: Session, tmp_path: Path, format_: str, line: int) -> None:
    declare(session, tmp_path / "d", format_)
    with pytest.raises(penstock.QueryFailed) as raised:
        run(session, f"SELECT s FROM {format_}")
    place = f"{tmp_path}/d/1.{format_}, line {line}"
    assert str(raised.value) == (
        f"stream '{format_}': {place}: column 'k' is 'x', not a BIGINT; correct it, or declare the stream ON "
        "BAD ROWS COUNT to leave such rows out"
    )


@pytest.mark.spark
def test_bad_rows_are_counted_and_one_is_named(session: Session, tmp_path: Path) -> None:
    for format_ in FILES:
        declare(session, tmp_path / format_, format_, "ON BAD ROWS COUNT")
    rows, query = run(session, "SELECT J.s FROM json AS J UNION ALL SELECT C.s FROM csv AS C")
    assert sorted(r.s for r in rows) == ["a", "a"]
    found = query.lastProgress["observedMetrics"]
    assert (found["penstock.json"]["bad_rows"], found["penstock.csv"]["bad_rows"]) == (2, 3)
    assert "1.json, row" in found["penstock.json"]["bad_row"]


@pytest.mark.spark
def test_rows_without_a_time(session: Session, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    pq.write_table(pa.table({"t": [1, 2, None], "k": [4, 5, 6]}), tmp_path / "P" / "1.parquet")
    session.sql(f"CREATE STREAM P (t BIGINT, k BIGINT) TIMESTAMP BY t FROM PARQUET '{tmp_path}/P'")
    with pytest.raises(penstock.QueryFailed, match="stream 'P': .*1.parquet, row 3: column 't' is NULL"):
        run(session, "SELECT k FROM P")
    df = spark.readStream.schema("t BIGINT, k BIGINT").parquet(str(tmp_path / "P")).where("k > 4")
    session.create_stream("Q", df, timestamp="t")
    with pytest.raises(penstock.QueryFailed, match="1 of 2 rows .* the first of them is k = 6; correct"):
        run(session, "SELECT k FROM Q")


@pytest.mark.spark
def test_bad_rows_of_a_table(session: Session, tmp_path: Path) -> None:
    (tmp_path / "T.csv").write_text("1,5\n2,x\n")
    declare(session, tmp_path / "d", "json", "ON BAD ROWS COUNT")
    session.sql(f"CREATE TABLE T (t BIGINT, k BIGINT) FROM CSV '{tmp_path}/T.csv'")
    with pytest.raises(penstock.DataError, match="'T' cannot be read: .*T.csv, line 2: column 'k' is 'x'"):
        session.sql("SELECT J.s FROM json AS J, T WHERE J.k = T.k")


def test_a_column_that_no_file_has(tmp_path: Path, caplog: Any) -> None:
    pq.write_table(pa.table({"user_id": [1], "ts": [1]}), tmp_path / "1.parquet")
    (tmp_path / "1.csv").write_text("user_id;ts\n1;1\n")
    (tmp_path / "1.json").write_text('{"user_id": 1}\n{"ts": 1}\n')
    for format_, options in (("parquet", {}), ("csv", {"header": "true", "sep": ";"}), ("json", {})):
        place = str(tmp_path / f"1.{format_}")
        check_columns(format_, place, ["USER_ID", "ts"], options, "stream 'S'")
        with pytest.raises(penstock.CatalogError, match="no file in .* 'userid'; did you mean 'user_id'?"):
            check_columns(format_, place, ["userid", "ts"], options, "stream 'S'")
    with pytest.raises(penstock.CatalogError, match="has a column 'x'; they have user_id, ts"):
        check_columns("parquet", str(tmp_path / "1.parquet"), ["user_id", "ts", "x"], {}, "stream 'S'")
    check_columns("json", str(tmp_path / "1.json"), ["user_id", "ts", "x"], {}, "stream 'S'")
    assert "has a column 'x' yet; it is NULL" in caplog.text
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "day=1" / "2.parquet")
    check_columns("parquet", str(tmp_path / "day=1"), ["ts", "day"], {}, "stream 'S'")
    check_columns("csv", str(tmp_path), ["a"], {}, "stream 'S'")
    check_columns("parquet", "s3://bucket/x", ["a"], {}, "stream 'S'")
    check_columns("parquet", str(tmp_path / "none"), ["a"], {}, "stream 'S'")


def test_lines_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_text('{"k": 1}\n{"k":  7}\n')
    told = f"stream 'S': file:{tmp_path}/a%20b.json, row {{row}}: column 't' is NULL; correct it"
    for row in ('{"k":  7}', '{"k":7}'):
        found = with_line(told.format(row=row))
        assert found == f"stream 'S': {file}, line 2: column 't' is NULL; correct it"
    assert with_line(told.format(row="{}")) == f"stream 'S': {file}, row {{}}: column 't' is NULL; correct it"
    gone = told.format(row="x").replace("a%20b", "gone")
    assert with_line(gone) == gone
