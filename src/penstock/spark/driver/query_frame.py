"""The DataFrame that ``Session.sql`` returns, and its writer.

Spark has no hook for the start of a query, so the writer is a subclass of Spark's: it finds where the
checkpoint will be, refuses one of another query and an output of another checkpoint, gives the command stream
what the checkpoint has, and sends what static tables have now where that differs from what the query holds. A
DataFrame derived from this one (``df.filter(...)``) has Spark's own writer; its query runs as well, and gets
no commands. Its output is checked when Spark reports the start (:mod:`penstock.spark.driver.listener`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.schema import TimeDomain
from penstock.spark.driver.checkpoint import Directory, check_or_create, check_unused, written
from penstock.spark.driver.finite_run import FiniteRuns, end
from penstock.spark.driver.inner import Followed, under_attributes
from penstock.spark.driver.jvm import told
from penstock.spark.driver.local_spark import check_ansi
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.outputs import check_output, file_output, table_output
from penstock.spark.driver.parts import Parts
from penstock.spark.driver.private_fields import set_field
from penstock.spark.driver.query import Query
from penstock.spark.driver.shared_memory import SharedMemory
from penstock.spark.driver.started import Described, StartedQueries
from penstock.spark.driver.tables import QueryTables
from penstock.spark.process import quiet_workers
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.wire.record import PRODUCER, PROGRESS

_log = logging.getLogger("penstock")
_LOCATION = "checkpointlocation"


Build = Callable[[Parts, bool], DataFrame]
"""Makes a DataFrame with its parts; with reports of its progress, if another query reads them."""


@dataclass(frozen=True)
class Starts:
    """What a start of a query needs besides its DataFrame.

    ``memory``: the bytes that the query shares with others, if it does. ``grows``: the state that grows
    without end, of which a start warns. ``ended``: for how many ticks time runs on after the last row of
    finite input (``SET penstock.at_end``); None if more may come. ``described``: text and plan, to be shown.
    ``time``: the unit in which its lengths of time are written.
    """

    fingerprints: tuple[Fingerprint, ...]
    tables: QueryTables
    memory: int | None = None
    grows: tuple[str, ...] = ()
    ended: int | None = None
    described: Described | None = None
    time: TimeDomain | None = None
    spelled: Callable[[str], QueryFrame | None] | None = None
    """The frame of another text with this one's columns, if that text means the same."""


class QueryFrame(Followed):
    """The streaming DataFrame of a query; its writer checks the checkpoint and opens the command stream.

    ``build`` makes the DataFrame with its parts; each writer, as each query, has parts of its own.
    """

    def __init__(self, spark: SparkSession, build: Build, starts: Starts) -> None:
        check_ansi(spark)
        parts = Parts(spark, starts.tables, starts.fingerprints)
        self._parts: Parts | None = parts
        self._build, self._starts = build, starts
        with quiet_workers(spark.sparkContext.environment):
            df = build(parts, False)
        super().__init__(df._jdf, spark)
        self.origin = _Origin(self, build, starts)

    @property
    def writeStream(self) -> DataStreamWriter:
        """As any DataFrame's, but ``start`` rejects a checkpoint of another query."""
        if self._parts is None:
            again = replace(self._starts, tables=self._starts.tables.for_another_query())
            return QueryFrame(self.sparkSession, self._build, again).writeStream
        parts, self._parts = self._parts, None
        return _Writer(self, parts, self._starts)


@dataclass(frozen=True)
class _Origin:
    """A query for other queries over its DataFrame."""

    df: DataFrame
    build: Build
    starts: Starts

    @property
    def fingerprints(self) -> Sequence[Fingerprint]:
        return self.starts.fingerprints

    @property
    def tables(self) -> QueryTables:
        return self.starts.tables

    def with_reports(self, parts: Parts) -> DataFrame:
        with quiet_workers(parts.spark.sparkContext.environment):
            return under_attributes(self.build(parts, True), self.df, (PRODUCER, PROGRESS))


