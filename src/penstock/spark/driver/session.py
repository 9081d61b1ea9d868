"""The session: streams and tables by name, and queries over them as streaming DataFrames."""

from __future__ import annotations

import atexit
import datetime as dt
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from penstock import cql, sysstream
from penstock.catalog import (
    check_count,
)
from penstock.errors import CatalogError
from penstock.measurement import Measurements
from penstock.plan.compile import compile
from penstock.plan.explain import explain
from penstock.plan.explain_running import explain_running
from penstock.plan.logical import Query
from penstock.plan.physical import PhysicalPlan
from penstock.spark.driver import insert, knobs, spelling
from penstock.spark.driver.dataframe import late_schema
from penstock.spark.driver.definitions import Definitions
from penstock.spark.driver.failures import why
from penstock.spark.driver.jvm import watch
from penstock.spark.driver.listener import EndEngines
from penstock.spark.driver.local_spark import NEEDED, check_spark, is_local, local_spark, use_this_python
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.notebook import Explained
from penstock.spark.driver.pipeline import Pipeline
from penstock.spark.driver.pipelines import Pipelines
from penstock.spark.driver.started import StartedQueries
from penstock.spark.driver.sysstream import SysStreamFrame
from penstock.spark.map_side import kafka, results
from penstock.spark.resident import connection
from penstock.spark.resident.directory import ResidentDirectory
from penstock.spark.resident.late_rows import opened
from penstock.spark.settings import LAST_EVENTS_MS
from penstock.streamon.advice import Skew, skew

if TYPE_CHECKING:
    from penstock.server.serving import Server

_log = logging.getLogger("penstock")


def connect(
    spark: SparkSession | None = None, partitions: int | None = None, shuffle_partitions: int | None = None
) -> Session:
    """A session on the given Spark, or on a local one with a task for every core.

    ``partitions`` is how many engines a stage is spread over, where its query allows; by default as many as
    Spark runs tasks at once. ``shuffle_partitions`` sets ``spark.sql.shuffle.partitions`` of the session, the
    tasks that every stage starts in every batch: 200 in a Spark that nobody configured.

    >>> ps = connect(spark, partitions=2)
    >>> ps.partitions
    2
    """
    if spark is not None:
        check_spark(spark)
        watch(spark.sparkContext._gateway)
    spark = spark or local_spark()
    if shuffle_partitions is not None:
        check_count("shuffle_partitions", shuffle_partitions)
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))
    return Session(spark, partitions)


