"""Joins of streams with windows between them: the W-join beside other plans of Penstock and beside Spark.

First in one engine, without Spark: every two rows of a result are within the window of each other; by the
algorithms of the W-join, by ``mjoin`` with the windows as bands on timestamps, and by a tree of two-way
joins, as systems without a join of many streams run it; with an equality and without. Then on Spark over the
same files: with an equality beside Spark's own interval joins, chained; without one on one and on two cores,
by slices of time and by row with a broadcast (Spark has no such join of streams).

    python -m bench.peers.w_join [--rows 120000] [--streams 3] [--no-spark] [--check]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from bench.peers.harness import (
    Measured,
    Source,
    fingerprint,
    local_spark,
    measure,
    parquet_source,
    spark_settings,
)
from bench.peers.systems import result_columns, spark_join, systems
from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.schema import TIMESTAMP_TIME
from penstock.settings import Settings
from penstock.workloads.synthetic import JoinWorkload

LONGER = 4
"""How many times longer windows are in the join without an equality on Spark."""
CHECKED_BATCHES = 2
"""Batches of which the results of all systems are compared."""
PLANS = {
    "w-join": Settings(),
    **{f"w-join: {name}": Settings(w_join=name) for name in ("nlw", "hw", "mw")},
    "mjoin with bands": Settings(w_join="mjoin", cache_memory=None),
    "tree of two-way joins": Settings(w_join="mjoin", join="xjoin"),
}


def cql(workload: JoinWorkload, equal: bool) -> str:
    """The query for Penstock; without an equality, keys rise from stream to stream and are near."""
    names = workload.names
    values = ", ".join(f"{n}.{c} AS {n.lower()}{c}" for n in names for c in workload.payload)
    pairs = list(zip(names, names[1:], strict=False))
    where = [f"{a}.k = {b}.k" for a, b in pairs]
    if not equal:
        where = [f"{a}.k < {b}.k AND {b}.k <= {a}.k + 1" for a, b in pairs]
    window = f"WINDOW {round(workload.window_seconds * 1000)} MILLISECONDS"
    return (
        f"SELECT ISTREAM ALL({names[0]}.k AS k, {values}) FROM {', '.join(names)} {window} "
        f"WHERE {' AND '.join(where)}"
    )


# in one engine


def in_engine(workload: JoinWorkload, equal: bool, settings: Settings, slices: int) -> tuple[float, int, int]:
    """Rows per second of CPU after the first slice, results, and the rows that are kept."""
    options = InputOptions(TIMESTAMP_TIME, "ts")
    catalog = {n: Input(n, workload.schema, options) for n in workload.names}
    engine = Engine(compile(bind(cql(workload, equal), catalog), 1, settings).stages[0].stage)
    results, spent, kept = 0, 0.0, 0
    for number, slice in enumerate(workload.slices(slices)):
        arrivals = [_arrival(n, table, workload.rows) for n, table in slice.items()]
        began = time.thread_time()
        results += engine.step(arrivals).only.batch.num_rows
        spent += time.thread_time() - began if number else 0.0
        kept = max(kept, sum(e.operator.rows() for e in engine.entities))
    return workload.rows * (slices - 1) / spent, results, kept


def _arrival(name: str, table: pa.Table, total: int) -> Arrival:
    ts = table.column("ts").combine_chunks().cast(pa.int64())
    columns = {TS: ts, **{f"{name}.{c}": table.column(c).combine_chunks() for c in table.column_names}}
    batch = pa.RecordBatch.from_pydict(columns)
    return Arrival(name, 0, batch, ts[0].as_py(), ts[-1].as_py(), total=total)


def engine_table(workload: JoinWorkload, slices: int) -> Table:
    table = Table(title=f"{workload.streams} streams in one engine, {workload.rows:,} rows per batch")
    for heading in ("plan", "equality: rows/s", "rows kept", "no equality: rows/s", "rows kept"):
        table.add_column(heading, justify="left" if heading == "plan" else "right")
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for name, settings in PLANS.items():
        cells = []
        for equal in (True, False):
            smaller = workload if equal else sparser(workload, 4)
            if not equal and name in ("w-join: hw", "tree of two-way joins"):
                cells += ["", ""]  # as nlw; as mjoin
                continue
            in_engine(sparser(workload, 40), equal, settings, 3)  # compiles kernels
            rate, results, kept = in_engine(smaller, equal, settings, slices)
            found[equal].add(results)
            cells += [f"{rate:,.0f}", f"{kept:,}"]
        table.add_row(name, *cells)
    assert all(len(some) <= 1 for some in found.values()), f"results differ: {found}"
    table.caption = f"results: {', '.join(f'{n:,}' for some in found.values() for n in some)}"
    return table


# on Spark


def penstock_frame(
    spark: SparkSession, source: Source, workload: JoinWorkload, equal: bool, span: str
) -> DataFrame:
    session = penstock.connect(spark)
    for name in workload.names:
        session.create_stream(name, source(name), timestamp="ts", replace=True)
    session.sql(f"SET penstock.batch_span = '{span}'")
    joined = session.sql(cql(workload, equal))
    assert joined is not None
    return joined


def write(workload: JoinWorkload, directory: Path, slices: int) -> None:
    for number, slice in enumerate(workload.slices(slices)):
        for name, table in slice.items():
            (directory / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, directory / name / f"{number:04}.parquet")


def frames(
    spark: SparkSession, workload: JoinWorkload, directory: Path, batches: int
) -> dict[tuple[str, str], Callable[[], DataFrame]]:
    """By join and system, the streaming DataFrame over files that are written here."""
    span, sparse = f"{round(workload.slice_seconds)} SECONDS", without_equality(workload)
    for part, of in (("all", workload), ("some", sparse)):
        write(of, directory / part, batches)
    every, some = (parquet_source(spark, directory / part, workload.ddl, 1) for part in ("all", "some"))
    return {
        ("equality", "penstock"): lambda: penstock_frame(spark, every, workload, True, "none"),
        ("equality", "spark, chained"): lambda: spark_join(every, workload),
        ("none", "penstock by row"): lambda: penstock_frame(spark, some, sparse, False, "none"),
        ("none", "penstock by time"): lambda: penstock_frame(spark, some, sparse, False, span),
    }


def without_equality(workload: JoinWorkload) -> JoinWorkload:
    """Half the rows over longer windows: what is spread is the work of the join, not the moving of rows."""
    return replace(sparser(workload, 2), window_seconds=LONGER * workload.window_seconds)


def sparser(workload: JoinWorkload, times: int) -> JoinWorkload:
    """With fewer rows: without an equality each of three streams multiplies the rows that are tested."""
    return replace(workload, rows=max(workload.rows // times, 3_000))


def on_spark(workload: JoinWorkload, options: argparse.Namespace, cores: int) -> list[tuple[str, ...]]:
    """Join, system, cores, rows per second and results, of a session of its own."""
    found = []
    own = next(s for s in systems() if s.name == "spark-rocksdb").settings
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        root = Path(directory)
        spark = local_spark(cores, root / "spark.log")
        try:
            runs = frames(spark, workload, root / "in", options.warmup + options.batches)
            for (join, system), frame in runs.items():
                if cores == 1 and join != "none":
                    continue
                with spark_settings(spark, own if system.startswith("spark") else {}):
                    run = _measured(system, frame, root, options)
                found.append((join, system, str(cores), f"{run.rows_per_second:,.0f}", f"{run.results:,}"))
                print(", ".join(found[-1]), file=sys.stderr, flush=True)
            if cores == 2 and options.check:
                few = frames(spark, workload, root / "few", CHECKED_BATCHES)
                _check(list(few.values()), result_columns(workload), root)
        finally:
            spark.stop()
    return found


def spark_table(workload: JoinWorkload, options: argparse.Namespace) -> Table:
    table = Table(title=f"{workload.streams} streams on Spark, {workload.rows:,} rows per batch")
    for heading in ("join", "system", "cores", "rows/s", "results"):
        table.add_column(heading, justify="left" if heading in ("join", "system") else "right")
    for cores in (1, 2):  # a process has one JVM
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            for row in process.submit(on_spark, workload, options, cores).result():
                table.add_row(*row)
    return table


def _check(runs: list[Callable[[], DataFrame]], columns: list[str], root: Path) -> None:
    found = [fingerprint(frame(), columns, root / f"check{n}") for n, frame in enumerate(runs)]
    assert found[0] == found[1] and found[2] == found[3], f"results differ: {found}"


def _measured(
    system: str, frame: Callable[[], DataFrame], root: Path, options: argparse.Namespace
) -> Measured:
    return measure(system, frame(), root / "checkpoint", options.warmup, options.batches)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("penstock bench w-join", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=120_000, help="rows of all streams in a batch (default %(default)s)")
    add("--streams", type=int, default=3, help="streams that are joined (default %(default)s)")
    add("--batches", type=int, default=3, help="measured batches (default %(default)s)")
    add("--warmup", type=int, default=2, help="batches before those (default %(default)s)")
    add("--no-spark", dest="spark", action="store_false", help="only in one engine")
    add("--check", action="store_true", help="compare the results on Spark too")
    options = parser.parse_args(argv)
    console = Console()
    # A batch has 60 seconds of the streams, a window 0.1 seconds.
    workload = JoinWorkload(options.streams, options.rows, 60.0, 0.1)
    console.print(engine_table(workload, 1 + options.batches))
    if options.spark:
        console.print(spark_table(workload, options))


if __name__ == "__main__":
    main()
