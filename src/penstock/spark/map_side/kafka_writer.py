"""Kafka as a sink: every row of a batch as a message, its columns in JSON.

A task writes its rows and waits until the brokers have them; a task or batch that is repeated writes them
again, so a consumer sees each result at least once. Messages with equal values of the key columns go to one
partition of the topic, in the order of the batches.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.errors import CatalogError, DataError
from penstock.spark.process import without_traceback
from penstock.spark.settings import KAFKA_TIMEOUT_S


@dataclass(frozen=True)
class Topic:
    """The topic to write, the columns of the key, and how to reach the brokers."""

    name: str
    key: tuple[str, ...]
    config: Mapping[str, str]
    timeout: float = KAFKA_TIMEOUT_S

    @staticmethod
    def of(options: Mapping[str, str]) -> Topic:
        given = {name.lower(): value for name, value in options.items()}
        config = {k.removeprefix("kafka."): v for k, v in given.items() if k.startswith("kafka.")}
        if "topic" not in given:
            raise CatalogError("a Kafka sink needs the topic: give the option topic")
        if "bootstrap.servers" not in config:
            raise CatalogError("a Kafka sink needs its servers: give the option kafka.bootstrap.servers")
        key = tuple(name for name in given.get("key", "").split(",") if name)
        return Topic(given["topic"], key, config, float(given.get("timeoutseconds", KAFKA_TIMEOUT_S)))


class KafkaWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query to a topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Produce a task's rows; returns when the brokers have acknowledged them all."""
        from confluent_kafka import Producer

        topic, failed = self.topic, list[str]()
        settings = {"log_level": "0", "enable.idempotence": "true", **topic.config}
        producer = Producer(settings)

        def acknowledged(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error.str())

        for batch in iterator:
            for key, value in messages(batch, topic.key):
                self._produce(producer, key, value, acknowledged)
        left = producer.flush(topic.timeout)
        if failed or left:
            late = f"{left} messages were not acknowledged in {topic.timeout:.0f} s"
            where = f"Kafka at {topic.config['bootstrap.servers']}"
            raise DataError(f"{where} did not take rows for {topic.name!r}: {failed[0] if failed else late}")
        return WriterCommitMessage()

    def _produce(self, producer: Any, key: bytes | None, value: bytes, acknowledged: Any) -> None:
        """Hand a message to librdkafka, waiting where its queue is full."""
        while True:
            with suppress(BufferError):
                producer.produce(self.topic.name, value, key, on_delivery=acknowledged)
                producer.poll(0)
                return
            producer.poll(1)


def messages(batch: pa.RecordBatch, key: tuple[str, ...]) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of each row; the key of one column is its text, of several a list in JSON.

    >>> list(messages(pa.RecordBatch.from_pydict({"a": [1], "b": ["x"]}), ("b",)))
    [(b'x', b'{"a":1,"b":"x"}')]
    """
    names = {name.casefold(): name for name in batch.schema.names}
    columns = [names[name.casefold()] for name in key]
    for row in batch.to_pylist():
        yield _key([row[name] for name in columns]), _json(row).encode()


def _key(values: list[Any]) -> bytes | None:
    if not values:
        return None
    key = values[0] if len(values) == 1 else values
    return (key if isinstance(key, str) else _json(key)).encode()


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> str:
    """What JSON has no type for: times as ISO 8601 writes them, bytes in base 64, decimals as text."""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
