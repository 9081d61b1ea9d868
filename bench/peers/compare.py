"""Runs the systems on the same files: first their results are compared, then their batches are timed."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from rich.console import Console

from bench.peers.harness import Measured, fingerprint, measure, parquet_source, spark_settings
from bench.peers.systems import System, engine_bytes, frame, result_columns
from penstock.workloads.files import write_slices
from penstock.workloads.synthetic import JoinWorkload

FILES = 2
"""Files of each stream in a micro-batch: one a core."""


def verify(
    spark: SparkSession, root: Path, workload: JoinWorkload, chosen: list[System], console: Console
) -> None:
    """Count and checksum of every system's results on smaller batches must be equal."""
    small = replace(workload, rows=min(workload.rows, 40_000))
    write_slices(root, small.slices(4), FILES)
    source = parquet_source(spark, root, small.ddl, FILES)
    found = {}
    for system in chosen:
        with spark_settings(spark, system.settings):
            query = frame(system, spark, source, small)
            found[system.name] = fingerprint(query, result_columns(small), root / f"checkpoint-{system.name}")
    if len(set(found.values())) > 1:
        raise SystemExit(f"the systems' results differ (count, checksum): {found}")
    for count, checksum in set(found.values()):
        console.print(
            f"verified on {4 * small.rows:,} rows: {count:,} results, checksum {checksum}: {', '.join(found)}"
        )


@dataclass(frozen=True)
class Runs:
    """How a system is timed: batches that warm it up, batches that count, and how often.

    ``slow_batches``: how many count of Spark's own joins, after two: the second is the first that also lets
    rows go, which is what takes them longest. None: as many as of the others.
    """

    warmup: int = 3
    batches: int = 5
    rounds: int = 1
    slow_batches: int | None = None

    def of(self, system: System) -> tuple[int, int]:
        """Batches that warm up and batches that count, for one system."""
        if self.slow_batches is not None and system.name.startswith("spark-"):
            return 2, self.slow_batches
        return self.warmup, self.batches


def timed(
    spark: SparkSession,
    root: Path,
    workload: JoinWorkload,
    chosen: list[System],
    runs: Runs,
    console: Console,
) -> list[Measured]:
    """Every system in turn, as many rounds as asked for, on the same files."""
    write_slices(root, workload.slices(runs.warmup + runs.batches), FILES)
    source = parquet_source(spark, root, workload.ddl, FILES)
    totals: dict[str, Measured] = {}
    for number in range(runs.rounds):
        for system in chosen:
            # Each run has its own: Spark may still write to that of one that has just stopped.
            checkpoint = root / f"checkpoint-{system.name}-{number}"
            with spark_settings(spark, system.settings):
                query = frame(system, spark, source, workload)
                engines = partial(engine_bytes, spark) if system.name.startswith("penstock") else None
                run = measure(system.name, query, checkpoint, *runs.of(system), engines)
            console.print(f"  {system.name}: {run.batch_ms} ms", highlight=False)
            totals.setdefault(system.name, Measured(system.name)).merge(run)
    _same_results([totals[s.name] for s in chosen if s.joins])
    return list(totals.values())


def _same_results(measured: list[Measured]) -> None:
    """Every batch gave each system as many results."""
    for batch, counts in enumerate(zip_longest(*(m.results_by_batch for m in measured))):
        if len({c for c in counts if c is not None}) > 1:
            told = dict(zip((m.system for m in measured), counts, strict=True))
            raise SystemExit(f"the systems' result counts of batch {batch} differ: {told}")


def ratios_of(measured: list[Measured]) -> dict[str, float]:
    """How many times Penstock's batch time each system took, and Penstock that of the discarding one."""
    times = {m.system: m.median_ms for m in measured}
    penstock = times.get("penstock")
    if penstock is None:
        return {}
    ratios = {
        f"{name} / penstock": round(ms / penstock, 2) for name, ms in times.items() if name != "penstock"
    }
    if "discard" in times:
        ratios["penstock / discard"] = round(penstock / times["discard"], 2)
    return ratios


def machine(spark: SparkSession) -> dict[str, str]:
    """What it ran on."""
    return {
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "master": spark.sparkContext.master,
    }
