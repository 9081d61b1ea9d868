"""The sinks of a pipeline's queries: Spark queries over their results, each with a checkpoint.

A sink reads the published results of one query, so it may be slower than the pipeline, fail, and be started
again, and the others go on. It writes each result exactly once if Spark's sink does.

A query that takes the place of another, which was dropped, writes on with the sink's checkpoint: Spark's file
sink, and others by their documentation, tell batches apart by number, and a new checkpoint would begin at 0.
The sink first writes all results of the query that was dropped; the file ``results.json`` in the checkpoint
names the query whose results it wrote last, and whether those were all.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import PenstockError
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.failures import sentence
from penstock.spark.driver.outputs import check_output, file_output
from penstock.spark.map_side.results import QueryResults

_log = logging.getLogger("penstock")
_WROTE = "results.json"

Sink = Callable[[DataFrame], DataStreamWriter]
"""Makes the writer of a query's results."""


@dataclass(frozen=True)
class _Part:
    """What a sink writes of one query."""

    results: QueryResults
    sink: Sink

    @property
    def id(self) -> str:
        return self.results.id


@dataclass(frozen=True)
class Wrote:
    """The query whose results a sink wrote last. ``all``: it was dropped, and none of them is left."""

    query: str
    all: bool


class Line:
    """A sink's checkpoint, and the queries whose results are written with it, one after the other."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._parts: list[_Part] = []
        self._ended: set[str] = set()
        self._query: StreamingQuery | None = None
        self._refused = ""
        self._ending: threading.Thread | None = None
        self._lock = threading.RLock()

    def __contains__(self, id: str) -> bool:
        return any(part.id == id for part in self._parts)

    def add(self, results: QueryResults, sink: Sink) -> None:
        """A query to be written after those that are there; one that is written stays as it is."""
        with self._lock:
            known = next((n for n, part in enumerate(self._parts) if part.id == results.id), None)
            if known is None:
                self._parts.append(_Part(results, sink))
            elif not self.runs or known > 0:
                self._parts[known] = _Part(results, sink)

    def forget(self, id: str) -> None:
        """Do not write the results of a query, if none were written."""
        with self._lock:
            if self._query is None:
                self._parts = [part for part in self._parts if part.id != id]

    def ended(self, ids: Collection[str]) -> None:
        """No results of these queries will come any more."""
        with self._lock:
            self._ended |= {part.id for part in self._parts if part.id in ids}
            self._end_first()

    @property
    def query(self) -> tuple[str, StreamingQuery] | None:
        """The Spark query, with the name of the query whose results it writes."""
        with self._lock:
            if self._query is None or not self._parts:
                return None
            return self._parts[0].results.query, self._query

    @property
    def runs(self) -> bool:
        return self._query is not None and self._query.isActive

    def start(self) -> None:
        """Start the Spark query, if none runs. One that is refused does not hold back other sinks."""
        with self._lock:
            if not self._parts or self.runs:
                return
            part = self._parts[0]
            try:
                self._query, self._refused = self._started(part), ""
                self._end_first()
            except (PySparkException, PenstockError) as error:
                self._query, self._refused = None, sentence(error)
                _log.error("the sink of query %s cannot be started: %s", part.results.query, self._refused)

    def _started(self, part: _Part) -> StreamingQuery:
        writer = part.sink(part.results.dataframe(self._spark))
        place, output = Directory(self._spark, self._checkpoint), file_output(writer._jwrite)
        if output is not None:
            check_output(self._spark, output, place)
        query = writer.option("checkpointLocation", self._checkpoint).start()
        note(place, Wrote(part.id, False))
        return query

    def _end_first(self) -> None:
        """Write the rest of the first query if it was dropped, without waiting for it."""
        if self.runs and self._parts[0].id in self._ended and not self._is_ending:
            self._ending = threading.Thread(target=self._end, args=(self._parts[0], self._query), daemon=True)
            self._ending.start()

    @property
    def _is_ending(self) -> bool:
        return self._ending is not None and self._ending.is_alive()

    def _end(self, part: _Part, query: StreamingQuery) -> None:
        """Write all results of a query that was dropped, then go on with the next one."""
        try:
            query.processAllAvailable()
        except PySparkException as error:
            _log.error("the sink of query %s failed: %s", part.results.query, sentence(error))
            return
        with self._lock:
            if not query.isActive:  # it was stopped meanwhile: the next start writes the rest
                return
            query.stop()
            note(Directory(self._spark, self._checkpoint), Wrote(part.id, True))
            self._parts.remove(part)
            self._ending = None
            self.start()

    def process_all_available(self) -> None:
        """Wait until it has written all results that are published."""
        while (ending := self._ending) is not None and ending.is_alive():
            ending.join()
        if self._query is not None and self._parts:
            self._query.processAllAvailable()

    def finish(self) -> None:
        """Wait until it has written what is published, then end it."""
        try:
            self.process_all_available()
        except PySparkException as error:
            _log.error("the sink of query %s failed: %s", self._parts[0].results.query, sentence(error))
        self.stop()

    def stop(self) -> None:
        """Stop where it is."""
        with self._lock:
            if self._query is not None:
                self._query.stop()

    def state(self, id: str) -> str:
        """What has become of the sink of a query."""
        with self._lock:
            if self._parts[0].id != id:
                first = self._parts[0]
                return f"waits until the results of {first.results.query} are written: {self.state(first.id)}"
            if self._query is None:
                return self._refused or "not started"
            failure = self._query.exception()
            return sentence(failure) if failure is not None else "running" if self.runs else "ended"


class Sinks:
    """The sinks of a pipeline, by checkpoint."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lines: dict[str, Line] = {}
        self._written: set[str] = set()

    def add(self, results: QueryResults, sink: Sink, checkpoint: str) -> None:
        """Remember the sink of a query."""
        self._written.add(results.id)
        self._lines.setdefault(checkpoint, Line(self._spark, checkpoint)).add(results, sink)

    def forget(self, id: str) -> None:
        """Do not write the results of a query that was dropped before it ran."""
        for line in self._lines.values():
            line.forget(id)

    def ended(self, ids: Collection[str]) -> None:
        """Queries were dropped and have no more results: their sinks write what there is, and end."""
        for line in list(self._lines.values()):
            line.ended(ids)

    def start(self) -> None:
        """Start those that do not run."""
        for line in list(self._lines.values()):
            line.start()

    def queries(self) -> list[tuple[str, StreamingQuery]]:
        """The Spark queries of those that were started, each with the query whose results it writes."""
        return [found for line in list(self._lines.values()) if (found := line.query) is not None]

    def process_all_available(self) -> None:
        """Wait until they have written all results that are published."""
        for line in list(self._lines.values()):
            line.process_all_available()

    def stop(self) -> None:
        """Stop them where they are."""
        for line in list(self._lines.values()):
            line.stop()

    def finish(self) -> None:
        """Wait until all have written what is published, then end them."""
        for line in list(self._lines.values()):
            line.finish()

    def state(self, id: str) -> str:
        """What has become of a query's sink; nothing if it has none."""
        line = next((own for own in self._lines.values() if id in own), None)
        if line is None:
            return "ended" if id in self._written else ""
        return line.state(id)


def wrote(checkpoint: Directory) -> Wrote | None:
    """What a sink's checkpoint has written last; None if nothing, or if an earlier version wrote it."""
    try:
        found = json.loads(checkpoint.read(_WROTE) or "null")
    except ValueError:
        return None
    return None if found is None else Wrote(found["query"], found["all"])


def note(checkpoint: Directory, what: Wrote) -> None:
    """Write it down."""
    if wrote(checkpoint) != what:
        checkpoint.write(_WROTE, json.dumps({"query": what.query, "all": what.all}))
