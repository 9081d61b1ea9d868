"""A session on Spark as a server's backend: queries of ``ps.sql``, pipelines and their queries."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import cql
from penstock.catalog import Catalog, Definition, ViewDef
from penstock.engine.knobs import OF_OPERATORS
from penstock.errors import CatalogError, PenstockError
from penstock.measurement import Measurements
from penstock.plan.explain import explain
from penstock.server.backend import Batch, Planned, Run
from penstock.server.results import Feed
from penstock.server.settings import FOLLOW_IDLE_S, FOLLOWED_BATCHES, KEPT_RUNS, SAMPLE_S
from penstock.server.views import ColumnView, InputView, SettingView
from penstock.spark.driver.commands import settings_of
from penstock.spark.driver.dataframe import result_schema
from penstock.spark.driver.failures import why
from penstock.spark.driver.insert import trigger_options
from penstock.spark.driver.knobs import KNOBS, OF_PIPELINES, value_of
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.started import Started, StartedQueries
from penstock.spark.map_side.results import QueryResults
from penstock.spark.wire.results import Results, shown

if TYPE_CHECKING:
    from penstock.spark.driver.pipeline import Pipeline, PipelineQuery
    from penstock.spark.driver.session import Session


class SessionBackend:
    """What a session runs; queries that the server itself starts have their results here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._started = StartedQueries.of(session.spark.sparkContext)
        self._feeds: dict[str, Feed] = {}
        self._batches: dict[str, Batch] = {}
        self._lock = threading.RLock()

    # what there is

    def runs(self) -> Sequence[Run]:
        found = [self._run(s) for s in self._started.all()]
        for run in found:
            if run.state != "running" and (feed := self._feeds.get(run.key)) is not None:
                feed.end()
        for pipeline in self._session.pipelines():
            found += self._pipeline_runs(pipeline)
        return found

    def _run(self, s: Started) -> Run:
        failure, active = s.query.exception(), s.query.isActive
        state = "running" if active else "failed" if failure else "stopped"
        run = str(s.query.runId)
        return Run(
            s.name,
            s.name,
            "query",
            state,
            s.described.text,
            run=run,
            error=_plain(failure),
            started=s.time,
            batch=self._batch(run, s.query),
            stages=s.described.stages,
            notes=s.described.notes,
            settings=settings_of(s.query),
            can=("stop", "set", "drop") if active else ("start", "drop"),
        )

    def _pipeline_runs(self, pipeline: Pipeline) -> Iterator[Run]:
        query, failure = pipeline.query, pipeline.exception()
        active = pipeline.isActive
        state = "running" if active else "failed" if failure else "stopped"
        run = str(query.runId) if query is not None else ""
        batch = self._batch(run, query) if query is not None else None
        own: dict[str, Any] = {"run": run, "settings": settings_of(query), "batch": batch}
        yield Run(
            pipeline.name,
            pipeline.name,
            "pipeline",
            state,
            error=_plain(failure),
            can=("stop", "set") if active else ("start",),
            **own,
        )
        for member in pipeline.queries():
            yield self._member(pipeline, member, active, own)

    def _member(self, pipeline: Pipeline, member: PipelineQuery, active: bool, own: dict[str, Any]) -> Run:
        state = member.state
        stands = state in ("registered", "running")
        return Run(
            f"{pipeline.name}.{member.name}",
            member.name,
            "member",
            state if active or not stands else "stopped",
            member.text,
            pipeline.name,
            root=member.name,
            error=member.reason,
            can=("drop",) if stands else (),
            **own,
        )

    def _batch(self, run: str, query: Any) -> Batch | None:
        """The last batch, which Spark is asked for only if it is another one than before."""
        with suppress(Exception):  # Spark may be stopping
            progress = query._jsq.lastProgress()
            if progress is None:
                return None
            known, number = self._batches.get(run), int(progress.batchId())
            if known is not None and known.number == number:
                return known
            report = json.loads(progress.json())
            seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1e3
            rows = int(report.get("numInputRows", 0))
            self._batches = {k: v for k, v in list(self._batches.items())[-KEPT_RUNS:]}
            self._batches[run] = Batch(number, time.time(), seconds, rows)
        return self._batches.get(run)

    def measurements(self) -> Measurements:
        return self._session.metrics()

    def length(self, run: str, ticks: int) -> str:
        return Registry.of(self._session.spark.sparkContext).length(run, ticks)

    def inputs(self) -> Sequence[InputView]:
        return [_input(d, self._session.catalog) for d in self._session.catalog.values()]

    # plans

    def plan(self, text: str) -> Planned:
        only_query(text)
        plan = self._session.plan(text)
        return Planned(plan.stages, (*plan.notes, *plan.warnings), explain(plan))

    # changes

    def register(self, name: str, text: str, pipeline: str | None = None, once: bool = False) -> str:
        statement = only_query(text)
        if pipeline is not None:
            self._session.pipeline(pipeline).register(name, text.strip().rstrip(";"))
            return f"{pipeline}.{name}"
        known = self._started.find(name)
        if known is not None and known.query.isActive:
            raise CatalogError(f"a query {name!r} is already running; stop it, or choose another name")
        df: Any = self._session.run(statement)
        feed = Feed(result_schema(self._session.plan(text)))

        def sink(batch: Any, number: int) -> None:
            for part in batch.toArrow().cast(feed.schema).to_batches():
                feed.put(part)

        writer = df.writeStream.queryName(name).foreachBatch(sink)
        trigger = "available-now" if once else self._session.settings.trigger
        writer = writer.trigger(**trigger_options(trigger))
        location = self._session.settings.checkpoint
        if location is not None:
            writer = writer.option("checkpointLocation", f"{location}/{name}")
        writer.start()
        with self._lock:
            self._feeds[name] = feed
        return name

    def start(self, key: str) -> None:
        pipeline = self._find_pipeline(key)
        if pipeline is not None:
            pipeline.start()
            return
        started = self._known(key)
        if started.query.isActive:
            raise CatalogError(f"query {key!r} is already running")
        started.again()

    def stop(self, key: str) -> None:
        pipeline = self._find_pipeline(key)
        if pipeline is not None:
            pipeline.stop()
        else:
            self._known(key).query.stop()

    def drop(self, key: str) -> None:
        pipeline, _, member = key.partition(".")
        found = self._find_pipeline(pipeline)
        if found is not None and member:
            found.drop(member)
            return
        started = self._known(key)
        started.query.stop()
        self._started.forget(started.name)
        with self._lock:
            feed = self._feeds.pop(started.name, None)
        if feed is not None:
            feed.end()

    def set(self, key: str, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():  # all are checked before the first is sent
            value_of(name, value)
        for name, value in settings.items():
            self._session.set(key.partition(".")[0], name, value)

    def settings(self, key: str, operator: str = "") -> Sequence[SettingView]:
        name = key.partition(".")[0]
        pipeline = self._find_pipeline(name)
        if pipeline is not None:
            made, now = self._session.settings, settings_of(pipeline.query)
        else:
            started = self._known(name)
            made, now = started.described.settings, settings_of(started.query)
        found = []
        for knob, k in KNOBS.items():
            if knob in OF_PIPELINES and pipeline is None:
                continue
            planned = getattr(made, {"publish_every": "sysstream_every"}.get(knob, knob), None)
            default = {"budget": "1", "profiling": ""}.get(knob, "none" if planned is None else str(planned))
            value = now.get(knob, default)
            if operator and knob in OF_OPERATORS:
                knob = f"{knob}@{operator}"
                value = now.get(knob, value)
            found.append(SettingView(knob, value, k.choices, k.doc, k.changes_results))
        return found

    def execute(self, text: str) -> str:
        done = []
        for statement in cql.parse(text):
            if isinstance(statement, cql.SelectStatement):
                raise CatalogError("this is a query; register it under a name")
            listed: Any = self._session.run(statement)
            if listed is None:
                done.append("done")
            else:
                rows = [listed.columns, *(map(str, row) for row in listed.collect())]
                done.append("\n".join("\t".join(row) for row in rows))
        return "\n".join(done)

    def feed(self, key: str) -> Feed:
        with self._lock:
            feed = self._feeds.get(key)
            if feed is not None:
                return feed
            pipeline, _, member = key.partition(".")
            found = self._find_pipeline(pipeline)
            if found is None or not member:
                self._known(key)
                raise CatalogError(
                    f"the results of {key!r} go to the sink that it was started with; register a query "
                    "through the server to read its results here"
                )
            source = found.source(member)
            feed = self._feeds[key] = Feed(source.schema)
        threading.Thread(target=self._follow, args=(key, feed, source), daemon=True).start()
        return feed

    def _follow(self, key: str, feed: Feed, source: QueryResults) -> None:
        """Read what a pipeline publishes of a query, until nobody reads it here for a while."""
        results, idle = Results(source.location), 0
        at = max(results.published().next - FOLLOWED_BATCHES, results.published().first)
        while idle * SAMPLE_S < FOLLOW_IDLE_S:
            now = results.published()
            for batch in range(max(at, now.first), now.next):
                with suppress(FileNotFoundError):  # it is older than the pipeline keeps results
                    for piece in results.pieces(batch, source.id):
                        for part in results.read(piece):
                            columns = shown(part, source.schema, source.kind)
                            feed.put(pa.RecordBatch.from_pydict(columns, schema=source.schema))
            at = now.next
            idle = 0 if feed.readers else idle + 1
            time.sleep(SAMPLE_S)
        with self._lock:
            self._feeds.pop(key, None)
        feed.end()

    def _find_pipeline(self, name: str) -> Pipeline | None:
        return next((p for p in self._session.pipelines() if p.name.casefold() == name.casefold()), None)

    def _known(self, key: str) -> Started:
        found = self._started.find(key)
        if found is None:
            names = ", ".join(s.name for s in self._started.all()) or "none"
            raise CatalogError(f"there is no query {key!r}; there are: {names}")
        return found


def only_query(text: str) -> cql.SelectStatement:
    """The query that a text is; statements that define something are refused."""
    statements = cql.parse(text)
    if len(statements) != 1 or not isinstance(statements[0], cql.SelectStatement):
        raise PenstockError("write one query: a SELECT, or ISTREAM, DSTREAM or RSTREAM of one")
    return statements[0]


def _plain(failure: BaseException | None) -> str:
    return "" if failure is None else why(failure)


def _input(d: Definition, catalog: Catalog) -> InputView:
    columns = tuple(ColumnView(*column) for column in cql.columns_of(d, catalog))
    return InputView(d.name, d.kind, columns, d.text if isinstance(d, ViewDef) else "")
