"""The network-monitoring join of ``network.py`` on Spark with 2 partitions: rows/s by order of probes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.peers.harness import Measured, local_spark, measure, parquet_source
from penstock.spark.session import connect
from penstock.workloads.routes import DDL, Routes

PARTITIONS = 2
WARMUP = 2
ROUNDS = 2


def compare(
    routes: Routes,
    batches: int,
    systems: list[tuple[str, list[str], str]],
    query: Callable[[Routes, list[str]], str],
) -> None:
    """Run every system in turn, twice over, on the same files, and print what each did."""
    with tempfile.TemporaryDirectory(prefix="penstock-network-") as directory:
        root = Path(directory)
        for number in track(range(batches), "writing the links"):
            for name, table in routes.batch(number).items():
                (root / name).mkdir(exist_ok=True)
                pq.write_table(table, root / name / f"{number:05}.parquet")
        spark = local_spark(PARTITIONS, root / "spark.log")
        try:
            measured = [Measured(name) for name, _, _ in systems]
            for turn in range(ROUNDS):
                for found, (name, order, algorithm) in zip(measured, systems, strict=True):
                    session = connect(spark)
                    source = parquet_source(spark, root, DDL, files=1)
                    for link in routes.names:
                        session.create_stream(link, source(link), timestamp="ts")
                    session.sql(f"SET penstock.filters = '{algorithm}'")
                    frame = session.sql(query(routes, order))
                    found.merge(measure(name, frame, root / f"checkpoint-{turn}", WARMUP))
        finally:
            spark.stop()
    Console().print(_table(measured))
    same = len({m.results for m in measured}) == 1
    print(f"all give the same number of results: {'yes' if same else 'NO'}")


def _table(measured: list[Measured]) -> Table:
    table = Table("order of probes", "rows/s", "batch ms", caption="median of the warm batches")
    for m in measured:
        table.add_row(m.system, f"{m.rows_per_second:,.0f}", f"{m.median_ms:,.0f}")
    return table
