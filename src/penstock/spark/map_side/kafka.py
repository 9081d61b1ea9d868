"""Kafka as a Python streaming data source: Penstock reads it on a bare PySpark, with no connector's JAR.

The end of every micro-batch is a set of offsets that Spark writes to its checkpoint before the batch runs,
and a task reads exactly the messages between two such sets: what is read again after a failure is the same.
Nothing is committed to Kafka. There is one task for a Kafka partition, which reads in the
order of offsets; partition and offset order messages of equal timestamps.

Options have the names of Spark's own connector: ``kafka.*`` go to librdkafka without that prefix;
``subscribe``, ``startingOffsets`` and ``maxOffsetsPerTrigger`` are as there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import CatalogError, DataError
from penstock.spark.map_side.kafka_writer import KafkaWriter, Topic
from penstock.spark.process import generator_without_traceback, without_traceback
from penstock.spark.settings import KAFKA_BATCH_MESSAGES, KAFKA_POLL_S, KAFKA_TIMEOUT_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

NAME = "penstock_kafka"
COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"

_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")
"""Errors from which librdkafka recovers; they are reported only if they last."""

Offsets = dict[str, dict[str, int]]
"""By topic and partition the next message to read: what Spark's checkpoint holds."""


class KafkaSource(DataSource):
    """``spark.readStream.format("penstock_kafka")``; a schema may name some of the columns only.

    ``df.writeStream.format("penstock_kafka")`` writes the rows of any DataFrame as JSON.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> KafkaReader:
        return KafkaReader(Topics.of(self.options), schema.fieldNames())

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        return KafkaWriter(Topic.of(self.options))


def register(spark: SparkSession) -> None:
    """Make the source known to a session; sessions made by ``newSession`` know it already."""
    try:
        spark.dataSource.register(KafkaSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@dataclass(frozen=True)
class Topics:
    """Which messages to read, and how to reach them."""

    names: tuple[str, ...]
    config: Mapping[str, str]
    starting: str = "latest"
    most_rows: int | None = None
    timeout: float = KAFKA_TIMEOUT_S

    @staticmethod
    def of(options: Mapping[str, str]) -> Topics:
        given = {key.lower(): value for key, value in options.items()}
        config = {k.removeprefix("kafka."): v for k, v in given.items() if k.startswith("kafka.")}
        names = tuple(n.strip() for n in given.get("subscribe", "").split(",") if n.strip())
        if not names:
            raise CatalogError("a Kafka source needs the topic: give the option subscribe")
        if "bootstrap.servers" not in config:
            raise CatalogError("a Kafka source needs its servers: give the option kafka.bootstrap.servers")
        most = given.get("maxoffsetspertrigger")
        return Topics(
            names,
            config,
            given.get("startingoffsets", "latest"),
            None if most is None else _positive("maxOffsetsPerTrigger", most),
            _positive("timeoutSeconds", given.get("timeoutseconds", f"{KAFKA_TIMEOUT_S:g}")),
        )

    @property
    def where(self) -> str:
        return f"Kafka at {self.config['bootstrap.servers']}"

    def clients(self) -> dict[str, Any]:
        """The settings of every client of librdkafka; errors are reported by its calls, not logged."""
        return {"log_level": "0", **self.config}


@dataclass
class Slice(InputPartition):
    """The messages of one task."""

    topic: str
    partition: int
    start: int
    end: int


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offsets of a query's batches, on the driver; the messages between them, in tasks."""

    def __init__(self, topics: Topics, columns: list[str]) -> None:
        self.topics = topics
        self.columns = columns
        self.target: Offsets | None = None

    @without_traceback
    def initialOffset(self) -> Offsets:
        """Where a query without a checkpoint begins."""
        starting = self.topics.starting
        if starting in ("earliest", "latest"):
            return self._bounds(earliest=starting == "earliest")
        try:
            given = json.loads(starting)
            first = self._bounds(earliest=True)
            chosen = {t: {p: int(given[t][p]) for p in first[t]} for t in first}
        except (ValueError, KeyError, TypeError):
            raise CatalogError(
                f"startingOffsets is {starting!r}; use earliest, latest, or JSON with an offset for every "
                'partition, such as {"topic": {"0": 12, "1": 0}}'
            ) from None
        return chosen

    @without_traceback
    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Where a batch that begins at ``start`` ends."""
        end = self.target or self._bounds()
        self._check(start, end)
        known = self._with_new_partitions(start, end)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return end if most is None else _limited(known, end, most)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.topics.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @without_traceback
    def reportLatestOffset(self) -> Offsets:
        return self._bounds()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """End the run with the messages that are available now."""
        self.target = self._bounds()

    def partitions(self, start: Offsets, end: Offsets) -> list[Slice]:
        """A task for every Kafka partition, even without new messages, so that tasks keep their order."""
        if start == end:
            return []
        known = self._with_new_partitions(start, end)
        pairs = sorted((t, int(p)) for t, found in end.items() for p in found)
        return [Slice(t, p, known[t][str(p)], end[t][str(p)]) for t, p in pairs]

    @generator_without_traceback
    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import Consumer, TopicPartition

        if partition.start >= partition.end:
            return
        own = {"group.id": "penstock", "enable.auto.commit": "false", "enable.partition.eof": "true"}
        settings = {**self.topics.clients(), **own, "auto.offset.reset": "error"}
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(partition.topic, partition.partition, partition.start)])
            for messages in _messages(consumer, partition, self.topics):
                yield _batch(messages, self.columns)

    def _bounds(self, earliest: bool = False) -> Offsets:
        """The first or the next offset of every partition."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        timeout = self.topics.timeout
        spec = OffsetSpec.earliest() if earliest else OffsetSpec.latest()
        wanted = [TopicPartition(t, p) for t in self.topics.names for p in self._partitions_of(t)]
        try:
            answers = self._admin.list_offsets(
                dict.fromkeys(wanted, spec),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=timeout,
            )
            found: Offsets = {}
            for asked, answer in answers.items():
                found.setdefault(asked.topic, {})[str(asked.partition)] = answer.result(timeout).offset
        except (KafkaException, TimeoutError) as error:
            raise DataError(f"{self.topics.where} does not report its offsets: {_reason(error)}") from None
        return found

    def _partitions_of(self, topic: str) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            found = self._admin.list_topics(topic, timeout=self.topics.timeout).topics[topic]
        except KafkaException as error:
            raise DataError(
                f"{self.topics.where} does not answer: {_reason(error)}; check kafka.bootstrap.servers"
            ) from None
        if found.error is not None or not found.partitions:
            raise DataError(f"{self.topics.where} has no topic {topic!r}: {found.error or 'no partitions'}")
        return sorted(found.partitions)

    @cached_property
    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.topics.clients())

    def _with_new_partitions(self, start: Offsets, end: Offsets) -> Offsets:
        """The start with partitions that were added to a topic, which are read from their first message."""
        added = [(t, p) for t, found in end.items() for p in found if p not in start.get(t, {})]
        if not added:
            return start
        first = self._bounds(earliest=True)
        return {t: {p: start.get(t, {}).get(p, first[t][p]) for p in found} for t, found in end.items()}

    def _check(self, start: Offsets, end: Offsets) -> None:
        """Reject a log that ends before the query's position: it is not the one that was read."""
        for topic, offsets in start.items():
            for partition, offset in offsets.items():
                there = end.get(topic, {}).get(partition)
                if there is None or there < offset:
                    state = "is gone" if there is None else f"ends at offset {there}"
                    raise DataError(
                        f"partition {partition} of topic {topic!r} {state}, and the query has read it up to "
                        f"{offset}: the topic was created again or lost messages; use a new checkpoint"
                    )