class _Writer(DataStreamWriter):
    """Spark's writer, which also records the checkpoint's location."""

    def __init__(self, df: DataFrame, parts: Parts, starts: Starts) -> None:
        super().__init__(df)
        self._parts, self._commands, self._starts = parts, parts.commands, starts
        self._shared = SharedMemory.of(df.sparkSession.sparkContext)
        self._location: str | None = None
        self._ends = starts.ended is not None
        self._name: str | None = None

    def option(self, key: str, value: Any) -> DataStreamWriter:
        if key.lower() == _LOCATION and value is not None:
            self._location = str(value)
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def queryName(self, queryName: str) -> DataStreamWriter:
        self._name = queryName
        return super().queryName(queryName)

    def trigger(self, **when: Any) -> DataStreamWriter:
        """As in Spark; a run over finite input takes what there is at once, and ends by itself."""
        ends = bool(when.get("availableNow") or when.get("once"))
        if self._starts.ended is not None and ends:
            return self
        self._ends = ends or self._starts.ended is not None
        return super().trigger(**when)

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        """As in Spark; what of a batch the function does not read runs after it.

        Spark commits a batch also if partitions of it never ran, whose state is then one version behind: the
        checkpoint could not be continued.
        """

        @wraps(func)
        def and_the_rest(batch: DataFrame, batch_id: int) -> None:
            before = self._steps()
            func(batch, batch_id)
            now = self._steps()
            ran = [engine for engine, at in now.items() if before.get(engine) != at]
            if len(ran) < sum(f.partitions for f in self._starts.fingerprints):
                batch.write.format("noop").mode("overwrite").save()

        return super().foreachBatch(and_the_rest)

    def _steps(self) -> dict[tuple[int, int], int]:
        """By stage and partition of the query's own plan, when its last step was taken."""
        plan = self._parts.plan
        published = Registry.of(self._spark.sparkContext).accumulator.value
        own = [(engine, at) for engine, (at, _) in list(published.items()) if engine.plan == plan]
        return {(engine.stage, engine.partition): at for engine, at in own}

    def _sq(self, jsq: Any) -> StreamingQuery:
        return Query(jsq, Registry.of(self._spark.sparkContext))

    def start(self, path: str | None = None, *args: Any, **given: Any) -> StreamingQuery:
        options = {key.lower(): value for key, value in given.items()}
        output = path or options.get("path") or file_output(self._jwrite)
        with told("the query cannot be started", Py4JJavaError):  # Spark's own exceptions stay
            self._check(_named(args, given), given, output)
            query = super().start(path, *args, **given)
        return self._started(query, lambda: self.start(path, *args, **given))

    def toTable(self, tableName: str, *args: Any, **given: Any) -> StreamingQuery:
        self._check(_named(args, given), given, table_output(self._spark, tableName))
        query = super().toTable(tableName, *args, **given)
        return self._started(query, lambda: self.toTable(tableName, *args, **given))

    def _started(self, query: StreamingQuery, again: Callable[[], StreamingQuery]) -> StreamingQuery:
        for sentence in self._starts.grows:
            _log.warning("state grows without end: %s; give the stream a window", sentence)
        self._parts.started(query)
        if self._starts.time is not None:
            Registry.of(self._spark.sparkContext).counts(str(query.runId), self._starts.time)
        named = self._starts.described is None or self._starts.described.text
        if self._ends and named and self._starts.time is not None:
            FiniteRuns.of(self._spark.sparkContext).add(query, self._starts.time)
        if self._starts.memory is not None:
            self._shared.started(self._commands, self._starts.memory)
        if self._starts.ended is not None:
            end(query, [p.commands for p in self._parts.all()], self._starts.ended)
        if self._starts.described is not None:
            StartedQueries.of(self._spark.sparkContext).add(query, self._starts.described, again)
        return query

    def _check(self, name: str | None, given: dict[str, Any], output: str | None) -> None:
        """The checkpoint's directory, found as Spark does; a temporary one is empty.

        ``output``: the directory of files that is written, if it is one.
        """
        check_ansi(self._spark)
        given_locations = [str(v) for k, v in given.items() if k.lower() == _LOCATION and v is not None]
        location = given_locations[0] if given_locations else self._location
        base = self._spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        called = name or self._name
        if location is None and base is not None and called is not None:
            location = f"{base}/{called}"
        directory = None if location is None else Directory(self._spark, location)
        new = False
        if directory is not None:
            check_unused(directory, self._spark.streams.active)
        if output is not None:
            check_output(self._spark, output, directory)
        if directory is not None:
            self._go_on_as_written(directory)
            text = self._starts.described.text if self._starts.described is not None else ""
            new = check_or_create(directory, self._starts.fingerprints, text)
        self._parts.open(directory, new)
        if self._starts.memory is not None:
            self._shared.open(self._commands, self._starts.memory)

    def _go_on_as_written(self, directory: Directory) -> None:
        """Run the plan that wrote the checkpoint, if it is of an equal query that was written otherwise.

        State fits the plan that made it: the order of its columns, and the partitions of its rows.
        """
        before = written(directory)
        if before is None or not before.text or before.stages == self._starts.fingerprints:
            return
        frame = self._starts.spelled and self._starts.spelled(before.text)
        if frame and frame._starts.fingerprints == before.stages:
            other = frame.writeStream
            assert isinstance(other, _Writer)
            self._parts, self._commands, self._starts = other._parts, other._commands, other._starts
            set_field(self._jwrite, "ds", frame._jdf)


def _named(args: tuple[Any, ...], given: dict[str, Any]) -> str | None:
    """The query's name among the arguments of ``start``: the fourth positional, or by keyword."""
    name = args[3] if len(args) > 3 else given.get("queryName")
    return None if name is None else str(name)
