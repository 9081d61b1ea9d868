"""Kafka without a connector: every message once, as the oracle says, whatever the batches and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oracle
import pytest
from longer import longer
from mock_kafka import MockKafka, mock_kafka
from pyspark.errors import StreamingQueryException

import penstock
from penstock import CatalogError, DataError
from penstock.spark.driver.session import Session
from penstock.spark.map_side import kafka
from penstock.spark.map_side.kafka import KafkaReader, Slice, Topics


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockKafka]:
    with mock_kafka() as cluster:
        yield cluster


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    session = penstock.connect(spark)
    yield session
    for query in spark.streams.active:
        query.stop()
    session.close()


def reader(cluster: MockKafka, topic: str, **options: str) -> KafkaReader:
    given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return KafkaReader(Topics.of({**given, **options}), ["key", "value", "partition", "offset", "timestamp"])


def messages(found: KafkaReader, start: Any, end: Any) -> list[bytes]:
    parts = [b for p in found.partitions(start, end) for b in found.read(p)]
    return [v for b in parts for v in b.column("value").to_pylist()]


# the reader, without Spark


def test_batches_of_a_limited_size_are_all_the_messages_once(cluster: MockKafka) -> None:
    sent = [b"%d" % n for n in range(1000)]
    cluster.send("limited", sent)
    found = reader(cluster, "limited", maxOffsetsPerTrigger="300")
    start, read, sizes = found.initialOffset(), [], []
    while (end := found.latestOffset(start, found.getDefaultReadLimit())) != start:
        batch = messages(found, start, end)
        assert batch == messages(found, start, end), "a batch that is read again is the same"
        read += batch
        sizes.append(len(batch))
        start = end
    assert sizes == [300, 300, 300, 100]
    assert sorted(read, key=int) == sent
    assert found.partitions(start, start) == []


def test_a_skewed_topic_is_read_in_proportion() -> None:
    end = {"t": {"0": 1000, "1": 10, "2": 0}}
    start = {"t": {"0": 0, "1": 0, "2": 0}}
    assert kafka._limited(start, end, 101) == {"t": {"0": 100, "1": 1, "2": 0}}
    assert kafka._limited(start, end, 2000) == end


def test_available_now_ends_with_what_is_there(cluster: MockKafka) -> None:
    cluster.send("now", [b"1", b"2"])
    found = reader(cluster, "now")
    found.prepareForTriggerAvailableNow()
    cluster.send("now", [b"3"])
    start = found.initialOffset()
    end = found.latestOffset(start, found.getDefaultReadLimit())
    assert sorted(messages(found, start, end)) == [b"1", b"2"]
    assert found.latestOffset(end, found.getDefaultReadLimit()) == end


def test_a_task_for_every_partition_in_their_order(cluster: MockKafka) -> None:
    cluster.send("order", [b"x"], partition=2)
    found = reader(cluster, "order")
    start = found.initialOffset()
    slices = found.partitions(start, found.latestOffset(start, found.getDefaultReadLimit()))
    assert [(s.partition, s.end - s.start) for s in slices] == [(0, 0), (1, 0), (2, 1), (3, 0)]


def test_where_a_query_begins(cluster: MockKafka) -> None:
    cluster.send("begin", [b"x"], partition=1)
    ends = {"0": 0, "1": 1, "2": 0, "3": 0}
    assert reader(cluster, "begin", startingOffsets="latest").initialOffset() == {"begin": ends}
    chosen = json.dumps({"begin": ends})
    assert reader(cluster, "begin", startingOffsets=chosen).initialOffset() == {"begin": ends}
    with pytest.raises(CatalogError, match="use earliest, latest, or JSON"):
        reader(cluster, "begin", startingOffsets='{"begin": {"0": 1}}').initialOffset()


def test_a_log_that_is_not_the_one_that_was_read(cluster: MockKafka) -> None:
    cluster.send("anew", [b"x"], partition=0)
    found = reader(cluster, "anew")
    ends = found.latestOffset(found.initialOffset(), found.getDefaultReadLimit())
    further = {"anew": {**ends["anew"], "0": 7}}
    with pytest.raises(DataError, match="partition 0 of topic 'anew' ends at offset 1, and .* up to 7"):
        found.latestOffset(further, found.getDefaultReadLimit())
    with pytest.raises(DataError, match="partition 9 of topic 'anew' is gone"):
        found.latestOffset({"anew": {**ends["anew"], "9": 7}}, found.getDefaultReadLimit())
    with pytest.raises(DataError, match="no longer has offset 50"):
        list(found.read(Slice("anew", 0, 50, 60)))


def test_messages_that_never_come_are_told(cluster: MockKafka) -> None:
    cluster.send("silent", [b"x"], partition=0)
    found = reader(cluster, "silent", timeoutSeconds="1")
    read = found.read(Slice("silent", 0, 0, 5))
    assert next(read).column("value").to_pylist() == [b"x"]
    with pytest.raises(DataError, match="returned no message of partition 0 of topic 'silent' in 1 s"):
        next(read)


def test_nobody_there() -> None:
    nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "timeoutSeconds": "1"}
    with pytest.raises(DataError, match="Kafka at 127.0.0.1:1 does not answer"):
        KafkaReader(Topics.of(nowhere), ["value"]).initialOffset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the topic"),
        ({"subscribe": "t"}, "give the option kafka.bootstrap.servers"),
        (
            {"subscribe": "t", "kafka.bootstrap.servers": "h", "maxOffsetsPerTrigger": "0"},
            "maxOffsetsPerTrigger is '0'; use a number of 1 or more",
        ),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        Topics.of(options)


# on Spark


COLUMNS = "k BIGINT, v STRING, t BIGINT"


def declare(session: Session, cluster: MockKafka, topic: str, columns: str = COLUMNS, **options: Any) -> None:
    bad_rows = options.pop("bad_rows", "")
    session.sql(
        f"CREATE STREAM {topic} ({columns}) TIMESTAMP BY t SKEW 100 {bad_rows} FROM KAFKA '{topic}' "
        + cluster.options(**options)
    )


def run(df: Any, checkpoint: Path, out: Path) -> Any:
    """What there is now, into files."""
    writer = df.writeStream.format("parquet").option("path", str(out))
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def changes(spark: Any, out: Path) -> list[Any]:
    rows = [row.asDict() for row in spark.read.parquet(str(out)).collect()]
    return [(row.pop("ts"), "+", row) for row in sorted(rows, key=lambda row: row["ts"])]


@pytest.mark.spark
def test_a_join_of_two_topics_over_restarts(
    spark: Any, session: Session, cluster: MockKafka, tmp_path: Path
) -> None:
    rows = {
        name: [(t, {"k": t * step % 7, "v": f"{name}{t}"}) for t in range(60)]
        for name, step in (("L", 3), ("R", 5))
    }
    cql = "SELECT ISTREAM ALL(L.k, L.v, R.v AS w) FROM L [RANGE 9], R [RANGE 9] WHERE L.k = R.k"
    for name in rows:
        declare(session, cluster, name, maxOffsetsPerTrigger=30)
    for part in (slice(0, 40), slice(40, 60)):
        for name, elements in rows.items():
            cluster.send(name, [{**row, "t": t} for t, row in elements[part]])
        run(session.sql(cql), tmp_path / "c", tmp_path / "out")
    expected = oracle.evaluate(cql, rows)
    assert len(expected) > 20
    oracle.assert_same(changes(spark, tmp_path / "out"), expected, cql)


@pytest.mark.spark
def test_what_a_message_has_besides_its_value(
    spark: Any, session: Session, cluster: MockKafka, tmp_path: Path
) -> None:
    cluster.send("own", [{"t": 5}], partition=3, key=b"who", timestamp=1_000)
    columns = (
        "t BIGINT, kafka_key STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
    )
    declare(session, cluster, "own", columns)
    shown = "kafka_key, kafka_partition, kafka_offset, unix_millis(kafka_timestamp) AS at"
    run(session.sql(f"SELECT {shown} FROM own"), tmp_path / "c", tmp_path / "out")
    ((ts, _, row),) = changes(spark, tmp_path / "out")
    assert (ts, *row.values()) == (5, "who", 3, 0, 1_000)


@pytest.mark.spark
def test_messages_as_they_are(spark: Any, session: Session, cluster: MockKafka, tmp_path: Path) -> None:
    cluster.send("plain", [b"a", b"b"], partition=0, timestamp=1_000)
    session.sql(
        "CREATE STREAM plain (value STRING, timestamp TIMESTAMP) TIMESTAMP BY timestamp FROM KAFKA 'plain' "
        + cluster.options(format="raw")
    )
    run(session.sql("SELECT value FROM plain"), tmp_path / "c", tmp_path / "out")
    assert sorted(row["value"] for _, _, row in changes(spark, tmp_path / "out")) == ["a", "b"]


@pytest.mark.spark
def test_python_reads_a_topic_as_with_the_connector(session: Session, spark: Any, cluster: MockKafka) -> None:
    df = spark.readStream.format("penstock_kafka").option("subscribe", "t")
    df = df.option("kafka.bootstrap.servers", cluster.servers).load()
    assert df.columns == ["key", "value", "topic", "partition", "offset", "timestamp"]
    session.create_stream(
        "T", df.selectExpr("CAST(value AS STRING) AS v", "timestamp"), timestamp="timestamp"
    )


MALFORMED = [b"{", b'{"k": "x", "t": 1}', b'{"k": 1, "v": "\xff", "t": 1}', b'{"k": 1}', b"7"]
"""Not JSON, another type, invalid UTF-8, no timestamp, no object."""


@pytest.mark.spark
def test_bad_messages_are_counted(spark: Any, session: Session, cluster: MockKafka, tmp_path: Path) -> None:
    cluster.send("counted", [*MALFORMED, {"k": 1, "v": "good", "t": 1}])
    declare(session, cluster, "counted", bad_rows="ON BAD ROWS COUNT")
    query = run(session.sql("SELECT k, v FROM counted"), tmp_path / "c", tmp_path / "out")
    assert changes(spark, tmp_path / "out") == [(1, "+", {"k": 1, "v": "good"})]
    counted = [p["observedMetrics"]["penstock.counted"]["bad_rows"] for p in query.recentProgress]
    assert sum(counted) == len(MALFORMED)


@pytest.mark.spark
@pytest.mark.parametrize("number", [2, *longer(3)])
def test_bad_messages_end_a_query(session: Session, cluster: MockKafka, tmp_path: Path, number: int) -> None:
    topic = f"bad{number}"
    cluster.send(topic, [b'{"k": 1, "v": "x", "t": 1}', MALFORMED[number]], partition=2)
    declare(session, cluster, topic)
    with pytest.raises(StreamingQueryException) as raised:
        run(session.sql(f"SELECT k FROM {topic}"), tmp_path / "c", tmp_path / "out")
    no_time = MALFORMED[number] == b'{"k": 1}'
    said = "column 't' is NULL" if no_time else "not a row of the declared columns"
    assert f"stream '{topic}': the message at partition 2, offset 1: {said}; correct" in str(raised.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("t BIGINT", {"format": "avro"}, "the format 'avro' is unknown; use one of json, raw"),
        ("t BIGINT", {"startingOffset": "latest"}, "did you mean 'startingOffsets'?"),
        ("t BIGINT, kafka_header STRING", {}, "a message of Kafka has no 'kafka_header'; it has kafka_key"),
        ("t BIGINT", {"format": "raw"}, "a message of Kafka has no 't'; it has key, value"),
        ("t BIGINT", {"maxOffsetsPerTrigger": "many"}, "stream 'S': maxOffsetsPerTrigger is 'many'"),
    ],
)
def test_wrong_streams(session: Session, columns: str, options: dict[str, str], message: str) -> None:
    more = "".join(f", {k} '{v}'" for k, v in options.items())
    with pytest.raises(CatalogError) as raised:
        session.sql(
            f"CREATE STREAM S ({columns}) TIMESTAMP BY t FROM KAFKA 'x' "
            f"OPTIONS (kafka.bootstrap.servers 'h:1'{more})"
        )
    assert message in str(raised.value)
