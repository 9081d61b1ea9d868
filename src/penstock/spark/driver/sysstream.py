"""SysStream in the driver: measurements that came with a batch go to files, and Spark reads the files.

A publication is one Parquet file, written after a batch and renamed when it is complete; Spark's file source
gives it an offset. Nothing is published while no query reads the directory, more often than the period says,
or after a batch that brought only rows of SysStream: a query over SysStream would feed itself without end. Of
the measurements only those are written that some query's filter lets pass, and those of the query as a whole.
"""

from __future__ import annotations

import atexit
import json
import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock import sysstream
from penstock.engine.evaluate import true_mask
from penstock.errors import CatalogError
from penstock.expression import Expression
from penstock.measurement import Kind, Measurement, Measurements
from penstock.schema import TIMESTAMP
from penstock.settings import Settings
from penstock.spark.driver.local_spark import is_local
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.sources import ticks
from penstock.spark.resident.late_rows import opened
from penstock.spark.settings import SYSSTREAM_KEEP_S

_log = logging.getLogger("penstock")
FOLDER = "sysstream"
_COMMANDS = "MemoryStream["
"""How Spark describes a command stream, whose rows are no input."""


class SysStreamFrame:
    """The source of SysStream in a session, as ``sources.InputFrame``; it is made when a query reads it."""

    sign = inner = None

    def __init__(self, spark: SparkSession, settings: Callable[[], Settings]) -> None:
        self._spark, self._settings = spark, settings

    def read_by(self, filter: Expression | None) -> None:
        """A query over it has this filter, in its columns' own names; None: it reads all rows."""
        self._publisher().filters[str(filter)] = filter

    @property
    def df(self) -> DataFrame:
        directory = self._publisher().directory
        return self._spark.readStream.schema(from_arrow_schema(sysstream.SCHEMA)).parquet(directory)

    def _publisher(self) -> Publisher:
        settings, publishers = self._settings(), Publishers.of(self._spark.sparkContext)
        directory = settings.sysstream
        if directory is None and settings.checkpoint is not None:
            directory = f"{settings.checkpoint}/{FOLDER}"
        if directory is None:
            directory = self._temporary(publishers)
        return publishers.open(directory, settings.sysstream_every)

    def _temporary(self, publishers: Publishers) -> str:
        if not is_local(self._spark):
            raise CatalogError(
                "on a cluster SysStream needs a directory that all machines share; SET penstock.sysstream = "
                "'directory'"
            )
        return publishers.temporary()

    @property
    def ticks(self) -> Column:
        return ticks("ts", TIMESTAMP)


def read_by(found: pa.Table, filters: Sequence[Expression | None]) -> pa.Table:
    """The rows that some query reads, by the filters of all; None reads every row.

    Those of a query as a whole are always among them: without a row, a publication would not have a time.
    """
    if None in filters or not filters:
        return found
    columns = {name: found.column(name) for name in found.schema.names}
    wanted = np.asarray(found.column("kind")) == Kind.QUERY.value
    for filter in filters:
        assert filter is not None
        wanted |= true_mask(filter, columns, found.num_rows)
    return found.filter(pa.array(wanted))


