"""``penstock run``: CQL files as a program.

Its statements run in order. INSERT INTO starts a query for its sink; a bare SELECT goes to the sink of the
command line. The program ends when its queries have ended, when one fails, or after a signal to stop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import cql
from penstock.catalog import SinkDef
from penstock.cli.output import Printed
from penstock.cli.script import queries_of, read
from penstock.cli.session import Stop, local_session, stoppable, user_error
from penstock.cli.settings import POLL_S, PROGRESS_S, STOP_S
from penstock.errors import PenstockError
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.driver.pipeline import Pipeline
    from penstock.spark.driver.session import Session

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class Program:
    """CQL files, one after the other, and what the command line says of their queries.

    ``sink`` and ``out`` are for bare SELECTs. ``once``: every query ends with the input that is there;
    ``complete``: with its last instants.
    """

    paths: Sequence[Path]
    trigger: str = "0 seconds"
    sink: str = "console"
    out: Path | None = None
    checkpoint: Path | None = None
    once: bool = False
    complete: bool = False

    def settings(self) -> Settings:
        """The settings that the program begins with."""
        given = Settings().changed("trigger", "available-now" if self.once else self.trigger)
        if self.complete:
            given = given.changed("at_end", "complete")
        return given if self.checkpoint is None else given.changed("checkpoint", str(self.checkpoint))

    def check(self) -> None:
        """Report mistakes, before Spark starts."""
        if self.sink == "parquet" and self.out is None:
            raise PenstockError("the parquet sink needs a directory: add --out DIR")
        self.settings()
        names = [q.sink.name for q in queries_of(self.paths, to_run=True) if q.sink is not None]
        for name in names:
            if names.count(name) > 1:
                hint = "write one with UNION ALL, or create another sink"
                raise PenstockError(f"{names.count(name)} queries write to sink {name!r}; {hint}")

    def statements(self) -> Iterator[cql.Statement]:
        """Its statements. A bare SELECT is an INSERT; with ``once``, no sink has a trigger of its own."""
        parsed = [s for text in cql.split(read(self.paths)) for s in cql.parse(text)]
        selects, number = sum(isinstance(s, cql.SelectStatement) for s in parsed), 0
        for statement in parsed:
            match statement:
                case cql.SelectStatement(expression):
                    number += 1
                    sink = self._sink(number, selects)
                    yield cql.CreateSink(sink)
                    yield cql.Insert(sink.name, statement, expression)
                case cql.CreatePipeline() if self.once:
                    yield replace(statement, trigger=None)
                case cql.CreateSink(sink) if self.once:
                    yield replace(statement, sink=replace(sink, trigger=None))
                case cql.Set(name) if self.once and name.lower() == "penstock.trigger":
                    continue
                case _:
                    yield statement

    def _sink(self, number: int, count: int) -> SinkDef:
        """The sink of a bare SELECT, one of ``count``."""
        name = f"query-{number}"
        place = name if count > 1 else ""
        out, checkpoint = (None if p is None else str(p / place) for p in (self.out, self.checkpoint))
        return SinkDef(name, self.sink, out, checkpoint=checkpoint)


def run_file(program: Program) -> Stop:
    """Run a program until it ends; the signal that stopped it, if there was one."""
    program.check()
    with stoppable() as stop, local_session() as session:
        _log.info("%s: Spark %s started", program.paths[-1], session.spark.version)
        session.settings = program.settings()
        printed = Printed(session.spark.sparkContext._jvm)
        try:
            Running(*(([], []) if stop.is_set() else _started(program, session)), printed).wait(stop)
        finally:
            printed.end()
    return stop


def _started(program: Program, session: Session) -> tuple[list[StreamingQuery], list[Pipeline]]:
    """Run the statements, then start the pipelines; what SHOW and the like list is printed."""
    queries, names = [], []
    for statement in program.statements():
        listing = session.run(statement)
        if listing is not None:
            listing.show(truncate=False)
        if isinstance(statement, cql.Insert):
            queries.append(session.query(statement.sink))
        elif isinstance(statement, cql.CreatePipeline):
            names.append(statement.name)
        elif isinstance(statement, cql.Drop) and statement.kind == "pipeline":
            names.remove(statement.name)
    for name in names:
        if not session.pipeline(name).isActive:
            session.run(cql.SwitchPipeline("start", name))
    return queries, [session.pipeline(name) for name in names]


@dataclass
class Seen:
    """What the log knows of a query: its last batch with rows, its last report, when that was first seen."""

    since: float
    batch: int = -1
    last: list[Any] = field(default_factory=list)


@dataclass
class Running:
    """The queries and pipelines of a program, and what the log has of each; ``printed``: what sinks print."""

    inserts: Sequence[StreamingQuery]
    pipelines: Sequence[Pipeline]
    printed: Printed
    seen: dict[str, Seen] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def queries(self) -> list[StreamingQuery]:
        """The Spark queries, but for those of the sinks of pipelines."""
        return [*self.inserts, *(p.query for p in self.pipelines if p.query is not None)]

    def _named(self) -> Iterator[tuple[str, StreamingQuery]]:
        """All queries, each with its name in the log."""
        yield from ((query.name, query) for query in self.queries)
        for pipeline in self.pipelines:
            yield from ((f"{pipeline.name}.{name}, its sink", q) for name, q in pipeline.sink_queries())

    def wait(self, stop: Stop) -> None:
        """Wait until all have ended, one has failed, or there is a signal to stop."""
        from penstock.spark.driver.query import stop_after_batch

        for query in self.queries:
            _log.info("%s: started, run %s", query.name, query.runId)
        looked = time.monotonic()
        try:
            while any(q.isActive for q in self.queries) and not stop.wait(POLL_S):
                self._raise_failure()
                self.printed.check()
                if time.monotonic() - looked >= PROGRESS_S:
                    looked = time.monotonic()
                    self._log_progress()
            self._raise_failure()
            if stop.is_set():
                _log.info("stopping after the batches under way; a second signal stops at once")
        finally:
            hurried = lambda: stop.signals > 1 or self.printed.failed  # noqa: E731
            whole = stop_after_batch(self.queries, STOP_S, hurried)
            for pipeline in self.pipelines:
                # Of one that has ended by itself, sinks still write what is published.
                pipeline.stop() if stop.is_set() else pipeline.awaitTermination()
            self._log_progress()
            for query in self.queries:
                _log.info("%s: ended%s", query.name, "" if whole else ", its last batch may be interrupted")

    def _raise_failure(self) -> None:
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                error = user_error(failure)
                _log.error("%s: %s", query.name, error)
                raise error

    def _log_progress(self) -> None:
        """A line about each query that has had batches since the last one, or has one under way."""
        now = time.monotonic()
        for name, query in self._named():
            seen = self.seen.setdefault(name, Seen(self.began))
            reports = query.recentProgress
            new = [p for p in reports if p["batchId"] > seen.batch and p["numInputRows"]]
            if new:
                seen.batch = new[-1]["batchId"]
                _log.info("%s: %s", name, progress(new))
            elif reports[-1:] == seen.last and _is_in_batch(query):
                _log.info("%s: a batch is under way for %.0f s", name, now - seen.since)
            if reports[-1:] != seen.last:
                seen.last, seen.since = reports[-1:], now


def _is_in_batch(query: StreamingQuery) -> bool:
    status = query.status
    return query.isActive and bool(status["isTriggerActive"] and status["isDataAvailable"])


def progress(batches: Sequence[Any]) -> str:
    """Batches in a line.

    >>> progress([{"batchId": 7, "numInputRows": 5000, "durationMs": {"triggerExecution": 250}}])
    'batch 7, 5,000 rows in 1 batches, 20,000 rows/s, the last took 0.25 s'
    """
    rows = sum(b["numInputRows"] for b in batches)
    seconds = [b["durationMs"].get("triggerExecution", 0) / 1000 for b in batches]
    rate = rows / sum(seconds) if sum(seconds) else 0.0
    return (
        f"batch {batches[-1]['batchId']}, {rows:,} rows in {len(batches)} batches, {rate:,.0f} rows/s, "
        f"the last took {seconds[-1]:.2f} s"
    )
