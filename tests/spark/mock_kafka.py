"""A Kafka cluster inside this process: librdkafka's own mock, reached over loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

PARTITIONS = 4
"""What the mock gives a topic that it has not seen before."""


class MockKafka:
    """The cluster lives as long as the client that has it."""

    def __init__(self) -> None:
        self._owner = Producer({"test.mock.num.brokers": "2", "log_level": "0"})
        brokers = self._owner.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{b.host}:{b.port}" for b in brokers)

    def send(self, topic: str, rows: list[Any], partition: int | None = None, **key: Any) -> None:
        """Rows as JSON, bytes as they are; to one partition, or round the partitions."""
        for n, row in enumerate(rows):
            value = row if isinstance(row, bytes) else json.dumps(row).encode()
            where = n % PARTITIONS if partition is None else partition
            self._owner.produce(topic, value, partition=where, **key)
        assert self._owner.flush(20) == 0

    def options(self, **more: Any) -> str:
        """For DDL, from the first message on if not told otherwise."""
        given = {"startingOffsets": "earliest", **more}
        rest = "".join(f", {name} '{value}'" for name, value in given.items())
        return f"OPTIONS (kafka.bootstrap.servers '{self.servers}'{rest})"


@contextmanager
def mock_kafka() -> Iterator[MockKafka]:
    cluster = MockKafka()
    yield cluster
    del cluster._owner
