"""Every file of a checkpoint, damaged in every way: a start gives the same results, or one sentence.

``make test`` tries a few files of Penstock's own, ``make long`` all files, Spark's too.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from longer import LONG
from pyspark.errors import PySparkException, StreamingQueryException
from test_damaged_files import DAMAGES

from penstock.errors import PenstockError
from penstock.spark.driver.failures import sentence
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

QUERY = "SELECT S.k, T.name, COUNT(*) AS n FROM S [RANGE 6], T WHERE S.k = T.k GROUP BY S.k, T.name"
TOTALS = "SELECT k, COUNT(*) AS n FROM S [RANGE 6] GROUP BY k"
FEW = {
    "query": [
        ("penstock.json", "missing"),
        ("commands/00000001.json", "missing"),
        ("tables.json", "flipped"),
    ],
    "pipeline": [("commands/00000001.json", "missing"), ("results/00000000.json", "missing")],
}
"""What ``make test`` tries."""
MOST = int(os.environ.get("PENSTOCK_DAMAGES", "400"))


class World:
    """A stream, a table, and a copy of a checkpoint that has seen some of both."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.files = spark, root, 0
        self.checkpoint, self.kept = root / "checkpoint", root / "kept"
        (root / "S").mkdir()
        self.tables("a", "b")

    def add(self) -> None:
        times = [t for t in range(4 * self.files, 4 * self.files + 4) for _ in range(2)]
        path = self.root / "S" / f"{self.files:03}.parquet"
        pq.write_table(pa.table({"k": [t % 2 for t in times], "t": times}), path)
        os.utime(path, (self.files, self.files))
        self.files += 1

    def tables(self, *names: str) -> None:
        shutil.rmtree(self.root / "T", ignore_errors=True)
        (self.root / "T").mkdir()
        pq.write_table(pa.table({"k": range(len(names)), "name": list(names)}), self.root / "T" / "1.parquet")

    def session(self) -> Session:
        session = Session(self.spark, 2)
        session.sql(f"CREATE STREAM S (k BIGINT, t BIGINT) TIMESTAMP BY t FROM PARQUET '{self.root / 'S'}'")
        session.sql(f"CREATE TABLE T (k BIGINT, name STRING) FROM PARQUET '{self.root / 'T'}'")
        return session

    def query(self) -> list[Any]:
        """What the query returns from where its checkpoint is."""
        found: list[Any] = []
        session = self.session()
        writer = session.sql(QUERY).writeStream  # type: ignore[union-attr]
        writer = writer.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
            session.close()
        return found

    def pipeline(self) -> list[Any]:
        """All results of the pipeline's query so far."""
        found: list[Any] = []
        session = self.session()
        try:
            pipeline = session.pipeline("p", checkpoint=str(self.checkpoint), streams=["S"])
            pipeline.register("totals", TOTALS)
            pipeline.start()
            try:
                pipeline.process_all_available()
            finally:
                pipeline.stop()
            writer = pipeline["totals"].writeStream
            writer = writer.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
            writer.trigger(availableNow=True).start().awaitTermination()
        finally:
            session.close()
        return found

    def keep(self) -> None:
        shutil.copytree(self.checkpoint, self.kept)

    def again(self) -> None:
        """The checkpoint is as it was when it was kept."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.kept, self.checkpoint)


@pytest.mark.parametrize("what", ("query", "pipeline"))
def test_a_damaged_checkpoint(spark: Any, tmp_path: Path, what: str) -> None:
    world = World(spark, tmp_path)
    run = getattr(world, what)
    world.add()
    run()
    world.tables("a", "c")  # known to the query by a command
    world.add()
    before = run()
    world.keep()
    world.add()
    expected = run()
    assert expected
    wrong = []
    for name, how in FEW[what] if not LONG else every(world.kept):
        world.again()
        damage(world.checkpoint / name, how)
        said = attempt(run, set(before), expected)
        if said is not None:
            wrong.append(f"{name} {how}: {said}")
    assert not wrong, "\n".join(wrong)


def every(root: Path) -> Iterator[tuple[str, str]]:
    """Files and damages, of many files as many as there is time for."""
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    cases = [(name, how) for name in files for how in DAMAGES]
    step = max(1, len(cases) // MOST)
    return iter(cases[::step])


def damage(path: Path, how: str) -> None:
    data = DAMAGES[how](path.read_bytes())
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


def attempt(run: Any, before: set[Any], expected: list[Any]) -> str | None:
    """None if the run gives the expected rows, once more some before, or one sentence; else what it does."""
    try:
        found = run()
    except (PenstockError, PySparkException) as error:
        # Of a query that Spark's own writer started, the sentence is what Penstock shows of the failure.
        said = sentence(error) if isinstance(error, StreamingQueryException) else str(error)
        return None if re.fullmatch(r"[^\n]+", said) else f"not a sentence: {said[:300]}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error)[:300]}"
    rest = list(found)
    for row in expected:
        if row not in rest:
            return f"lost {row} of {len(expected)}"
        rest.remove(row)
    strange = [row for row in rest if row not in before]
    return f"more than there should be: {strange}" if strange else None