class Session(Definitions):
    """Registered streams and tables, and the queries over them.

    >>> clicks = spark.readStream.format("rate").load().withColumnRenamed("value", "page")
    >>> ps.create_stream("Clicks", clicks, timestamp="timestamp")
    >>> counts = ps.sql("SELECT page, COUNT(*) AS n FROM Clicks [RANGE 1 MINUTE] GROUP BY page")
    >>> counts.columns                                       # a streaming DataFrame: counts.writeStream ...
    ['ts', 'op', 'page', 'n']
    """

    def __init__(self, spark: SparkSession, partitions: int | None = None) -> None:
        if partitions is not None:
            check_count("partitions", partitions)
        super().__init__(spark)
        self.partitions = partitions or _default_partitions(spark)
        how = (lambda: self.partitions), (lambda: self.settings)
        self._pipelines = Pipelines(spark, self._catalog, *how)
        self._inserts = insert.Inserts(spark)
        _make_ready(spark)
        home = ResidentDirectory.of_jvm(_jvm_pid(spark))
        if is_local(spark):
            connection.prestart(home)
        self._measurements = Registry.of(spark.sparkContext)
        self._listener = EndEngines(spark, home.root)
        self._catalog.add(sysstream.definition(SysStreamFrame(spark, lambda: self.settings)))
        spark.streams.addListener(self._listener)
        atexit.register(self._stop_listening)

    def sql(self, text: str) -> DataFrame | None:
        """Run statements; the streaming DataFrame of the last query among them, if there is one.

        Its columns are ``ts``, for a result that is no stream ``op`` ('+' or '-'), then the selected ones.
        SHOW, DESCRIBE and EXPLAIN return a static DataFrame of what they list. INSERT INTO starts its query
        (:meth:`query`) and returns None.
        """
        result = None
        for statement in cql.parse(text):
            result = self.run(statement)
        return result

    def query(self, sink: str) -> StreamingQuery:
        """The query that the last INSERT INTO a sink started, whether it runs or has ended."""
        return self._inserts.query(sink)

    def pipeline(
        self,
        name: str,
        checkpoint: str | None = None,
        streams: Sequence[str] = (),
        split: Mapping[str, str | Sequence[str] | Sequence[Sequence[str]]] | None = None,
        keep: str | dt.timedelta = "1 HOUR",
        one_clock: bool = False,
        stages: int | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> Pipeline:
        """A pipeline: many queries over some streams in one Spark query.

        Without a checkpoint it is the one that the session has by that name. A checkpoint of a pipeline
        resumes it, with the queries that it has. ``streams`` are the streams and relations that its queries
        may read. ``split`` names, by stream, the columns by which its rows are split over partitions, or
        several lists of columns; by default those that the first queries need. Results can be read for as
        long as ``keep``. Queries that read the same streams share windows; with ``one_clock`` all queries
        do, and a silent stream holds back also those that do not read it. ``stages=2`` gives it a second
        stage, by which queries can be spread that no split fits; by default it has one if a query that is
        registered before the first start needs it. ``columns`` names, by stream, the columns that queries
        may read; by default all.
        """
        how = (split, keep, one_clock, stages, columns)
        return self._pipelines.pipeline(name, checkpoint, streams, *how)

    def pipelines(self) -> list[Pipeline]:
        """The pipelines of this session."""
        return self._pipelines.all()

    def plan(self, query: str) -> PhysicalPlan:
        """The physical plan of a query, which ``explain`` writes down."""
        return self._compile(query)

    def serve(
        self,
        port: int | None = None,
        host: str = "127.0.0.1",
        token: str | None = None,
        names: Sequence[str] = (),
        allow_ddl: bool = False,
        without_token: bool = False,
    ) -> Server:
        """Show this session's queries in a browser, beside whatever else the program does.

        Returns at once: ``link()`` of the server is the address to open, ``stop()`` ends it. The default
        port is 8765; 0 takes any that is free. The ``token`` is this one of 16 characters or more, that of
        the variable PENSTOCK_TOKEN, or one that is made and stands in ``link()``; a ``host`` that other
        machines can reach needs one that is given. ``names`` are other names by which it is reached. With
        ``allow_ddl`` clients may define streams, tables and sinks, which read and write files.
        ``without_token``: every user of this machine may look at and change everything, at your own risk.
        """
        from penstock.server.serving import serve
        from penstock.server.session_backend import SessionBackend

        backend = SessionBackend(self)
        return serve(backend, port, host, token, tuple(names), allow_ddl, without_token=without_token)

    def explain(self, query: str | StreamingQuery) -> str:
        """The plan of a query: what Spark does, what the engines do, and on how many partitions.

        Of a query that runs: what each engine keeps, the orders of filters and probes it uses now, and the
        decisions that led to them. Of one that has failed: why.
        """
        if isinstance(query, str):
            plan = self._compile(query)
            return Explained.drawn(explain(plan), partial(_drawn, plan))
        if not hasattr(query, "runId"):
            raise CatalogError(f"explain takes the text of a query or a running query, not {query!r}")
        failure = query.exception()
        if failure is not None:
            return f"the query failed: {why(failure)}"
        found = self._measured(query)
        if not found and not query.isActive:
            return "the query has ended, and its engines with it; explain its text, or a query that runs"
        return explain_running(found, self._measurements.length)

    def set(self, query: str | StreamingQuery | Pipeline, name: str, value: object) -> None:
        """Change a setting of a running query: its engines use it from the next batch on.

        ``query`` is its name, or what ``start`` returned; a pipeline's settings are those of all its queries.
        ``name`` is one of ``penstock.spark.driver.knobs.KNOBS``, or such a name of one operator:
        ``filters@mjoin.7``. The checkpoint keeps it. Results stay
        as they are, except those within a budget that is changed.
        """
        if isinstance(query, Pipeline):
            query = query.name
        found = self._pipelines.find(query) if isinstance(query, str) else None
        if found is not None:
            if found.query is None or not found.isActive:
                raise CatalogError(f"pipeline {found.name!r} does not run; start it first")
            knobs.send(found.query, name, str(value), self._measured(found.query))
            return
        started = StartedQueries.of(self.spark.sparkContext)
        own = started.find(query) if isinstance(query, str) else started.of_query(query)
        if own is None:
            names = ", ".join([s.name for s in started.all()] + [p.name for p in self.pipelines()]) or "none"
            raise CatalogError(f"there is no query {query!r}; there are: {names}")
        knobs.send(own.query, name, str(value), self._measured(own.query), own.described.stages)

    def _measured(self, query: StreamingQuery) -> Measurements:
        return self._measurements.latest(str(query.runId))

    def metrics(self) -> Measurements:
        """What each engine of the running queries published after its last step, on whichever machine.

        The records are typed (``penstock.measurement``); ``rows()`` of them makes a DataFrame.
        """
        return self._measurements.latest()

    def late_rows(self, name: str, query: StreamingQuery | None = None) -> DataFrame:
        """The rows of a stream that came too late for a query, as a streaming DataFrame.

        They are of the queries that were made since ``SET penstock.late_rows = 'directory'``, or of the given
        one. The timestamp and the columns that such a query reads are filled, and rows that its filter drops
        are not among them.
        """
        stream = self._catalog.input(name)
        if self.settings.late_rows is None:
            raise CatalogError("late rows are only counted; SET penstock.late_rows = 'directory' keeps them")
        directory = f"{self.settings.late_rows}/{stream.name}"
        opened(directory)
        reader = self.spark.readStream.schema(from_arrow_schema(late_schema(stream)))
        if query is not None:
            reader = reader.option("pathGlobFilter", f"{query.id}-*")
        return reader.parquet(directory)

    def skew(self) -> list[Skew]:
        """How evenly rows are distributed: for each input of a stage, the rows that each partition received.

        ``busiest`` is how many times its even part the busiest partition has; ``heavy`` are the keys that
        many rows have, with their part of all rows. ``declare`` is what to add to the stream's declaration
        so that those of them are split that keep a partition busy: ``HEAVY k IN (1)``.
        """
        return skew(self.metrics())

    def close(self) -> None:
        """Remove all streams and tables and end the engines of stopped queries; Spark keeps running."""
        self._catalog.clear()
        self._pipelines.clear()
        if self._listener.end_stopped(str(q.runId) for q in self.spark.streams.active):
            atexit.unregister(self._stop_listening)
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Stop listening, also when Python exits: Spark would fail to call it, with long tracebacks."""
        if SparkContext._active_spark_context is None:
            return
        with suppress(Exception):
            # Wait for pending events: a call under way would fail as well.
            self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(LAST_EVENTS_MS)
        with suppress(Exception):
            self.spark.streams.removeListener(self._listener)

    def run(self, statement: cql.Statement) -> DataFrame | None:
        """Run one statement that ``penstock.cql.parse`` returned; the result is as of :meth:`sql`."""
        match statement:
            case cql.CreateInput() | cql.CreateTable() | cql.CreateView() | cql.CreateSink():
                self._define(statement)
            case cql.Set():
                self.settings = self.settings.changed(statement.name, statement.value)
                if statement.name.casefold() == "penstock.sharing":
                    for pipeline in (p for p in self.pipelines() if p.isActive):
                        self.set(pipeline, "sharing", self.settings.sharing)
            case cql.Alter(name, setting, value):
                self.set(name, setting, value)
            case cql.Refresh():
                self.refresh_table(statement.name)
            case cql.Show("pipeline"):
                return self._listing(self._pipelines.listed(), "name", "state")
            case cql.Show("query"):
                shown = self._pipelines.queries()
                return self._listing(shown, "name", "pipeline", "state", "definition")
            case cql.Show(kind):
                return self._listing(self._catalog.listed(kind), "name", "definition")
            case cql.Describe(name):
                return self._listing(self._described(name), "column", "type", "note")
            case cql.Explain(query):
                return self._listing([(explain(self._compile(query)),)], "plan")
            case cql.CreatePipeline() | cql.RegisterQuery() | cql.DropQuery() | cql.SwitchPipeline():
                self._pipelines.run(statement)
            case cql.Drop("pipeline"):
                self._pipelines.run(statement)
            case cql.Drop():
                self._catalog.drop(statement.name, statement.kind, statement.if_exists)
            case cql.SelectStatement():
                return self._frame(cql.bind(statement, self._catalog), statement.text)
            case cql.Insert():
                bound, sink = cql.bind_insert(statement, self._catalog)
                own = partial(self._frame, bound, statement.query.text)
                self._inserts.start(sink, own, self.settings)
        return None

    def _frame(self, query: Query, text: str) -> DataFrame:
        return spelling.frame(query, text, self._catalog, self.partitions, self.settings)

    def _listing(self, rows: Sequence[tuple[str, ...]], *columns: str) -> DataFrame:
        return self.spark.createDataFrame(rows, ", ".join(f"{name} STRING" for name in columns))

    def _compile(self, query: str | cql.SelectStatement) -> PhysicalPlan:
        return compile(cql.bind(query, self._catalog), self.partitions, self.settings)


def _drawn(plan: PhysicalPlan) -> str:
    """The picture of a plan."""
    from penstock.server.picture import picture
    from penstock.server.plans import plan_view, planned_measurements

    found = planned_measurements(plan.stages)
    return picture(plan_view("", found, plan.stages, running=False)).svg


def _make_ready(spark: SparkSession) -> None:
    """Set what queries need; a local Spark without a configured Python runs this one in its workers."""
    for key, value in NEEDED.items():
        spark.conf.set(key, value)
    use_this_python(spark)
    kafka.register(spark)
    results.register(spark)
    context = spark.sparkContext
    tasks, at_once = int(spark.conf.get("spark.sql.shuffle.partitions") or 1), context.defaultParallelism
    if tasks > 4 * at_once:
        _log.warning(
            "spark.sql.shuffle.partitions is %d, and every stage starts that many tasks in every batch; for "
            "the %d that run at once, type penstock.connect(spark, shuffle_partitions=%d)",
            tasks,
            at_once,
            at_once,
        )


def _default_partitions(spark: SparkSession) -> int:
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(1, min(shuffled, spark.sparkContext.defaultParallelism))


def _jvm_pid(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())
