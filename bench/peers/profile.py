"""Where the time between scan-shuffle-discard and a Penstock join goes, layer by layer.

The join of ``penstock bench join``, first without all that Penstock adds, then with one layer more at
a time, over the same files:

    scan       Spark reads the columns and drops the rows
    pack       Python reads them and packs them into blobs, which are dropped
    relay      and the blobs are shuffled, logged in the state store, and sent to an engine that does nothing
    engine     and the engine joins; it keeps its results to itself
    penstock   and the results come back as rows: everything

``discard`` is scan and a shuffle of the rows themselves. Of each there are the time of a warm batch and the
CPU seconds of it in the JVM, in Spark's Python workers and in the engines; what a layer costs is the
difference to the one before. CPU seconds tell more than times where the machine does other things as well.

    python -m bench.peers.profile [--rows 2000000] [--layers discard,penstock] [--conf spark.x=y] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from bench.peers.compare import FILES
from bench.peers.harness import Source, local_spark, parquet_source
from bench.peers.systems import cql, discard
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import StepOutput
from penstock.plan import compile
from penstock.spark.driver import dataframe, exchange
from penstock.spark.driver.exchange import partition_keys
from penstock.workloads.files import write_slices
from penstock.workloads.synthetic import JoinWorkload

LAYERS = ("discard", "scan", "pack", "relay", "engine", "penstock")
COLUMNS = ("batch ms", "jvm CPU s", "workers CPU s", "engines CPU s", "CPU s", "adds CPU s")


@dataclass(frozen=True)
class Layer:
    """A warm batch: its time, and CPU seconds by where they were spent."""

    batch_ms: float
    jvm: float
    workers: float
    engines: float

    @property
    def cpu(self) -> float:
        return self.jvm + self.workers + self.engines


class Counts(NamedTuple):
    """Batches that warm up, and batches that are measured after them."""

    warmup: int
    batches: int


class Silent(Engine):
    """Joins, and keeps its results to itself."""

    def step(self, arrivals: Any, commands: Any = ()) -> StepOutput:
        output = super().step(arrivals, commands)
        roots = {name: replace(r, batch=r.batch.slice(0, 0)) for name, r in output.roots.items()}
        return replace(output, roots=roots)


class Idle(Engine):
    """Looks at the time of what comes, and does nothing with the rows."""

    def step(self, arrivals: Any, commands: Any = ()) -> StepOutput:
        return super().step([replace(a, batch=None) for a in arrivals], commands)


def main(argv: list[str] | None = None) -> None:
    options = _options(argv)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers and engines do not have the bench
    workload = JoinWorkload(rows=options.rows, streams=options.streams, strings=options.strings)
    found: dict[str, Layer] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as directory:
        root = Path(directory)
        # One more than is measured, so that what is measured is over before engines end.
        write_slices(root, workload.slices(options.warmup + options.batches + 1), FILES)
        spark = local_spark(options.cores, root / "spark.log")
        try:
            for setting in options.conf:
                spark.conf.set(*setting.split("=", 1))
            source = parquet_source(spark, root, workload.ddl, FILES)
            layers = options.layers.split(",")
            brief = Counts(1, 1)
            # A first time for the JVM to compile what the layers share: else the first ones pay for all.
            turns = [(n, brief) for n in layers] + [(n, options.counts) for n in layers]
            for number, (name, counts) in enumerate(turns):
                frame = _frame(name, spark, source, workload)
                found[name] = _measure(frame, root / f"checkpoint-{number}", counts, _Processes(spark))
        finally:
            spark.stop()
    console = Console(stderr=options.json)
    console.print(_table(found, options))
    if options.json:
        print(json.dumps({name: asdict(layer) for name, layer in found.items()}, indent=2))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="penstock bench profile", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--rows", type=int, default=2_000_000, help="rows of all streams in a batch (default %(default)s)")
    add("--streams", type=int, default=2, help="streams that are joined (default %(default)s)")
    add("--strings", type=int, default=0, help="string columns of each (default %(default)s)")
    add("--batches", type=int, default=3, help="measured batches (default %(default)s)")
    add("--warmup", type=int, default=2, help="batches before those (default %(default)s)")
    add("--cores", type=int, default=2, help="local[N] and as many partitions (default %(default)s)")
    add("--layers", default=",".join(LAYERS), help="a list (default %(default)s)")
    add("--conf", action="append", default=[], metavar="K=V", help="a setting of the Spark session")
    add("--json", action="store_true", help="print JSON on standard output")
    options = parser.parse_args(argv)
    options.counts = Counts(options.warmup, options.batches)
    return options


def _frame(name: str, spark: SparkSession, source: Source, workload: JoinWorkload) -> DataFrame:
    if name == "discard":
        return discard(spark, source, workload)
    if name == "scan":
        return reduce(DataFrame.unionAll, map(source, workload.names))
    session = penstock.connect(spark)
    for stream in workload.names:
        session.create_stream(stream, source(stream), timestamp="ts")
    plan = compile(bind(cql(workload), session._catalog), session.partitions)
    if name == "pack":
        return exchange.pack(plan.stages[0].inputs, partition_keys(plan.stages[0].partitions))
    builds = {"relay": {"build": Idle}, "engine": {"build": Silent}, "penstock": {}}
    return dataframe.dataframe(plan, **builds[name])


class _Processes:
    """Spark's JVM, its Python workers and its engines, and the CPU seconds they have taken."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))

    def seconds(self) -> tuple[float, float, float]:
        own = self._jvm.cpu_times()
        engines = [p for p in psutil.process_iter() if _is_engine(p, self._jvm.pid)]
        workers = [p for p in self._jvm.children(recursive=True) if p not in engines]
        # What workers and daemons that have ended took is in what their parents say of their children.
        ended = own.children_user + own.children_system
        return own.user + own.system, ended + sum(map(_with_children, workers)), sum(map(_own, engines))


def _is_engine(process: psutil.Process, jvm: int) -> bool:
    with suppress(psutil.Error):
        line = process.cmdline()
        return "penstock.spark.resident.host" in line and str(jvm) in line
    return False


def _own(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


def _with_children(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system
    return 0.0


def _measure(frame: DataFrame, checkpoint: Path, counts: Counts, processes: _Processes) -> Layer:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        _until(query, counts.warmup)
        before = processes.seconds()
        _until(query, counts.warmup + counts.batches)
        after = processes.seconds()
    finally:
        query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    measured = _batches(query)[counts.warmup :][: counts.batches]
    spent = [(a - b) / counts.batches for a, b in zip(after, before, strict=True)]
    return Layer(median(p.durationMs["triggerExecution"] for p in measured), *spent)


def _batches(query: Any) -> list[Any]:
    return [p for p in query.recentProgress if p.numInputRows]


def _until(query: Any, batches: int) -> None:
    while len(_batches(query)) < batches:
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.05)


def _table(found: dict[str, Layer], options: argparse.Namespace) -> Table:
    title = f"a batch of {options.rows:,} rows of {options.streams} streams, local[{options.cores}]"
    table = Table(title=title, title_justify="left")
    table.add_column("layer")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    before: Layer | None = None
    for name, layer in found.items():
        adds = "" if before is None or name == "scan" else f"{layer.cpu - before.cpu:+.2f}"
        numbers = [layer.jvm, layer.workers, layer.engines, layer.cpu]
        table.add_row(name, f"{layer.batch_ms:,.0f}", *(f"{n:.2f}" for n in numbers), adds)
        before = layer
    return table


if __name__ == "__main__":
    main()
