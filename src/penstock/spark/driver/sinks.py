"""The sinks of a pipeline's queries: Spark queries over their results, each with a checkpoint of its own.

A sink reads the published results of one query, so it may be slower than the pipeline, fail, and be started
again, and the others go on. It writes each result exactly once if Spark's sink does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.driver.failures import sentence
from penstock.spark.map_side.results import QueryResults

_log = logging.getLogger("penstock")

Sink = Callable[[DataFrame], DataStreamWriter]
"""Makes the writer of a query's results."""


@dataclass
class _Running:
    name: str
    sink: Sink
    results: QueryResults
    checkpoint: str
    query: StreamingQuery | None = None
    refused: str = ""


class Sinks:
    """The sinks by the id of their query."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location
        self._sinks: dict[str, _Running] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._sinks

    def add(self, results: QueryResults, sink: Sink, checkpoint: str | None = None) -> None:
        """Remember a sink, whose checkpoint is below the pipeline's if it has none; one that runs stays."""
        known = self._sinks.get(results.id)
        if known is None or known.query is None or not known.query.isActive:
            location = checkpoint or f"{self._location}/{results.id}"
            self._sinks[results.id] = _Running(results.query, sink, results, location)

    def start(self) -> None:
        """Start those that do not run. One that Spark refuses does not hold back the others."""
        for own in self._sinks.values():
            if own.query is None or not own.query.isActive:
                try:
                    writer = own.sink(own.results.dataframe(self._spark))
                    own.query = writer.option("checkpointLocation", own.checkpoint).start()
                except PySparkException as error:
                    own.refused = sentence(error)
                    _log.error("the sink of query %s cannot be started: %s", own.name, own.refused)

    def process_all_available(self) -> None:
        """Wait until they have written all results that are published."""
        for own in list(self._sinks.values()):
            if own.query is not None:
                own.query.processAllAvailable()

    def stop(self) -> None:
        """Stop them where they are."""
        for own in self._sinks.values():
            if own.query is not None:
                own.query.stop()

    def finish(self) -> None:
        """Wait until all have written what is published, then end them."""
        for own in list(self._sinks.values()):
            if own.query is not None and own.query.isActive:
                _end(own.query, own.name)

    def end(self, ids: Iterable[str]) -> None:
        """The same for some, without waiting for it."""
        for own in [self._sinks[i] for i in ids if i in self._sinks]:
            if own.query is not None and own.query.isActive:
                threading.Thread(target=_end, args=(own.query, own.name), daemon=True).start()

    def state(self, id: str) -> str:
        """What has become of a sink; nothing if there is none."""
        own = self._sinks.get(id)
        if own is None:
            return ""
        if own.query is None:
            return own.refused or "not started"
        failure = own.query.exception()
        return sentence(failure) if failure is not None else "running" if own.query.isActive else "ended"


def _end(query: StreamingQuery, name: str) -> None:
    try:
        query.processAllAvailable()
        query.stop()
    except PySparkException as error:
        _log.error("the sink of query %s failed: %s", name, sentence(error))
