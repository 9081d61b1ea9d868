"""The network-monitoring join of ``network.py`` on Spark with 2 partitions: rows/s by order of probes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.peers.harness import Measured, local_spark, measure, parquet_source
from penstock.measurement import Kind, Property
from penstock.spark.driver.session import Session, connect
from penstock.workloads.routes import DDL, Routes

PARTITIONS = 2
WARMUP = 2
"""Batches of a run that do not count: the query starts, and its windows fill."""
System = tuple[str, list[str], str]


class JoinSeconds:
    """What the engines say their joins took, as of their last step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seconds = 0.0

    def __call__(self) -> int:
        """Look once more; the bytes that the engines hold."""
        engines = self._session.metrics()
        self.seconds = max(self.seconds, engines.of_operator("mjoin").total(Property.SECONDS))
        return int(engines.of_kind(Kind.ENGINE).total(Property.BYTES))


@dataclass
class Rates:
    """What a system did in all its rounds: rows of a batch, and by phase the times of those that count."""

    name: str
    rows: int = 0
    ms: dict[int, list[int]] = field(default_factory=dict)
    results: set[int] = field(default_factory=set)
    joins: float = 0.0

    def add(self, run: Measured, phase: int, joins: float) -> None:
        """Another round, with so many batches in a phase."""
        for number, ms in enumerate(run.batch_ms, WARMUP):
            self.ms.setdefault(number // phase, []).append(ms)
        self.rows = run.rows
        self.results.add(run.results)
        self.joins += joins

    def per_second(self, phase: int | None = None) -> float:
        """Rows/s of a phase, by its median batch, or of all phases."""
        some = self.ms if phase is None else [phase]
        return 1000 * self.rows * len(some) / sum(median(self.ms[p]) for p in some)


def compare(
    routes: Routes,
    batches: int,
    rounds: int,
    systems: list[System],
    query: Callable[[Routes, list[str]], str],
) -> None:
    """Run the systems in turns on the same files, and print what each did."""
    rates = [Rates(name) for name, _, _ in systems]
    with tempfile.TemporaryDirectory(prefix="penstock-network-") as directory:
        root = Path(directory)
        for number in track(range(batches), "writing the links"):
            for name, table in routes.batch(number).items():
                (root / name).mkdir(exist_ok=True)
                pq.write_table(table, root / name / f"{number:05}.parquet")
        spark = local_spark(PARTITIONS, root / "spark.log")
        try:
            # The first query that a Spark runs waits for its compilers: it does not count.
            _run(spark, root, routes, 2, systems[0], query)
            turns = list(zip(rates, systems, strict=True))
            # There and back: a Spark that still gets faster, or a machine that gets slower, favours none.
            turns = [turn for number in range(rounds) for turn in turns[:: -1 if number % 2 else 1]]
            for found, system in track(turns, "running in turns"):
                found.add(*_run(spark, root, routes, batches - WARMUP, system, query))
        finally:
            spark.stop()
    Console().print(_table(rates))
    for line in judged(rates):
        print(line)


def _run(
    spark: SparkSession,
    root: Path,
    routes: Routes,
    batches: int,
    system: System,
    query: Callable[[Routes, list[str]], str],
) -> tuple[Measured, int, float]:
    name, order, algorithm = system
    session = connect(spark)
    source = parquet_source(spark, root, DDL, files=1)
    for link in routes.names:
        session.create_stream(link, source(link), timestamp="ts")
    session.sql(f"SET penstock.filters = '{algorithm}'")
    frame, joins = session.sql(query(routes, order)), JoinSeconds(session)
    assert frame is not None
    # Each run has its own: Spark may still write to that of one that has just stopped.
    checkpoint = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=root))
    found = measure(name, frame, checkpoint, WARMUP, batches, joins)
    session.close()
    return found, routes.phase, joins.seconds


def _table(rates: list[Rates]) -> Table:
    phases = sorted(rates[0].ms)
    headings = [f"rows/s, phase {p + 1}" for p in phases]
    table = Table("order of probes", *headings, "rows/s, all", "seconds in the joins of both engines")
    for r in rates:
        by_phase = [f"{r.per_second(p):,.0f}" for p in phases]
        table.add_row(r.name, *by_phase, f"{r.per_second():,.0f}", f"{r.joins:.1f}")
    return table


def judged(rates: list[Rates]) -> list[str]:
    """How many times the rows/s of the fixed orders the adaptive one takes in."""
    adaptive, *fixed = rates
    best = adaptive.per_second() / max(f.per_second() for f in fixed)
    wrong = [adaptive.per_second(p) / min(f.per_second(p) for f in fixed) for p in sorted(adaptive.ms)]
    times = ", ".join(f"{w:.2f}" for w in wrong)
    same = len(set.union(*(r.results for r in rates))) == 1
    return [
        f"a-greedy takes in {best:.2f} times the rows/s of the better fixed order",
        f"and in each phase {times} times those of the order that is wrong in it",
        f"all give the same number of results: {'yes' if same else 'NO'}",
    ]
