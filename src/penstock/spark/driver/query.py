"""Spark's handle of a running query, with what Penstock knows of it: why it failed, and its late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.driver.failures import Failure, as_a_sentence
from penstock.spark.driver.measurements import Registry

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
        counts = self._registry.late_rows(str(self.runId))
        if progress is not None and counts:
            progress["observedMetrics"][LATE_ROWS] = Row(**counts)
        return progress
