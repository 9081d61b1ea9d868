"""Runs streaming DataFrames to their end and measures their warm micro-batches."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.driver.local_spark import LOCAL, started

STATE = "spark.sql.streaming.stateStore."
CHECKED = 1_000_003
"""Checksums add row hashes modulo this prime, so that no order and no number of rows can overflow them."""


@dataclass
class Measured:
    """What a system did: the times of its warm batches, how many rows went in and came out, its state's size.

    Memory is what the state stores and engines say; disk is the checkpoint at the end of the run.
    """

    system: str
    batch_ms: list[int] = field(default_factory=list)
    rows: int = 0
    results_by_batch: list[int] = field(default_factory=list)
    memory_bytes: int = 0
    disk_bytes: int = 0

    @property
    def results(self) -> int:
        return sum(self.results_by_batch)

    @property
    def median_ms(self) -> float:
        return median(self.batch_ms)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.median_ms * 1000

    def merge(self, other: Measured) -> None:
        """Add another round of the same system."""
        self.batch_ms += other.batch_ms
        self.rows, self.results_by_batch = other.rows, other.results_by_batch
        self.memory_bytes, self.disk_bytes = other.memory_bytes, other.disk_bytes

    def to_json(self) -> dict[str, object]:
        return {
            "rows_per_second": round(self.rows_per_second),
            "batch_ms": round(self.median_ms),
            "batches_ms": self.batch_ms,
            "rows": self.rows,
            "results": self.results,
            "state_memory_bytes": self.memory_bytes,
            "state_disk_bytes": self.disk_bytes,
        }


def local_spark(cores: int, log: Path) -> SparkSession:
    """A local session for every system alike, with a partition for every core; it writes to a log.

    Its settings are those with which Penstock starts Spark; the other systems gain from them as well.
    """
    settings = {
        **LOCAL,
        "spark.driver.memory": os.environ.get("BENCH_DRIVER_MEMORY", "6g"),
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = {"spark.master": f"local[{cores}]", "spark.app.name": "penstock-bench"}
    return started({**settings, **own}, log)


def end(spark: SparkSession) -> None:
    """Stop it and its JVM, which the next session of this process would go on to use."""
    spark.stop()
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@contextmanager
def spark_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Settings for the queries started within, put back afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _bytes_below(directory: Path) -> int:
    """Of all files; one that Spark deletes meanwhile has none."""
    total = 0
    for file in directory.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def measure(
    system: str,
    frame: DataFrame,
    checkpoint: Path,
    warmup: int,
    batches: int,
    engines: Callable[[], int] | None = None,
    mode: str = "append",
    watch: Callable[[int], None] | None = None,
    every: float = 0.5,
) -> Measured:
    """Run into a sink that discards, and take so many batches after those that warm up.

    ``engines`` says how many bytes are held outside of state stores; ``watch`` is told again and again,
    after so many seconds, how many batches have ended.
    """
    query = (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    held = 0
    while not _ended(query, warmup + batches, every):
        held = max(held, engines() if engines else 0)
        ended = len(_with_input(query))
        if watch:
            watch(ended)
        if ended >= warmup + batches:
            query.stop()
    progress = _with_input(query)[: warmup + batches]
    disk = _bytes_below(checkpoint / "state")
    shutil.rmtree(checkpoint, ignore_errors=True)
    if len(progress) <= warmup:
        raise SystemExit(f"{system} ran {len(progress)} batches, no more than the {warmup} that warm up")
    stores = max(sum(o.memoryUsedBytes for o in p.stateOperators) for p in progress)
    return Measured(
        system,
        [p.durationMs["triggerExecution"] for p in progress[warmup:]],
        round(median(p.numInputRows for p in progress[warmup:])),
        [p.sink.numOutputRows for p in progress],
        stores + held,
        disk,
    )


def _ended(query: StreamingQuery, enough: int, after: float) -> bool:
    """Whether it is over, after so many seconds at most; Spark's joins may fail when they are stopped."""
    try:
        return bool(query.awaitTermination(after))
    except StreamingQueryException:
        if len(_with_input(query)) >= enough:
            return True
        raise


def _with_input(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """What the batches with rows said when they ended."""
    return [p for p in query.recentProgress if p.numInputRows]


def fingerprint(frame: DataFrame, columns: list[str], checkpoint: Path) -> tuple[int, int]:
    """Count and order-independent checksum of a run's results over ``columns``."""
    totals = [0, 0]

    def add(batch: DataFrame, _: int) -> None:
        row_hash = F.pmod(F.xxhash64(*columns), F.lit(CHECKED))
        count, total = batch.agg(F.count("*"), F.coalesce(F.sum(row_hash), F.lit(0))).first()
        totals[0], totals[1] = totals[0] + count, totals[1] + total

    writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return totals[0], totals[1]


Source = Callable[[str], DataFrame]


def parquet_source(spark: SparkSession, root: Path, schema: str, files: int) -> Source:
    """Streams of parquet files by name; a micro-batch takes ``files`` files of each."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return lambda name: reader.parquet(str(root / name))