def _limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """The end of a batch of at most ``most`` rows, divided among partitions by their backlog."""
    backlog = {(t, p): end[t][p] - start[t][p] for t in end for p in end[t]}
    total = sum(backlog.values())
    if total <= most:
        return end
    taken = {key: behind * most // total for key, behind in backlog.items()}
    for key in sorted(backlog, key=lambda k: (-backlog[k], k))[: most - sum(taken.values())]:
        taken[key] += 1
    return {t: {p: start[t][p] + taken[t, p] for p in end[t]} for t in end}


def _messages(consumer: Any, wanted: Slice, topics: Topics) -> Iterator[list[Any]]:
    """The messages from ``start`` to before ``end``; the log may have gaps, and end in one."""
    position, deadline = wanted.start, time.monotonic() + topics.timeout
    while position < wanted.end:
        good = []
        for message in consumer.consume(min(KAFKA_BATCH_MESSAGES, wanted.end - position), KAFKA_POLL_S):
            error = message.error()
            if error is None:
                position = message.offset() + 1
                if position <= wanted.end:
                    good.append(message)
            elif error.name() == "_PARTITION_EOF":
                position = message.offset()
            else:
                _refuse(error, wanted, topics)
        if good:
            deadline = time.monotonic() + topics.timeout
            yield good
        elif position < wanted.end and time.monotonic() > deadline:
            raise DataError(
                f"{topics.where} returned no message of {_named(wanted)} in {topics.timeout:.0f} s, "
                f"of offsets {position} to {wanted.end}; restart the query from its checkpoint"
            )


def _refuse(error: Any, wanted: Slice, topics: Topics) -> None:
    if error.name() == "_AUTO_OFFSET_RESET":
        raise DataError(
            f"{_named(wanted)} no longer has offset {wanted.start}, where the query must continue: Kafka "
            "deleted messages that were not read; use a new checkpoint, and a longer retention"
        )
    if not error.retriable() and error.name() not in _PASSING:
        raise DataError(f"{topics.where} refused {_named(wanted)}: {error.str()}")


def _named(wanted: Slice) -> str:
    return f"partition {wanted.partition} of topic {wanted.topic!r}"


def _batch(messages: list[Any], columns: list[str]) -> pa.RecordBatch:
    made = {
        "key": lambda: pa.array([m.key() for m in messages], pa.binary()),
        "value": lambda: pa.array([m.value() for m in messages], pa.binary()),
        "topic": lambda: pa.array([m.topic() for m in messages], pa.string()),
        "partition": lambda: pa.array([m.partition() for m in messages], pa.int32()),
        "offset": lambda: pa.array([m.offset() for m in messages], pa.int64()),
        "timestamp": lambda: _micros([m.timestamp()[1] for m in messages]),
    }
    return pa.RecordBatch.from_arrays([made[c]() for c in columns], names=columns)


def _micros(millis: list[int]) -> pa.Array:
    return pa.array(millis, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _positive(name: str, text: str) -> int:
    if not text.isdigit() or not int(text):
        raise CatalogError(f"{name} is {text!r}; use a number of 1 or more")
    return int(text)


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str() if hasattr(first, "str") else first or type(error).__name__)
