"""What a user is told when something is wrong: one sentence, first and at once."""

from __future__ import annotations

import datetime as dt
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import penstock
from penstock.spark.driver import local_spark
from penstock.spark.driver.file_options import check_options
from penstock.spark.driver.session import Session

COLUMNS = "(k BIGINT, t BIGINT) TIMESTAMP BY t"


@pytest.fixture
def stream(session: Session, tmp_path: Path) -> Session:
    """A session with a stream S of four rows."""
    (tmp_path / "S").mkdir()
    pq.write_table(pa.table({"k": [1, 2, 3, 4], "t": [1, 2, 3, 4]}), tmp_path / "S" / "1.parquet")
    session.sql(f"CREATE STREAM S {COLUMNS} FROM PARQUET '{tmp_path}/S'")
    return session


def started(session: Session, query: str, checkpoint: Path) -> Any:
    frame: Any = session.sql(query)
    return frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


@pytest.mark.spark
def test_a_failure_is_a_sentence(stream: Session, tmp_path: Path) -> None:
    def failing(k: Any) -> Any:
        raise ValueError("no")

    stream.create_function("f", failing, "BIGINT")
    query = started(stream, "SELECT k FROM S [RANGE 5] WHERE f(k) > 1 AND k > 0", tmp_path / "c")
    with pytest.raises(StreamingQueryException) as raised:
        query.processAllAvailable()
    assert isinstance(raised.value, penstock.QueryFailed)
    sentence = f"function f failed at {__file__}, line {failing.__code__.co_firstlineno + 1}: ValueError: no"
    assert str(raised.value) == sentence
    assert raised.value.trace.startswith("[STREAM_FAILED]")
    assert str(query.exception()) == sentence
    assert stream.explain(query) == f"the query failed: {sentence}"


@pytest.mark.spark
def test_a_checkpoint_has_one_running_query(stream: Session, tmp_path: Path) -> None:
    first = started(stream, "SELECT k FROM S [RANGE 5]", tmp_path / "c")
    with pytest.raises(penstock.CatalogError, match="in use by the running query .* stop it first"):
        started(stream, "SELECT k FROM S [RANGE 5]", tmp_path / "c")
    first.processAllAvailable()
    assert first.isActive
    first.stop()
    started(stream, "SELECT k FROM S [RANGE 5]", tmp_path / "c").processAllAvailable()


@pytest.mark.spark
def test_options_and_lengths_of_time(session: Session, spark: Any, tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "S").mkdir()
    with pytest.raises(penstock.CatalogError, match="'maxFilePerTrigger'; did you mean 'maxFilesPer"):
        session.sql(f"CREATE STREAM S {COLUMNS} FROM PARQUET '{tmp_path}/S' OPTIONS (maxFilePerTrigger '1')")
    df = spark.readStream.schema("k BIGINT, t TIMESTAMP").option("maxFilePerTrigger", 1)
    session.create_stream("T", df.parquet(f"{tmp_path}/S"), timestamp="t", skew=dt.timedelta(seconds=1.5))
    assert "stream 'T': Spark ignores the option 'maxFilePerTrigger'" in caplog.text
    assert session._catalog["T"].options.skew == 1_500_000


def test_an_option_that_resembles_none_is_reported(caplog: Any) -> None:
    check_options("csv", ["HEADER", "sep", "spark.x"], "table 'T'")
    assert not caplog.text
    check_options("csv", ["colour"], "table 'T'")
    assert "table 'T': CSV has no option 'colour'; Spark ignores it" in caplog.text


@pytest.mark.spark
def test_many_shuffle_partitions(spark: Any, caplog: Any) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", 200)
    with caplog.at_level(logging.WARNING, "penstock"):
        penstock.connect(other).close()
    assert "type penstock.connect(spark, shuffle_partitions=2)" in caplog.messages[0]
    with caplog.at_level(logging.WARNING, "penstock"):
        penstock.connect(other, shuffle_partitions=2).close()
    assert len(caplog.messages) == 1 and other.conf.get("spark.sql.shuffle.partitions") == "2"


def test_another_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(penstock.CatalogError, match="a Spark Connect session cannot run Penstock's engines"):
        penstock.connect(remote)  # type: ignore[arg-type]
    with pytest.raises(penstock.CatalogError, match="connect takes a SparkSession, not 'local'"):
        penstock.connect("local")  # type: ignore[arg-type]
    old = SimpleNamespace(version="3.5.1")
    monkeypatch.setattr(local_spark, "SparkSession", SimpleNamespace)
    with pytest.raises(penstock.CatalogError, match="the session is of Spark 3.5.1, and Penstock runs on"):
        penstock.connect(old)  # type: ignore[arg-type]


@pytest.mark.slow
def test_no_java_is_told_in_a_sentence(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import penstock; penstock.connect()"]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ran = subprocess.run(program, capture_output=True, text=True, env=environment)
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("penstock.errors.EngineError: Spark did not start: ")
    assert last.endswith("install Java 17 or newer, and set JAVA_HOME to it")
