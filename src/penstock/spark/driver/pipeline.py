"""A pipeline: many queries over the same streams in one Spark query, with one engine per partition.

Streams are scanned and sent to the engines once for all queries, unfiltered and with all columns, so that a
query can be registered while the pipeline runs. Registrations and drops are commands: Spark delivers each
with a batch, exactly once, to every partition, and the engines log it with the rows.

Tasks write results to files (:mod:`penstock.spark.wire.results`), and a ``foreachBatch`` sink publishes them
when the batch is done. A Python data source could do the same; but for every batch Spark starts two Python
workers on the driver to prepare and to commit its writer, and one more for every task.

A query that raises in any partition is withheld for that batch in all of them, and dropped by a command.
Since the command is there before the batch is committed, the next batch has it.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog import Input, SinkDef
from penstock.engine.rehearsal import rehearse
from penstock.errors import PipelineError
from penstock.plan import logical
from penstock.plan.admission import Admitted, admit, explain_pipeline
from penstock.plan.explain_running import explain_running
from penstock.plan.picture import picture
from penstock.plan.pipeline import PipelinePlan, plan_pipeline, resumed
from penstock.settings import Settings
from penstock.spark.driver import commands, exchange, tables
from penstock.spark.driver.checkpoint import Directory, check_unused, damaged, fingerprint
from penstock.spark.driver.dataframe import shown_schema, ticks_at_end
from penstock.spark.driver.failures import told_by_spark
from penstock.spark.driver.insert import trigger_options
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.parts import Parts
from penstock.spark.driver.pipeline_sinks import PipelineSinks
from penstock.spark.driver.pipeline_tables import PipelineTables
from penstock.spark.driver.query_frame import QueryFrame, Starts
from penstock.spark.driver.registrations import DROP, REGISTER, Layout, Registration, Registrations, Split
from penstock.spark.driver.sinks import Sink
from penstock.spark.map_side.results import QueryResults
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.processor import Finish, Relay
from penstock.spark.relay.result import PUBLISHED, Divide, Forward, Publish, published
from penstock.spark.resident import program
from penstock.spark.wire.results import Results

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class PipelineQuery:
    """A query of a pipeline, as ``register`` returns it."""

    pipeline: Pipeline = field(repr=False)
    id: str = field(repr=False)
    name: str
    text: str

    def __repr__(self) -> str:
        return f"PipelineQuery(name={self.name!r}, state={self.state!r}, text={self.text!r})"

    @property
    def state(self) -> str:
        """``registered`` until a batch has taken it in, then ``running``; or ``dropped`` or ``failed``."""
        return self.pipeline._known(self.id).state(self.pipeline.results.published().commands)

    @property
    def reason(self) -> str:
        """Why it has failed, if it has."""
        return self.pipeline._known(self.id).failed or ""

    @property
    def sink(self) -> str:
        """What has become of its sink: ``running``, ``ended``, or why it failed; empty if it has none."""
        return self.pipeline._sinks.running.state(self.id)

    @property
    def results(self) -> DataFrame:
        """Its results as a streaming DataFrame; any number of Spark queries may read it."""
        return self.pipeline._results(self.pipeline._known(self.id)).dataframe(self.pipeline._spark)


@dataclass(frozen=True)
class _Waiting:
    """A query that is registered before the first start: it takes part in choosing the splits."""

    registration: Registration
    query: logical.Query


class Pipeline:
    """Queries over some streams, that are registered, read and dropped at any time.

    >>> pipeline = ps.pipeline("clicks", checkpoint=f"{folder}/clicks", streams=["Clicks"])
    >>> pages = pipeline.register("pages", "SELECT page, COUNT(*) AS n FROM Clicks [ROWS 9] GROUP BY page")
    >>> pages.state                                          # it runs from pipeline.start() on
    'registered'
    >>> pages.results.columns                                # what another streaming query reads
    ['ts', 'op', 'page', 'n']
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        checkpoint: str,
        streams: Sequence[Input],
        partitions: int,
        split: Mapping[str, Split],
        keep: float,
        one_clock: bool,
        stages: int | None,
        columns: Mapping[str, Sequence[str]],
        bind: Callable[[str], logical.Query],
        settings: Callable[[], Settings],
        sink: Callable[[str], SinkDef],
    ) -> None:
        self.name = name
        self._spark, self._streams, self._partitions, self._split = spark, tuple(streams), partitions, split
        self._keep, self._bind, self._settings = keep, bind, settings
        self._one_clock, self._stages, self._columns = one_clock, stages, columns
        self._checkpoint = _absolute(checkpoint)
        self._directory = Directory(spark, self._checkpoint)
        self.results = Results(f"{self._checkpoint}/results")
        self._waiting: dict[str, _Waiting] = {}
        self._admitted: dict[str, Admitted] = {}
        self._query: StreamingQuery | None = None
        self._lock = threading.RLock()
        self._tables = PipelineTables(self._directory, self._plan_of, self._is_taken)
        self._plan = self._resumed()
        if self._plan is None:
            self._planned()  # a split that cannot be is refused here
        self._queries = Registrations(commands.stored(self._directory))
        self._check_commands()
        self._sinks = PipelineSinks(spark, self._checkpoint, self.results, self._registered, sink, settings)

    def _check_commands(self) -> None:
        """Reject a checkpoint that lacks commands which published batches had, or its layout."""
        last, applied = commands.last_stored(self._directory), self.results.published().commands
        if last < applied:
            raise damaged(f"it has {last} commands, and the published results are of {applied}")
        if self._plan is None and applied:
            raise damaged("it has results, and no pipeline.json")

    def _resumed(self) -> PipelinePlan | None:
        """The plan that the checkpoint was started with; None if it is new."""
        layout = Layout.read(self._directory)
        if layout is None:
            return None
        names = [s.name for s in self._streams]
        layout.check(names, self._partitions, self._split, self._one_clock, self._stages, self._columns)
        streams = {s.name: s for s in self._streams}
        how = (layout.routes, self._partitions, self._settings(), self._one_clock)
        return resumed([streams[n] for n in layout.routes], *how, layout.stages, layout.columns)

    def _planned(self, alone: Mapping[str, logical.Query] | None = None) -> PipelinePlan:
        """The plan of a new pipeline with the queries so far, or only with those that are given."""
        queries = {n: w.query for n, w in self._waiting.items()} if alone is None else alone
        how = (self._partitions, self._split, self._settings(), self._one_clock, self._stages, self._columns)
        return plan_pipeline(self._streams, queries, *how)

    # Queries

    def register(
        self, name: str, text: str, sink: Sink | str | None = None, history: bool = False
    ) -> PipelineQuery:
        """Add a query: from the next batch on it sees the rows that are later than all before.

        With ``history`` it also sees the rows before that windows of running queries have: its results begin
        with all rows that it has then.

        ``sink`` is the name of a sink, or takes the streaming DataFrame of the results and returns a writer,
        not started; it runs with the pipeline, by default with a checkpoint below the pipeline's. A query
        that is registered already, with the same text, stays as it is.
        """
        with self._lock:
            known = self._find(name)
            self._sinks.check(name, sink)
            if known is None or not known.stands:
                known = self._add(name, text, sink if isinstance(sink, str) else "", history)
            elif _words(known.text) != _words(text):
                raise PipelineError(
                    f"pipeline {self.name!r} already has a query {name!r} with another text: {known.text}; "
                    f"drop it first, or choose another name"
                )
            if sink is not None:
                self._sinks.give(known, sink)
                if self._runs:
                    self._sinks.add(known)
                    self._sinks.running.start()
            return self._shown(known)

    def _add(self, name: str, text: str, sink: str, history: bool) -> Registration:
        query = self._bind(text)
        # Before the first start any split can be had, so that it is enough to look at this query.
        plan = self._plan or self._planned({name: query})
        admitted = admit(plan, name, query, self._settings(), history)
        schema = shown_schema(plan.time, admitted.kind, admitted.schema)
        registration = Registration.new(name, text, admitted.kind, schema, sink, history)
        if self._plan is None:
            self._waiting[name] = _Waiting(registration, query)
            return registration
        if admitted.reads_relations and (self._runs or self._directory.names("offsets")):
            raise PipelineError(
                f"{name} reads a relation, whose rows so far the pipeline does not keep; register it before "
                "the first start, that is with a new checkpoint"
            )
        return self._send(registration, admitted)

    def _send(self, registration: Registration, admitted: Admitted) -> Registration:
        """Send a query to the engines, with the rows that its static tables have now."""
        for warning in admitted.warnings:
            _log.warning("query %s: %s", registration.name, warning)
        rows = {i.name: tables.read(i) for i in admitted.tables}
        plan = replace(admitted.plan, tables={**admitted.plan.tables, **rows})
        if self._runs:
            assert self._plan is not None
            rehearse([planned.stage for planned in self._plan.stages], registration.name, plan)
        packed = base64.b64encode(cloudpickle.dumps(plan)).decode()
        self._command(REGISTER, registration.payload(packed))
        self._admitted[registration.id] = admitted
        sent = self._known(registration.id)
        self._tables.add(sent, admitted, plan, commands.of(self._running()) if self._runs else None)
        return sent

    def drop(self, name: str) -> None:
        """Remove a query: from the next batch on it has no results and no state; those before are kept."""
        with self._lock:
            known = self._find(name)
            if known is None or not known.stands:
                raise self._unknown(name)
            if self._waiting.pop(known.name, None) is None:
                self._tables.drop([known.id])
                self._command(DROP, {"query": known.name})
            if not self._runs:
                self._sinks.running.forget(known.id)

    def _command(self, kind: str, payload: dict[str, Any]) -> None:
        if self._runs:
            command = commands.append(self._running(), kind, payload)
        else:
            command = commands.store(self._directory, kind, payload)
        self._queries.apply(command)

    def __getitem__(self, name: str) -> DataFrame:
        """The results of a query as a streaming DataFrame: ``ts``, for a relation ``op``, its columns."""
        return self.source(name).dataframe(self._spark)

    def source(self, name: str) -> QueryResults:
        """Where the results of a query are."""
        with self._lock:
            known = self._find(name)
            if known is None:
                raise self._unknown(name)
            return self._results(known)

    def queries(self) -> list[PipelineQuery]:
        """The queries, the last of each name; also those that were dropped or have failed."""
        with self._lock:
            waiting = [w.registration for w in self._waiting.values()]
            return [self._shown(r) for r in (*self._queries.latest(), *waiting)]

    def explain(self) -> str:
        """What the pipeline reads, and the plan of each query, with what it shares with which others.

        Of one that runs also what each engine keeps.
        """
        lines = explain_pipeline(*self._plans())
        if not self._runs:
            return lines
        run_id = str(self._running().runId)
        registry = Registry.of(self._spark.sparkContext)
        return f"{lines}\n{explain_running(registry.latest(run_id), registry.length)}"

    def picture(self) -> str:
        """The plan as a picture (SVG): streams on the left, queries on the right, what is shared once."""
        return picture(*self._plans())

    def _plans(self) -> tuple[PipelinePlan, dict[str, Admitted]]:
        """The plan of the pipeline, and those of its queries."""
        with self._lock:
            plan = self._plan or self._planned()
            queries = {r.name: self._plan_of(r) for r in self._queries.standing()}
            for name, waiting in self._waiting.items():
                queries[name] = admit(plan, name, waiting.query, self._settings())
        return plan, queries

    def _plan_of(self, r: Registration) -> Admitted:
        """Its plan; one that another process has registered is planned again."""
        assert self._plan is not None
        if r.id not in self._admitted:
            self._admitted[r.id] = admit(self._plan, r.name, self._bind(r.text), self._settings())
        return self._admitted[r.id]

    def _is_taken(self, r: Registration) -> bool:
        """Whether the engines have a query, and Spark has committed a batch: before that a start is anew."""
        applied = r.sequence <= self.results.published().commands
        return applied and any(name.isdigit() for name in self._directory.names("commits"))

    # The Spark query

    def start(self, trigger: str | Mapping[str, Any] | None = None) -> Pipeline:
        """Start or resume; ``trigger`` is as in ``SET penstock.trigger``, or a dict for Spark's ``trigger``.

        The first start fixes streams, splits, partitions and stages.
        """
        with self._lock:
            if self._runs:
                raise PipelineError(f"pipeline {self.name!r} is already running; stop it first")
            check_unused(self._directory, self._spark.streams.active)
            self._plan = self._plan or self._fix()
            for name, waiting in list(self._waiting.items()):
                self._send(waiting.registration, admit(self._plan, name, waiting.query, self._settings()))
                del self._waiting[name]
            self._sinks.resume()
            given = self._settings().trigger if trigger is None else trigger
            own: Any = self._frame(self._plan).writeStream.queryName(self.name)
            own = own.trigger(**(trigger_options(given) if isinstance(given, str) else given))
            own = own.foreachBatch(self._publish).option("checkpointLocation", self._checkpoint)
            self._query = own.start()
            self._tables.start(self._queries.standing(), commands.of(self._query))
            self._sinks.started()
        return self

    def _fix(self) -> PipelinePlan:
        """Choose the splits, and write down what is fixed from now on."""
        if not self._waiting:
            raise PipelineError(f"pipeline {self.name!r} has no query; register one before the first start")
        plan = self._planned()
        own = (self._partitions, plan.routes, self._one_clock, len(plan.stages), self._columns)
        Layout(*own).write(self._directory)
        return plan

    def _frame(self, plan: PipelinePlan) -> QueryFrame:
        prints = [fingerprint(planned, number) for number, planned in enumerate(plan.stages)]
        relays = [self._relay(plan, number, own) for number, own in enumerate(prints)]

        def build(parts: Parts, _: bool) -> DataFrame:
            df = exchange.pack(plan.sources, relays[0].keys, parts.read)
            df = df.unionAll(parts.commands.rows(relays[0].keys))
            for relay in relays:
                schema = PUBLISHED if relay is relays[-1] else exchange.BLOBS
                own = relay.of_plan(parts.plan)
                by_partition = parts.marked(df).groupBy("partition")
                df = by_partition.transformWithStateInPandas(own, schema, "Append", "None")
            return df

        ended = ticks_at_end(self._settings(), plan.time)
        return QueryFrame(
            self._spark,
            build,
            Starts(tuple(prints), tables.QueryTables((), (), {}), ended=ended, time=plan.time),
        )

    def _relay(self, plan: PipelinePlan, number: int, own: Fingerprint) -> Relay:
        """The processor of a stage: the last one publishes results, one before it also sends elements on."""
        planned, keys = plan.stages[number], exchange.partition_keys(plan.partitions)
        finish: Finish = Publish(self.results)
        engines = program.Program(planned.stage, program.Results())
        if planned is not plan.stages[-1]:
            finish = Divide(Forward(keys), Publish(self.results))
            engines = program.Program(planned.stage, program.Onward(plan.partitions))
        measured = Registry.of(self._spark.sparkContext).accumulator
        limit = self._settings().engine_memory
        return Relay(cloudpickle.dumps(engines), number, keys, own, finish, measured, limit)

    @told_by_spark
    def _publish(self, df: DataFrame, batch: int) -> None:
        """Show a batch's results to readers; drop the queries that failed in it."""
        found, failed, applied = published(df.collect())
        with self._lock:
            before = self.results.published()
            applied = max(applied, before.commands)
            running = self._queries.as_of(applied)
            if not {*found, *failed} <= set(running):
                raise PipelineError(
                    f"{self.results.location} does not have the batches that the pipeline has published; "
                    "restore the checkpoint from a copy, or use a new one"
                )
            shown = {running[n].id: pieces for n, pieces in found.items() if n not in failed}
            dropped = [r.id for r in self._queries.dropped(before.commands, applied)]
            self.results.publish(batch, shown, applied, dropped)
            for name, reason in failed.items():
                self._failed(running[name], reason)
            self._tables.taken_in({r.id for r in running.values()})
            self._sinks.running.ended(dropped)
        self.results.retire(time.time() - self._keep)

    def _failed(self, query: Registration, reason: str) -> None:
        known = self._queries.find(query.name)
        if known is not None and known.id == query.id and known.stands:
            _log.error("query %s of pipeline %s failed and is dropped: %s", query.name, self.name, reason)
            self._tables.drop([query.id])
            self._command(DROP, {"query": query.name, "failed": reason})

    def stop(self) -> None:
        """Stop the pipeline and its sinks; ``start`` resumes both where they were."""
        if self._query is not None:
            self._query.stop()
        self._sinks.running.stop()

    def sink_queries(self) -> list[tuple[str, StreamingQuery]]:
        """The Spark queries of sinks, each with the name of the query whose results it writes."""
        return self._sinks.running.queries()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end, as of a Spark query; then the sinks write what is published, and end."""
        try:
            return self._running().awaitTermination(timeout)
        finally:
            if not self._runs:
                self._sinks.running.finish()

    def process_all_available(self) -> None:
        """Wait until all rows that there are now have been processed, and sinks have written the results."""
        self._running().processAllAvailable()
        self._sinks.running.process_all_available()

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        return self._runs

    @property
    def lastProgress(self) -> Any:
        """Spark's report of the last batch, if there is one."""
        return None if self._query is None else self._query.lastProgress

    def exception(self) -> StreamingQueryException | None:
        """Why it has failed, as a sentence; None if it has not."""
        return None if self._query is None else self._query.exception()

    @property
    def query(self) -> StreamingQuery | None:
        """The Spark query, if the pipeline was started."""
        return self._query

    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise PipelineError(f"pipeline {self.name!r} was not started; call start()")
        return self._query

    @property
    def _runs(self) -> bool:
        return self._query is not None and self._query.isActive

    def _find(self, name: str) -> Registration | None:
        waiting = (w.registration for w in self._waiting.values())
        found = next((r for r in waiting if r.name.casefold() == name.casefold()), None)
        return found or self._queries.find(name)

    def _unknown(self, name: str) -> PipelineError:
        named = ", ".join([r.name for r in self._queries.standing()] + list(self._waiting))
        return PipelineError(f"pipeline {self.name!r} has no query {name!r}; it has {named or 'none'}")

    def _registered(self) -> list[Registration]:
        """All registrations, oldest first."""
        return [*self._queries, *(w.registration for w in self._waiting.values())]

    def _shown(self, r: Registration) -> PipelineQuery:
        return PipelineQuery(self, r.id, r.name, r.text)

    def _known(self, id: str) -> Registration:
        with self._lock:
            return next(r for r in self._registered() if r.id == id)

    def _results(self, r: Registration) -> QueryResults:
        return QueryResults(self.results.location, r.id, r.name, r.schema, r.kind)


def _words(text: str) -> list[str]:
    return text.strip().rstrip(";").split()


def _absolute(location: str) -> str:
    """The location for Spark, and for Arrow in other processes."""
    if "://" in location:
        return location.rstrip("/")
    return os.path.abspath(location.removeprefix("file:"))
