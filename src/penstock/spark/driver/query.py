"""Spark's handle of a running query, with what Penstock knows of it: why it failed, and its late rows.

Also how queries stop between two batches, for which Spark has no call: ``StreamingQuery.stop`` interrupts the
batch under way, which a restart repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.driver.failures import Failure, as_a_sentence
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.notebook import show_live, small_view
from penstock.spark.settings import STOP_POLL_S

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

LATE_ROWS = "penstock.late_rows"
"""The name under which a progress report has the number of late rows of each input."""


class Query(StreamingQuery):
    """A query whose failure is a sentence, and whose last progress has its late rows so far."""

    def __init__(self, jsq: Any, registry: Registry) -> None:
        super().__init__(jsq)
        self._registry = registry

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        with as_a_sentence():
            return super().awaitTermination(timeout)

    def processAllAvailable(self) -> None:
        with as_a_sentence():
            super().processAllAvailable()

    def exception(self) -> StreamingQueryException | None:
        failure = super().exception()
        return None if failure is None else Failure.of(failure)

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The last report; its observed metrics have the late rows since the query began, by input."""
        progress = super().lastProgress
        return None if progress is None else self._with_late_rows(progress)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The last reports, of which the last one has the late rows."""
        found = list(super().recentProgress)
        return [*found[:-1], *map(self._with_late_rows, found[-1:])]

    def _with_late_rows(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        if counts := self._registry.late_rows(str(self.runId)):
            progress["observedMetrics"][LATE_ROWS] = Row(**counts)
        return progress

    def _repr_html_(self) -> str:
        """For notebooks: what the query does now."""
        failure, active = self.exception(), self.isActive
        state = "running" if active else "failed" if failure else "stopped"
        found = self._registry.latest(str(self.runId))
        return small_view(self.name or str(self.id), state, found, str(failure) if failure else "")

    def _ipython_display_(self) -> None:
        """The same, kept up to date while the query runs."""
        show_live(self._repr_html_, lambda: bool(self.isActive))


def stop_after_batch(
    queries: Sequence[StreamingQuery], seconds: float, at_once: Callable[[], bool] = lambda: False
) -> bool:
    """Stop queries when their batches under way have ended; whether none had to be interrupted.

    After some seconds, or when ``at_once`` returns True, the others are interrupted.
    """
    running = [q for q in queries if q.isActive]
    for query in running:
        _start_no_more_batches(query)
    deadline = time.monotonic() + seconds
    busy = running
    while (busy := [q for q in busy if _in_batch(q)]) and time.monotonic() < deadline and not at_once():
        time.sleep(STOP_POLL_S)
    for query in queries:
        query.stop()
    return not busy


def _start_no_more_batches(query: StreamingQuery) -> None:
    """Set the state that Spark's thread for a query looks at after each batch."""
    execution = query._jsq.streamingQuery()
    jvm: Any = SparkContext._jvm
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    execution.state().set(getattr(runtime, "TERMINATED$").__getattr__("MODULE$"))


def _in_batch(query: StreamingQuery) -> bool:
    thread: Any = query._jsq.streamingQuery().queryExecutionThread()
    return bool(thread.isAlive()) and bool(query.status["isTriggerActive"])
