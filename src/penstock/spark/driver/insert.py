"""INSERT INTO: the Spark query that writes to a sink.

The query is named after its sink, and so is its checkpoint, so that a program finds it again whatever the
order of its statements. A sink has one query at a time: Spark's files know only one writer, and what several
queries return is one query with UNION ALL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.catalog import SinkDef
from penstock.errors import CatalogError
from penstock.settings import Settings
from penstock.spark.driver.jvm import Refused, reason
from penstock.spark.map_side import kafka
from penstock.spark.settings import CONSOLE_ROWS

FUNCTION = "function"
"""The format of a sink that is a function of each batch."""
_DEFAULTS = {"console": {"truncate": "false", "numRows": str(CONSOLE_ROWS)}}
"""Options of a format that differ from Spark's own defaults."""


class Inserts:
    """The queries that INSERT INTO has started in a session, the last of each sink."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}

    def start(self, sink: SinkDef, results: Callable[[], DataFrame], settings: Settings) -> None:
        """Start the query that writes to a sink, if none does."""
        check_free(self._spark, sink)
        self._queries[sink.name] = start(results(), sink, settings)

    def query(self, sink: str) -> StreamingQuery:
        """The query of a sink, whether it runs or has ended."""
        known = next((n for n in self._queries if n.casefold() == sink.casefold()), None)
        if known is None:
            written = ", ".join(self._queries) or "none"
            raise CatalogError(f"no query writes to a sink {sink!r}; sinks with a query: {written}")
        return self._queries[known]


def start(df: DataFrame, sink: SinkDef, settings: Settings) -> StreamingQuery:
    """Start the query that writes a streaming DataFrame to a sink."""
    check_free(df.sparkSession, sink)
    location = checkpoint(sink, settings)
    try:
        own = writer(df, sink, settings)
        own = own if location is None else own.option("checkpointLocation", location)
        return own.start()
    except (PySparkException, Py4JJavaError) as error:
        raise CatalogError(f"sink {sink.name!r} cannot be written: {_reason(error)}") from None
    except Refused as error:
        raise CatalogError(f"sink {sink.name!r} cannot be written: {error.reason}") from None


def _reason(error: PySparkException | Py4JJavaError) -> str:
    text = str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)
    if "checkpointLocation must be specified" in text:
        return "it needs a checkpoint; add CHECKPOINT 'directory', or SET penstock.checkpoint = 'directory'"
    return reason(error)


def writer(df: DataFrame, sink: SinkDef, settings: Settings) -> DataStreamWriter:
    """The writer of a DataFrame to a sink, without a checkpoint."""
    made: Any = df.writeStream.queryName(sink.name).outputMode("append")
    made = made.trigger(**trigger_options(sink.trigger or settings.trigger))
    if sink.format == FUNCTION:
        return made.foreachBatch(sink.function)
    given: dict[str, Any] = {**_DEFAULTS.get(sink.format, {}), **sink.options}
    if sink.format == "kafka":
        given |= {"topic": sink.path, "key": ",".join(sink.partitioned_by)}
        return made.format(kafka.NAME).options(**given)
    if sink.path is not None:
        given["path"] = sink.path
    if sink.partitioned_by:
        made = made.partitionBy(*sink.partitioned_by)
    return made.format(sink.format).options(**given)


def results_writer(sink: SinkDef, settings: Settings) -> Callable[[DataFrame], DataStreamWriter]:
    """The sink of a pipeline's query, which ends with the pipeline and not with the results there are now."""
    trigger = sink.trigger or settings.trigger
    own = replace(sink, trigger="0 seconds") if trigger in ("once", "available-now") else sink
    return lambda df: writer(df, own, settings)


def trigger_options(trigger: str) -> dict[str, Any]:
    """The arguments of ``DataStreamWriter.trigger`` for a trigger as ``SET penstock.trigger`` has it."""
    special: dict[str, dict[str, Any]] = {"once": {"once": True}, "available-now": {"availableNow": True}}
    return special.get(trigger, {"processingTime": trigger})


def checkpoint(sink: SinkDef, settings: Settings) -> str | None:
    """The sink's own checkpoint, one below the session's, or one beside the files that it writes."""
    if sink.checkpoint is not None:
        return sink.checkpoint
    if settings.checkpoint is not None:
        return f"{settings.checkpoint}/{sink.name}"
    files = sink.path is not None and sink.format != "kafka"
    return f"{sink.path}/_checkpoint" if files else None


def check_free(spark: SparkSession, sink: SinkDef) -> None:
    """Reject a second query for a sink."""
    if any(query.name == sink.name for query in spark.streams.active):
        raise CatalogError(
            f"a query writes to sink {sink.name!r}; stop it first, write one query with UNION ALL, or create "
            "another sink"
        )
