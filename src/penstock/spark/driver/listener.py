"""Ends a query's resident engines when the query stops, and warns of heavy keys, late rows and silence."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock import sysstream
from penstock.errors import CatalogError
from penstock.measurement import Measurements
from penstock.spark.driver.callbacks import calling_port, close_connection
from penstock.spark.driver.finite_run import FiniteRuns
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.outputs import own_output
from penstock.spark.driver.parts import plans_in
from penstock.spark.driver.shared_memory import SharedMemory
from penstock.spark.driver.sysstream import Publishers
from penstock.spark.resident import connection
from penstock.spark.settings import ADVICE_INTERVAL_S
from penstock.streamon.advice import held_back, late, skew, violated

_log = logging.getLogger("penstock")

Place = tuple[str, str, str]
"""What is warned of, in which query run, of which input."""


class EndEngines(StreamingQueryListener):
    """Ends the engines on the driver's machine when a query run is over.

    Engines on other machines end when they have been idle for long enough.
    ``runs`` are the runs of the session that have started and not ended, with their queries.
    """

    def __init__(self, spark: SparkSession, root: Path) -> None:
        context = spark.sparkContext
        self._spark, self._root = spark, root
        self._registry, self._shared = Registry.of(context), SharedMemory.of(context)
        self.publishers = Publishers.of(context)
        self.runs: dict[str, str] = {}
        self._ports: dict[str, int | None] = {}
        self._warned: dict[Place, str] = {}
        self._held_back: dict[tuple[str, str], float] = {}
        self._looked = 0.0

    def end_stopped(self, running: Iterable[str]) -> bool:
        """End the engines of the runs seen so far that are not running; whether none of those is left."""
        going_on = self.runs.keys() & set(running)
        for run_id in list(self.runs.keys() - going_on):
            self._end(run_id)
        return not going_on

    def _end(self, run_id: str, failed: bool = False) -> None:
        # A run may have been too short to be looked at before, and rows came late since the last look.
        self._say(self._advice([run_id]), again=True)
        left_out = FiniteRuns.of(self._spark.sparkContext).ended(run_id, self._registry.latest(run_id))
        if left_out and not failed:
            _log.warning("%s", left_out)
        self.publishers.ended(run_id)
        query_id, port = self.runs.pop(run_id, ""), self._ports.pop(run_id, None)
        if port is not None:
            close_connection(port)
        with self._registry.lock:  # the next run of the query waits, and may then have engines
            plans = self._registry.end(query_id, run_id)
            if plans is not None:
                connection.quit_query(self._root, query_id, plans)
        self._shared.rebalance()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Record the run, whose engines start when they are needed, and whose its output is.

        Spark calls this before the run's first batch, and waits for it. It tells of the end of the run before
        at any time.
        """
        self.runs[str(event.runId)], self._ports[str(event.runId)] = str(event.id), calling_port()
        with self._registry.lock:
            self._registry.begin(str(event.id), str(event.runId))
            connection.admit_query(self._root, str(event.id))
        streams: Any = self._spark._jsparkSession.streams()
        query = streams.get(str(event.id))
        for plan in plans_in(query.streamingQuery().analyzedPlan().toString()):
            self._registry.started(str(event.id), plan)
        try:
            own_output(self._spark, query)
        except CatalogError as error:
            _log.error("query %s cannot be started: %s", event.name or event.id, error)
        self.publishers.started(str(event.runId), lambda: streams.get(str(event.id)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.on_progress()

    def on_progress(self) -> None:
        """Redistribute shared memory; from time to time, warn of skew, late rows and silent inputs."""
        self._shared.rebalance()
        if time.monotonic() - self._looked >= ADVICE_INTERVAL_S:
            self._looked = time.monotonic()
            self._say({**self._advice(self.runs), **self._silent(self.runs)})

    def _advice(self, runs: Iterable[str]) -> dict[Place, str]:
        """Of a key with too many rows for one partition, and of late rows."""
        found = self._measured(runs)
        # Of SysStream, whose rows are few and of few queries, nothing is to be split.
        uneven = [s for s in skew(found) if s.advice and s.input != sysstream.NAME]
        unevenly = {("skew", s.query, s.input): s.advice for s in uneven}
        unevenly |= {("violated", *place): warning for place, warning in violated(found).items()}
        return unevenly | {
            ("late", *place): warning for place, warning in late(found, self._registry.length).items()
        }

    def _silent(self, runs: Iterable[str]) -> dict[Place, str]:
        """Of the inputs that hold results back and have not moved since the last look."""
        before, now = self._held_back, held_back(self._measured(runs))
        self._held_back = {place: time for place, (time, _) in now.items()}
        return {
            ("silent", *place): warning for place, (time, warning) in now.items() if before.get(place) == time
        }

    def _measured(self, runs: Iterable[str]) -> Measurements:
        return Measurements(m for run_id in list(runs) for m in self._registry.latest(run_id))

    def _say(self, warnings: Mapping[Place, str], again: bool = False) -> None:
        """Warn once of each thing; ``again`` if what is to be said of it has changed."""
        for what, warning in warnings.items():
            if self._warned.get(what) != warning and (again or what not in self._warned):
                _log.warning("%s", warning)
            self._warned.setdefault(what, warning)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._end(str(event.runId), failed=event.exception is not None)

    @property
    def _jlistener(self) -> Any:
        """Without progress events: there are many, and pyspark's adapter reads each field by field."""
        if not hasattr(self, "_adapter"):
            jvm = SparkContext._jvm
            assert jvm is not None
            self._adapter = jvm.PythonStreamingQueryListenerWrapper(_StartsAndEnds(self))
        return self._adapter


class _StartsAndEnds:
    """The object that the JVM calls; it passes on events of start and end, and that there was progress."""

    def __init__(self, listener: EndEngines) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:
        self._listener.onQueryStarted(QueryStartedEvent.fromJObject(event))

    def onQueryProgress(self, event: Any) -> None:
        self._listener.on_progress()
        if self._listener.publishers.wanted:
            self._listener.publishers.progressed(str(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:
        self._listener.publishers.publish()

    def onQueryTerminated(self, event: Any) -> None:
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
