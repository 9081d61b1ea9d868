"""Rows that are hard to swallow and right nevertheless: NaN keys, huge strings, strings that are no UTF-8."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

HUGE = "x" * (10 << 20)
NO_UTF8 = b"\xff\xfe\x80"
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
"""A NaN with other bits than Python's; the two are equal in SQL."""


def write(directory: Path, x: list[float], s: list[Any]) -> Path:
    directory.mkdir()
    strings = pa.array([v.encode() if isinstance(v, str) else v for v in s], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(s), strings.buffers())
    table = pa.table({"x": pa.array(x, pa.float64()), "s": text, "t": pa.array(range(len(x)), pa.int64())})
    pq.write_table(table, directory / "1.parquet", use_dictionary=False)
    return directory


def test_rows_come_out_as_they_went_in(spark: Any, tmp_path: Path) -> None:
    left = write(tmp_path / "L", [float("nan"), 1.0, -0.0, 2.0], ["nan", HUGE, "zero", NO_UTF8])
    right = write(tmp_path / "R", [OTHER_NAN, 1.0, 0.0, 2.0], ["nan", HUGE, "zero", NO_UTF8])
    session = Session(spark, 2)
    for name, place in (("L", left), ("R", right)):
        columns = "x DOUBLE, s STRING, t BIGINT"
        session.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t FROM PARQUET '{place}'")
    found: dict[str, list[Any]] = {}
    for key in ("x", "s"):
        df = session.sql(f"SELECT ISTREAM ALL(L.s) FROM L [RANGE 9], R [RANGE 9] WHERE L.{key} = R.{key}")
        rows: list[Any] = []
        shown = df.selectExpr("length(s) AS n", "md5(CAST(s AS BINARY)) AS sum")
        writer = shown.writeStream.foreachBatch(lambda batch, _, rows=rows: rows.extend(batch.collect()))
        writer.trigger(availableNow=True).start().awaitTermination()
        found[key] = sorted((r.n, r.sum) for r in rows)
    session.close()
    assert len(found["x"]) == 4
    assert found["x"] == found["s"]
    assert (len(HUGE), spark.sql(f"SELECT md5(repeat('x', {len(HUGE)})) AS sum").first().sum) in found["x"]
