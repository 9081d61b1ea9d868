"""What a user is told when something is wrong: one sentence, first and at once."""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, StreamingQueryException

import penstock
from penstock.spark.driver import local_spark
from penstock.spark.driver.failures import told_by_spark, why
from penstock.spark.driver.file_options import check_options
from penstock.spark.driver.jvm import told, watch
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


SPARKS = "pyspark.errors.exceptions.captured"
BATCH = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \\
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. \\
Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/home/me/program.py", line 12, in write
    save(batch)
  File "/home/me/program.py", line 7, in save
    table["missing"]
    ~~~~~^^^^^^^^^^^
{said}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink
"""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("KeyError: 'missing'", "line 7: KeyError: 'missing'"),
        ("ValueError: two\nlines", "line 7: ValueError: two lines"),
        ("KeyboardInterrupt", "line 7: KeyboardInterrupt"),
        (
            "Mine: one\nTraceback (most recent call last):\nthree",
            "line 7: Mine: one Traceback (most recent call last): three",
        ),
        (
            f"{SPARKS}.AnalysisException: [A_B.C] No column `x`. SQLSTATE: 42703; line 1;\n'Project ['x]",
            "line 7: AnalysisException: No column `x`.",
        ),
        (
            f"{SPARKS}.PythonException: An exception was thrown from the Python worker:\nTraceback (most "
            'recent call last):\n  File "/home/me/udf.py", line 3, in f\n    x.y\nTypeError: no',
            "udf.py, line 3: TypeError: no",
        ),
    ],
)
def test_the_users_own_exception_and_line_are_told(said: str, sentence: str) -> None:
    told = why(RuntimeError(BATCH.replace("\\\n", "").replace("{said}", said)))
    assert told.startswith("the function that gets each batch failed at /home/me/") and told.endswith(
        sentence
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "lacks the package for s3a://; add .*hadoop-aws",
        ),
        ('No FileSystem for scheme "foo"', "no file system foo://"),
        ("Destination exists and is not a directory: /a/b", "^/a/b is a file; name a directory$"),
        (
            "Mkdirs failed to create file:/proc/x (exists=false",
            "^/proc/x cannot be written; name a directory",
        ),
        ("/a/.x.new (Permission denied)", "^/a/.x.new cannot be written"),
        (
            "file:///a/1.parquet is not a Parquet file. Expected",
            "^/a/1.parquet is not a Parquet file; put a good",
        ),
        ("Option 'basePath' must be a directory SQLSTATE: XXKST", "is a file; name the directory"),
        ("Python worker failed to connect back.", "the machine is overloaded; stop what else runs"),
        ("[X_Y] It failed.  SQLSTATE: KD001", "^It failed.$"),
    ],
)
def test_what_spark_refuses_is_a_sentence_with_what_to_do(text: str, sentence: str) -> None:
    with (
        pytest.raises(penstock.CatalogError, match=r"^table 't' cannot be read: "),
        told("table 't' cannot be read"),
    ):
        raise PySparkException(text)
    assert re.search(
        sentence, why(RuntimeError(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {text}"))
    )


def test_a_jvm_that_has_ended_is_told_in_a_sentence() -> None:
    """Whatever is asked of it: py4j raises what its sockets do, or returns an error without a word."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    answers: list[Any] = [ConnectionRefusedError(111, "refused"), Py4JNetworkError("gone"), "x", "x", "yv"]

    def send(command: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    client = SimpleNamespace(send_command=send, address="127.0.0.1", port=port)
    for _ in range(2):
        watch(SimpleNamespace(_gateway_client=client))
    for _ in range(2):
        with pytest.raises(
            penstock.PenstockError, match="JVM has ended: .*; start the program again"
        ) as raised:
            client.send_command("c")
        assert isinstance(raised.value, Py4JNetworkError)
    assert client.send_command("c") == "x", "an error of a JVM that answers is py4j's to raise"
    listening.close()
    with pytest.raises(penstock.PenstockError, match="JVM has ended"):
        client.send_command("c")
    assert client.send_command("c") == "yv"


def test_an_exception_that_cannot_be_referred_to_weakly_ends_a_query_as_itself() -> None:
    @told_by_spark
    def batch() -> None:
        open("/nonexistent/file").close()

    with pytest.raises(FileNotFoundError):
        batch()


def test_a_function_that_gets_arrays_is_told_so() -> None:
    """Also where it does not work on single values either; and the whole reason is told, in one line."""

    def total(v: Any) -> Any:
        return sum(v)

    def several(v: Any) -> Any:
        raise ValueError("one\n  two")

    functions = {"total": (total, "INT"), "several": (several, "INT")}
    arrays = (
        r"unsupported operand type\(s\) for \+: 'int' and '.*'; a function gets Arrow arrays .* scalar=True"
    )
    for name, told_so in (("total", arrays), ("several", "ValueError: one two$")):
        with pytest.raises(penstock.PenstockError, match=told_so):
            penstock.evaluate(f"SELECT {name}(v) FROM S [NOW]", {"S": [(1, {"v": 1})]}, functions=functions)


@pytest.mark.spark
def test_a_function_that_fails_on_a_batch_is_told_with_its_line(stream: Session, tmp_path: Path) -> None:
    def failing(batch: Any, number: int) -> None:
        (tmp_path / "none" / str(number)).read_text()

    line = f"{__file__}, line {failing.__code__.co_firstlineno + 1}: FileNotFoundError: "
    stream.create_sink("out", failing, checkpoint=str(tmp_path / "c"))
    stream.sql("INSERT INTO out SELECT k FROM S [RANGE 5]")
    with pytest.raises(penstock.QueryFailed, match="that gets each batch failed at ") as raised:
        stream.query("out").processAllAvailable()
    assert line in str(raised.value) and f"{type(raised.value).__name__}" == "QueryFailed"
    assert line in str(stream.query("out").exception())


@pytest.mark.spark
def test_places_that_are_none_are_told_before_a_query_starts(stream: Session, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("{}")
    query = "SELECT k FROM S [RANGE 5]"
    for place, why_not in ((file, "it is a file"), (file / "x", "file is a file; name a directory")):
        with pytest.raises(
            penstock.CatalogError, match=f"the checkpoint {place} cannot be used: .*{why_not}"
        ):
            started(stream, query, place)
    with pytest.raises(
        penstock.CatalogError, match="stream 'F' cannot be read from .*file: it is a file; name"
    ):
        stream.sql(f"CREATE STREAM F {COLUMNS} FROM JSON '{file}'")
    with pytest.raises(
        penstock.CatalogError, match="'A' cannot be read from s3a://b/x: Spark lacks the package"
    ):
        stream.sql(f"CREATE STREAM A {COLUMNS} FROM PARQUET 's3a://b/x'")
    with pytest.raises(penstock.CatalogError, match="sink 'O' cannot be written: .*Spark lacks the package"):
        stream.sql(f"CREATE SINK O TO PARQUET 's3a://b/x'; INSERT INTO O {query}")
    frame: Any = stream.sql(query)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(penstock.CatalogError, match="the query cannot be started: Spark lacks the package"):
        writer.start("s3a://b/x")
    (tmp_path / "S" / "1.parquet").write_text('{"k": 1, "t": 1}')
    with pytest.raises(
        penstock.QueryFailed, match=f"{tmp_path}/S/1.parquet is not a Parquet file; put a good"
    ):
        started(stream, query, tmp_path / "d").processAllAvailable()


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
    with monkeypatch.context() as active:
        active.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        with pytest.raises(
            penstock.CatalogError, match="a Spark Connect session cannot .*, which is active here"
        ):
            penstock.connect()
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
