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
from penstock.spark.session import Session, connect
from penstock.workloads.routes import DDL, Routes

PARTITIONS = 2
WARMUP = 2


class JoinSeconds:
    """What the engines say their joins took, as of their last step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seconds = 0.0

    def __call__(self) -> int:
        """Look once more; the bytes that the engines hold."""
        engines = self._session.metrics()
        joins = [o for e in engines for o in e["operators"] if o["name"] == "mjoin"]
        self.seconds = max(self.seconds, sum(o["seconds"] for o in joins))
        return sum(e["bytes"] for e in engines)


def compare(
    routes: Routes,
    batches: int,
    systems: list[tuple[str, list[str], str]],
    query: Callable[[Routes, list[str]], str],
) -> None:
    """Run every system in turn on the same files, and print what each did."""
    measured: list[tuple[Measured, float]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-network-") as directory:
        root = Path(directory)
        for number in track(range(batches), "writing the links"):
            for name, table in routes.batch(number).items():
                (root / name).mkdir(exist_ok=True)
                pq.write_table(table, root / name / f"{number:05}.parquet")
        spark = local_spark(PARTITIONS, root / "spark.log")
        try:
            for number, (name, order, algorithm) in enumerate(systems):
                session = connect(spark)
                source = parquet_source(spark, root, DDL, files=1)
                for link in routes.names:
                    session.create_stream(link, source(link), timestamp="ts")
                session.sql(f"SET penstock.filters = '{algorithm}'")
                frame, joins = session.sql(query(routes, order)), JoinSeconds(session)
                assert frame is not None
                found = measure(name, frame, root / f"checkpoint-{number}", WARMUP, joins)
                measured.append((found, joins.seconds))
        finally:
            spark.stop()
    Console().print(_table(measured))
    same = len({m.results for m, _ in measured}) == 1
    print(f"all give the same number of results: {'yes' if same else 'NO'}")


def _table(measured: list[tuple[Measured, float]]) -> Table:
    table = Table("order of probes", "rows/s", "batch ms", "seconds in the joins of both engines")
    for m, joins in measured:
        table.add_row(m.system, f"{m.rows_per_second:,.0f}", f"{m.median_ms:,.0f}", f"{joins:.1f}")
    return table
