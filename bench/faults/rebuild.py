"""How long a partition takes to come back after its engine was killed: ``penstock bench rebuild``.

A join of two streams runs batch after batch, each one second of stream time. After some batches every engine
is killed, and the next batch rebuilds them from the log. The log reaches back as far as the windows do, so
the time grows with the window and not with how long the query has run: the first lines of the table have one
window and ever more batches, the others one number of batches and ever larger windows.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.measurement import Kind, Property
from penstock.spark.driver.local_spark import new_local_spark

ROWS_A_SECOND = 20_000
"""Rows of each stream in a batch."""


@dataclass(frozen=True)
class Case:
    """A window of so many seconds, and the batches before the kill."""

    window: int
    batches: int


CASES = [Case(10, 15), Case(10, 30), Case(10, 60), Case(5, 30), Case(20, 30)]


class Run:
    """The query of a case, fed one batch at a time."""

    def __init__(self, session: Any, root: Path, window: int, rows: int) -> None:
        self.session, self.root, self.rows, self.second = session, root, rows, 0
        for name in ("L", "R"):
            (root / name).mkdir(parents=True)
            columns = "k BIGINT, v BIGINT, t BIGINT"
            source = f"FROM PARQUET '{root / name}' OPTIONS (maxFilesPerTrigger '1')"
            session.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t IN MICROSECONDS {source}")
        window_text = f"[RANGE {window} SECONDS]"
        df = session.sql(
            f"SELECT ISTREAM ALL(L.k, L.v, R.v AS w) FROM L {window_text}, R {window_text} WHERE L.k = R.k"
        )
        writer = df.writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
        self.query = writer.start()

    def batch(self) -> float:
        """One more second of stream time; the batch's milliseconds."""
        rng = np.random.default_rng(self.second)
        for name in ("L", "R"):
            times = np.sort(rng.integers(0, 1_000_000, self.rows)) + self.second * 1_000_000
            table = {"k": rng.integers(0, 1 << 40, self.rows), "v": times, "t": times}
            hidden = self.root / f"{name}.new"
            pq.write_table(pa.table(table), hidden)
            os.utime(hidden, (self.second, self.second))
            hidden.rename(self.root / name / f"{self.second:05}.parquet")
        self.second += 1
        self.query.processAllAvailable()
        return float(self.query.lastProgress["batchDuration"])

    def stop(self) -> None:
        self.query.stop()
        for name in ("L", "R"):
            self.session.drop(name)


def measure(session: Any, case: Case, root: Path, rows: int) -> dict[str, float]:
    """Warm batches, then a kill of every engine, then the batch that rebuilds them."""
    run = Run(session, root, case.window, rows)
    warm = sorted(run.batch() for _ in range(case.batches))[case.batches // 2]
    for m in session.metrics().of(Property.PID):
        os.kill(int(m.value), signal.SIGKILL)
    after = run.batch()
    engines = session.metrics().of_kind(Kind.ENGINE)
    run.stop()
    return {
        "window": case.window,
        "batches": case.batches,
        "replayed": max(m.value for m in engines.of(Property.REPLAYED_STEPS)),
        "rows": engines.total(Property.ROWS),
        "warm ms": warm,
        "after the kill ms": after,
        "rebuild ms": 1000 * max(m.value for m in engines.of(Property.REBUILD_SECONDS)),
    }


def main(options: list[str]) -> None:
    """Print a table, a line a case."""
    arguments = argparse.ArgumentParser("penstock bench rebuild", description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=ROWS_A_SECOND, help="rows of each stream in a batch")
    arguments.add_argument("--quick", action="store_true", help="the first two cases, a few batches")
    given = arguments.parse_args(options)
    cases = [Case(2, 3), Case(2, 6)] if given.quick else CASES
    spark = new_local_spark(2)
    session = penstock.connect(spark)
    heads: list[str] = []
    for number, case in enumerate(cases):
        with tempfile.TemporaryDirectory() as directory:
            found = measure(session, case, Path(directory) / str(number), given.rows)
        if not heads:
            heads = list(found)
            print(f"| {' | '.join(heads)} |\n|{' ---: |' * len(heads)}", flush=True)
        print(f"| {' | '.join(f'{value:,.0f}' for value in found.values())} |", flush=True)
    spark.stop()
