"""CREATE SINK and INSERT INTO: what reaches the sink, from which checkpoint, and how its query stops."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from mock_kafka import mock_kafka
from pyspark.sql import SparkSession

import penstock
from penstock import CatalogError, DataError
from penstock.spark.driver.query import stop_after_batch
from penstock.spark.driver.session import Session
from penstock.spark.map_side.kafka_writer import KafkaWriter, Topic, messages

STREAM = "CREATE STREAM S (ts BIGINT, a BIGINT) TIMESTAMP BY ts FROM PARQUET '{}'"
COUNTS = "SELECT a, COUNT(*) AS n FROM S [RANGE 10] GROUP BY a"


def add(directory: Path, name: str, ts: list[int], a: list[int]) -> None:
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.table({"ts": ts, "a": a}), directory / f"{name}.parquet")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    ps = penstock.connect(spark, partitions=1)
    add(tmp_path / "in", "1", [1, 2, 3], [7, 7, 8])
    ps.sql(STREAM.format(tmp_path / "in"))
    yield ps
    for query in spark.streams.active:
        query.stop()
    ps.close()


@pytest.mark.spark
def test_files_continue_from_the_checkpoint_of_their_sink(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"SET penstock.checkpoint = '{tmp_path / 'state'}'; SET penstock.trigger = available-now;"
        f"CREATE SINK Out TO PARQUET '{tmp_path / 'out'}' PARTITIONED BY (a) OPTIONS (compression 'zstd')"
    )
    insert = "INSERT INTO out SELECT ISTREAM(a, ts AS at) FROM S [NOW]"
    assert session.sql(insert) is None
    query = session.query("OUT")
    query.awaitTermination()
    assert query.name == "Out" and (tmp_path / "state" / "Out" / "commits").is_dir()
    add(tmp_path / "in", "2", [4], [8])
    session.sql(insert)
    session.query("out").awaitTermination()
    files = list((tmp_path / "out").glob("a=*/*.zstd.parquet"))
    rows = [(int(f.parent.name[2:]), at) for f in files for at in pq.ParquetFile(f).read()["at"].to_pylist()]
    assert sorted(rows) == [(7, 1), (7, 2), (8, 3), (8, 4)]
    shown = session.sql("SHOW SINKS")
    assert shown is not None
    assert [tuple(r) for r in shown.collect()] == [
        ("Out", f"TO PARQUET '{tmp_path / 'out'}' PARTITIONED BY (a)")
    ]


@pytest.mark.spark
def test_memory_functions_and_one_query_per_sink(session: Session, spark: SparkSession) -> None:
    found: list[tuple[int, list[tuple[Any, ...]]]] = []
    session.create_sink("calls", lambda df, number: found.append((number, [tuple(r) for r in df.collect()])))
    session.sql(f"CREATE SINK counts TO MEMORY; INSERT INTO counts {COUNTS}; INSERT INTO calls {COUNTS}")
    for name in ("counts", "calls"):
        session.query(name).processAllAvailable()
    counts = [tuple(r) for r in spark.sql("SELECT * FROM counts").collect()]
    assert counts == [row for _, rows in found for row in rows]
    assert {(1, "+", 7, 1), (2, "-", 7, 1), (2, "+", 7, 2)} <= set(counts)
    with pytest.raises(CatalogError, match="a query writes to sink 'counts'; stop it first"):
        session.sql(f"INSERT INTO counts {COUNTS}")
    assert stop_after_batch([session.query("counts"), session.query("calls")], 30)
    assert not spark.streams.active and session.query("calls").exception() is None
    session.sql("DROP SINK counts; CREATE SINK other TO nonsense TRIGGER AVAILABLE NOW")
    with pytest.raises(CatalogError, match="sink 'other' cannot be written: Spark has no such format; check"):
        session.sql(f"INSERT INTO other {COUNTS}")
    with pytest.raises(
        CatalogError, match="no query writes to a sink 'other'; sinks with a query: counts, c"
    ):
        session.query("other")


@pytest.mark.spark
def test_a_query_stops_after_its_batch(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    """A batch that takes long when the stop comes is committed, and no further one begins."""
    begun: list[int] = []
    session.create_sink("slow", lambda df, number: (begun.append(number), df.count(), wait_for_stop())[0])  # type: ignore[func-returns-value]
    stopping = tmp_path / "stopping"

    def wait_for_stop() -> None:
        while not stopping.exists():
            pass

    session.sql(f"SET penstock.checkpoint = '{tmp_path / 'state'}'; INSERT INTO slow {COUNTS}")
    query = session.query("slow")
    while not begun:
        assert query.exception() is None
    add(tmp_path / "in", "2", [4], [8])

    def at_once() -> bool:
        stopping.touch()
        return False

    assert stop_after_batch([query], 60, at_once)
    assert begun == [0] and query.exception() is None
    assert [p.name for p in (tmp_path / "state" / "slow" / "commits").glob("[0-9]*")] == ["0"]


def test_rows_as_messages() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"k": ["x", None], "n": [1, 2], "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None],
         "d": [Decimal("1.50"), None], "b": [b"\x00", None]}
    )  # fmt: skip
    full, empty = messages(rows, ("K",))
    assert full == (b"x", b'{"k":"x","n":1,"at":"2026-01-01T00:00:00+00:00","d":"1.50","b":"AA=="}')
    assert empty == (b"null", b'{"k":null,"n":2,"at":null,"d":null,"b":null}')
    assert [key for key, _ in messages(rows, ("n", "k"))] == [b'[1,"x"]', b"[2,null]"]
    assert [key for key, _ in messages(rows, ())] == [None, None]


def consumed(servers: str, topic: str, rows: int) -> list[tuple[int, bytes, Any]]:
    """Partition, key and row of the messages of a topic."""
    own = {"bootstrap.servers": servers, "group.id": "t", "auto.offset.reset": "earliest"}
    consumer = Consumer(own)
    consumer.subscribe([topic])
    found: list[tuple[int, bytes, Any]] = []
    deadline = time.monotonic() + 60
    while len(found) < rows and time.monotonic() < deadline:
        found += [(m.partition(), m.key(), json.loads(m.value())) for m in consumer.consume(rows, 1)]
    consumer.close()
    return found


@pytest.mark.spark
def test_a_query_writes_to_kafka(session: Session, tmp_path: Path) -> None:
    with mock_kafka() as cluster:
        options = f"OPTIONS (kafka.bootstrap.servers '{cluster.servers}')"
        session.sql(f"CREATE SINK t TO KAFKA 'out' PARTITIONED BY (a) {options} TRIGGER AVAILABLE NOW;")
        insert = "INSERT INTO t SELECT ISTREAM(a, ts AS at) FROM S [NOW]"
        with pytest.raises(
            CatalogError, match="sink 't' cannot be written: it needs a checkpoint; add CHECK"
        ):
            session.sql(insert)
        session.sql(f"SET penstock.checkpoint = '{tmp_path / 'state'}'; {insert}")
        session.query("t").awaitTermination()
        found = consumed(cluster.servers, "out", 3)
        rows = sorted((key, row["at"], row["a"]) for _, key, row in found)
        assert rows == [(b"7", 1, 7), (b"7", 2, 7), (b"8", 3, 8)]


def test_kafka_has_the_rows_by_key() -> None:
    with mock_kafka() as cluster:
        options = {"kafka.bootstrap.servers": cluster.servers, "topic": "out", "key": "a"}
        cluster.send("out", [])
        batches = [pa.RecordBatch.from_pydict({"a": [n % 3], "n": [n]}) for n in range(9)]
        KafkaWriter(Topic.of(options)).write(iter(batches))
        found = consumed(cluster.servers, "out", 9)
        assert sorted(row["n"] for _, _, row in found) == list(range(9))
        assert all(key == str(row["a"]).encode() for _, key, row in found)
        assert len({(partition, key) for partition, key, _ in found}) == 3
    with pytest.raises(CatalogError, match="a Kafka sink needs its servers"):
        Topic.of({"topic": "out"})
    nobody = Topic.of({"topic": "t", "kafka.bootstrap.servers": "127.0.0.1:1", "timeoutSeconds": "0.2"})
    with pytest.raises(DataError, match="did not take rows for 't': 1 messages were not acknowledged"):
        KafkaWriter(nobody).write(iter(batches[:1]))


@pytest.mark.spark
def test_a_pipeline_in_cql(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    make = "CREATE PIPELINE p (S) KEEP 1 HOUR TRIGGER AVAILABLE NOW"
    with pytest.raises(CatalogError, match="pipeline 'p' needs a checkpoint; add CHECKPOINT 'directory', or"):
        session.sql(make)
    with pytest.raises(CatalogError, match="which pipeline is meant\\? add IN and its name; there are: none"):
        session.sql(f"REGISTER QUERY q AS {COUNTS}")
    out = tmp_path / "out"
    session.sql(
        f"SET penstock.checkpoint = '{tmp_path / 'state'}'; CREATE SINK out TO PARQUET '{out}'; {make};"
        f"REGISTER QUERY counts AS {COUNTS}; REGISTER QUERY gone AS SELECT a FROM S [ROWS 1];"
        "REGISTER QUERY rows INTO out IN P AS SELECT ISTREAM(a, ts AS at) FROM S [NOW]; DROP QUERY gone;"
        "DROP QUERY IF EXISTS gone; START PIPELINE p"
    )
    session.pipeline("p").awaitTermination()
    shown = session.sql("SHOW QUERIES")
    assert shown is not None
    assert [(r["name"], r["pipeline"], r["state"]) for r in shown.collect()] == [
        ("counts", "p", "running"),
        ("rows", "p", "running"),
    ]
    rows = [row for f in out.glob("*.parquet") for row in pq.ParquetFile(f).read().to_pylist()]
    assert sorted((row["a"], row["at"]) for row in rows) == [(7, 1), (7, 2), (8, 3)]
    pipelines = session.sql("SHOW PIPELINES")
    assert pipelines is not None and [tuple(r) for r in pipelines.collect()] == [("p", "stopped")]
    session.sql("DROP PIPELINE p; DROP PIPELINE IF EXISTS p")
    with pytest.raises(CatalogError, match="there is no pipeline 'p'; there are: none"):
        session.sql("DROP PIPELINE p")
