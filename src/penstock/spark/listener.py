"""Ends a query's resident engines when the query stops."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.spark import connection


class EndEngines(StreamingQueryListener):
    """Tells the hosts on the driver's machine that a query run is over.

    Engines on other machines notice that nobody calls and go when they have been idle for long enough.
    ``runs`` are the runs of the session that have started and not ended.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.runs: set[str] = set()

    def end_stopped(self, running: Iterable[str]) -> bool:
        """End the engines of the runs seen so far that are not running; whether none of those is left."""
        going_on = self.runs & set(running)
        for run_id in list(self.runs - going_on):
            self._end(run_id)
        return not going_on

    def _end(self, run_id: str) -> None:
        connection.quit_run(self._root, run_id)
        self.runs.discard(run_id)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Engines start when they are needed; only remember the run."""
        self.runs.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The run's engines are no longer needed."""
        self._end(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        """Progress events are many, and pyspark's adapter reads each one field by field: keep them out."""
        if not hasattr(self, "_adapter"):
            jvm = SparkContext._jvm
            assert jvm is not None
            self._adapter = jvm.PythonStreamingQueryListenerWrapper(_StartsAndEnds(self))
        return self._adapter


class _StartsAndEnds:
    """What the JVM calls; only a query's start and end are passed on."""

    def __init__(self, listener: EndEngines) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:
        self._listener.onQueryStarted(QueryStartedEvent.fromJObject(event))

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
