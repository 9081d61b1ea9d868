"""Which checkpoint the files of an output belong to.

Spark's file sink records its batches in the folder ``_spark_metadata`` of the output, under the numbers that
the query's checkpoint gives them, and skips a number that is there already: so a repeated batch is written
once. A new checkpoint counts from 0 again, and its batches would be skipped without a word, so such a start
is rejected. The file ``penstock.json`` in that folder names the query that writes there, by Spark's id, which
its checkpoint has; where it is missing, the numbers of the output and the checkpoint are compared.
"""

from __future__ import annotations

import json
import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.errors import CatalogError
from penstock.spark.driver.checkpoint import Directory, query_id
from penstock.spark.driver.jvm import Refused
from penstock.spark.driver.private_fields import read_field
from penstock.spark.map_side import results

_LOG = "_spark_metadata"
_OWNER = f"{_LOG}/penstock.json"
_FILE_SINK = "FileStreamSink"


def check_output(spark: SparkSession, path: str, checkpoint: Directory | None) -> None:
    """Reject an output that another checkpoint has written."""
    try:
        output = Directory(spark, path)
        written = _last(output.names(_LOG))
    except (Py4JJavaError, Refused):
        return  # not a path of files: what it is, is for the sink to say
    if written is None:
        return
    own = None if checkpoint is None else query_id(checkpoint)
    planned = None if checkpoint is None else _last(checkpoint.names("offsets"))
    owner = _owner(output)
    if owner is not None and owner["query"] == own and (planned is None or planned < written):
        raise CatalogError(
            f"{path} has batches up to number {written} and the checkpoint, which is an older copy, up to "
            f"{_number(planned)}; Spark would skip batches up to {written} and lose their rows: restore the "
            "files from the same copy, or write to another directory with a new checkpoint"
        )
    if (owner is not None and owner["query"] != own) or planned is None or planned < written:
        of = f" of the checkpoint {owner['checkpoint']}" if owner is not None else " of another checkpoint"
        raise CatalogError(
            f"{path} has batches up to number {written}{of}, and Spark skips numbers that a directory has, "
            "so that rows would be lost; write to another directory, or start the query with that checkpoint"
        )


def file_output(writer: Any) -> str | None:
    """The directory to which a writer (of the JVM) writes files, if it has one."""
    source = str(read_field(writer, "source"))
    path = read_field(writer, "extraOptions").get("path")
    return None if source in ("foreach", "foreachBatch") or path.isEmpty() else str(path.get())


def table_output(spark: SparkSession, name: str) -> str | None:
    """The directory of a table that Spark writes as files, if it exists."""
    state = spark._jsparkSession.sessionState()
    try:
        table = state.sqlParser().parseTableIdentifier(name)
        found = state.catalog().tableExists(table)
        return str(state.catalog().getTableMetadata(table).location()) if found else None
    except Py4JJavaError:
        return None  # of another catalog, whose tables number batches by query


def own_output(spark: SparkSession, query: Any) -> None:
    """Before the first batch of a query of the JVM: write down that its output is its own.

    A query whose output is another's fails at once with the reason. Here also come queries that Spark's own
    writer has started, over DataFrames derived from those of a session; other queries are left alone.
    """
    execution = query.streamingQuery()
    sink = execution.sink()
    if sink.getClass().getSimpleName() != _FILE_SINK or not _is_own(execution.analyzedPlan().toString()):
        return
    path = str(sink.toString()).removeprefix("FileSink[").removesuffix("]")
    location = str(execution.resolvedCheckpointRoot())
    try:
        check_output(spark, path, Directory(spark, location))
    except CatalogError as error:
        _end(execution, str(error))
        raise
    output, own = Directory(spark, path), str(execution.id().toString())
    if (_owner(output) or {}).get("query") != own:
        output.write(_OWNER, json.dumps({"query": own, "checkpoint": location}))


def _is_own(plan: str) -> bool:
    """Whether Penstock's engines or the results of a pipeline are in a plan as Spark prints it."""
    return re.search(r"\[partition#\d+, envelope#\d+, blob#\d+\]", plan) is not None or results.NAME in plan


def _end(execution: Any, reason: str) -> None:
    """End a query before its first batch, as one that failed."""
    jvm: Any = SparkContext._jvm
    sql, none = jvm.org.apache.spark.sql, jvm.PythonUtils.toScalaMap({})
    cause = jvm.java.lang.IllegalStateException(reason)
    failure = sql.streaming.StreamingQueryException(reason, cause, "INTERNAL_ERROR", none)
    getattr(execution, "streamDeathCause_$eq")(failure)
    ended = getattr(sql.execution.streaming.runtime, "TERMINATED$").__getattr__("MODULE$")
    execution.state().set(ended)


def _owner(output: Directory) -> dict[str, str] | None:
    try:
        found: dict[str, str] = json.loads(output.read(_OWNER) or "null")
    except ValueError:
        return None
    return found


def _last(names: list[str]) -> int | None:
    """The largest batch number among the names of files: ``12`` or ``19.compact``."""
    return max((int(n.partition(".")[0]) for n in names if n.partition(".")[0].isdigit()), default=None)


def _number(planned: int | None) -> str:
    return "none" if planned is None else str(planned)