@dataclass
class Publisher:
    """Publishes to one directory; ``readers`` are the runs that read it.

    ``due``: by run, the seconds of its last batch, if that was not published. ``published``: by run, when.
    ``periods``: by run, the seconds between two publications, if it has its own.
    ``filters``: of the queries that were made over it, by their texts.
    """

    directory: str
    every: float
    readers: set[str] = field(default_factory=set)
    due: dict[str, float] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    periods: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    filters: dict[str, Expression | None] = field(default_factory=dict)
    seconds: float = 0.0
    _last: int = 0
    _swept: float = field(default_factory=lambda: time.monotonic())

    def note(self, run: str, name: str, seconds: float) -> None:
        """A batch of a run has ended."""
        self.due[run], self.names[run] = seconds, name

    def publish(self, latest: Callable[[str], Measurements], at_once: str | None = None) -> None:
        """Publish what is due; of the run ``at_once``, whatever the period says."""
        now = time.monotonic()
        began = time.perf_counter()
        due = [r for r in self.due if r == at_once or self._is_due(r, now)]
        parts = []
        for run in due if self.readers else ():
            found, seconds = latest(run), self.due.pop(run)
            if not found:
                # No engines: a sink of a pipeline, say, whose rows may be of a query over SysStream.
                continue
            batch = sysstream.of_batch(found, seconds, self.seconds)
            parts.append((run, [*batch, *found]))
            self.published[run] = now
        if parts:
            self._write(parts)
            self.seconds = time.perf_counter() - began

    def _is_due(self, run: str, now: float) -> bool:
        every = self.periods.get(run, self.every)
        return now - self.published.get(run, -every) >= every

    def end(self, run: str) -> None:
        """Forget a run; if it has published, its end is published."""
        self.readers.discard(run)
        self.due.pop(run, None)
        self.periods.pop(run, None)
        if self.published.pop(run, None) is not None and self.readers:
            self._write([(run, sysstream.of_end(run))])
        self.names.pop(run, None)

    def _write(self, parts: Sequence[tuple[str, list[Measurement]]]) -> None:
        """Write a file atomically; a failure is reported, and no reason to end a query."""
        self._last = ts = max(time.time_ns() // 1000, self._last + 1)
        every = pa.concat_tables(sysstream.rows(found, self.names[run], ts) for run, found in parts)
        rows = read_by(every, list(self.filters.values()))
        try:
            files, root = opened(self.directory)
            name = f"{ts}-{uuid.uuid4().hex[:8]}.parquet"
            pq.write_table(rows, f"{root}/.{name}", filesystem=files)
            files.move(f"{root}/.{name}", f"{root}/{name}")
            if time.monotonic() - self._swept > SYSSTREAM_KEEP_S / 60:
                self._swept = time.monotonic()
                self._sweep(files, root, ts - int(SYSSTREAM_KEEP_S * 1e6))
        except OSError as error:
            _log.warning("SysStream cannot be written to %s: %s", self.directory, error)

    def _sweep(self, files: pyarrow.fs.FileSystem, root: str, oldest: int) -> None:
        """Delete the files that are older than what is kept."""
        for found in files.get_file_info(pyarrow.fs.FileSelector(root)):
            stamp = found.base_name.partition("-")[0]
            if stamp.isdigit() and int(stamp) < oldest:
                files.delete_file(found.path)


class Publishers:
    """The publishers of one Spark application, by directory."""

    def __init__(self, latest: Callable[[str], Measurements]) -> None:
        self._latest = latest
        self._by_directory: dict[str, Publisher] = {}
        self._temporary: str | None = None
        self._batches: dict[str, int] = {}

    @staticmethod
    def of(context: SparkContext) -> Publishers:
        return _publishers(context)

    def temporary(self) -> str:
        """A directory for this process."""
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="penstock-sysstream-")
            atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary

    def open(self, directory: str, every: float) -> Publisher:
        """Make a directory; from now on queries over it are recognized when they start."""
        opened(directory)
        known = self._by_directory.setdefault(directory, Publisher(directory, every))
        known.every = every
        return known

    def set_period(self, run: str, every: float) -> None:
        """Publish the measurements of a run more or less often than those of others."""
        for publisher in self._by_directory.values():
            publisher.periods[run] = every

    def started(self, run: str, query: Callable[[], Any]) -> None:
        """A run has started; ``query`` returns Spark's handle in the JVM, whose plan names what it reads."""
        handle = query() if self._by_directory else None
        read = [] if handle is None else list(_files_read(handle))
        for publisher in self._by_directory.values():
            if any(publisher.directory in name for name in read):
                publisher.readers.add(run)

    @property
    def wanted(self) -> bool:
        """Whether any run reads SysStream."""
        return any(p.readers for p in self._by_directory.values())

    def progressed(self, progress: str) -> None:
        """A batch has ended; ``progress`` is Spark's report in JSON. Each session may report it."""
        report = json.loads(progress)
        run, seconds = report["runId"], report["durationMs"].get("triggerExecution", 0) / 1000
        if self._batches.get(run, -1) >= report["batchId"]:
            return
        self._batches[run] = report["batchId"]
        brought = [s["description"] for s in report["sources"] if s["numInputRows"]]
        for publisher in self._by_directory.values():
            if any(publisher.directory not in d and not d.startswith(_COMMANDS) for d in brought):
                publisher.note(run, report.get("name") or run, seconds)
        self.publish()

    def publish(self) -> None:
        """Publish what is due."""
        for publisher in self._by_directory.values():
            publisher.publish(self._latest)

    def ended(self, run: str) -> None:
        """A run has ended; publish what it had left."""
        self._batches.pop(run, None)
        for publisher in self._by_directory.values():
            publisher.publish(self._latest, run)
            publisher.end(run)


@lru_cache(maxsize=1)
def _publishers(context: SparkContext) -> Publishers:
    return Publishers(Registry.of(context).latest)


def _files_read(query: Any) -> Iterator[str]:
    """The file sources of a query, as Spark's plan names them."""
    leaves = query.streamingQuery().analyzedPlan().collectLeaves().iterator()
    while leaves.hasNext():
        leaf = leaves.next()
        if leaf.getClass().getSimpleName() == "StreamingRelation":
            yield str(leaf.sourceName())
