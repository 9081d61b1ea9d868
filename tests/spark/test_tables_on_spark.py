"""Static tables that change between two runs of a query and while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import CatalogError, CQLError
from penstock.spark.driver import commands
from penstock.spark.driver.session import Session
from penstock.spark.driver.tables import QueryTables

pytestmark = pytest.mark.spark
OLD, NEW = {"k": [1, 2], "name": ["one", "two"]}, {"k": [1, 3], "name": ["ONE", "three"]}


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    found = penstock.connect(spark, partitions=2)
    yield found
    found.close()


class World:
    """A stream and a table in files, and a query that is run on them again and again."""

    def __init__(self, root: Path, session: Session, more: str = "") -> None:
        self.root, self.session, self.files = root, session, 0
        self.table(OLD)
        (root / "S").mkdir()
        session.sql(f"""
            CREATE STREAM S (t BIGINT, k BIGINT) TIMESTAMP BY t FROM PARQUET '{root / "S"}';
            CREATE TABLE T (k BIGINT, name STRING) FROM PARQUET '{root / "T"}' {more};
        """)

    def table(self, rows: dict[str, list[Any]]) -> None:
        (self.root / "T").mkdir(exist_ok=True)
        for old in (self.root / "T").iterdir():
            old.unlink()
        self.files = getattr(self, "files", 0) + 1
        pq.write_table(pa.table(rows), self.root / "T" / f"{self.files}.parquet")

    def rows(self, *rows: tuple[int, int]) -> None:
        self.files += 1
        path = self.root / "S" / f"{self.files}.parquet"
        pq.write_table(pa.table({"t": [t for t, _ in rows], "k": [k for _, k in rows]}), path)
        os.utime(path, (self.files, self.files))

    def start(self, df: Any, **trigger: Any) -> tuple[Any, list[Any]]:
        found: list[Any] = []
        writer = df.writeStream.foreachBatch(lambda batch, _: found.extend(tuple(r) for r in batch.collect()))
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        return writer.trigger(**trigger).start(), found

    def run(self, cql: str) -> list[Any]:
        df = self.session.sql(cql)
        query, found = self.start(df, availableNow=True)
        query.awaitTermination()
        return sorted(found)


def test_a_table_that_changed_between_two_runs(session: Session, tmp_path: Path) -> None:
    world, cql = (
        World(tmp_path, session),
        "SELECT T.name, COUNT(*) AS n FROM S, T WHERE S.k = T.k GROUP BY T.name",
    )
    world.rows((1, 1), (2, 2), (3, 1))
    assert world.run(cql) == [(1, "+", "one", 1), (2, "+", "two", 1)]
    world.table(NEW)
    world.rows((4, 1), (5, 3), (6, 2), (7, 1))
    # Instant 3 was not complete: the rows from then on meet the new table, and the counts before stay.
    assert world.run(cql) == [
        (3, "+", "ONE", 1), (4, "+", "ONE", 2), (4, "-", "ONE", 1), (5, "+", "three", 1),
    ]  # fmt: skip
    world.table(OLD)
    world.rows((8, 2))
    assert world.run(cql) == [(7, "+", "one", 2), (7, "-", "one", 1)]
    world.rows((9, 1))  # what the query holds follows from changes there and back
    assert world.run(cql) == [(8, "+", "two", 2), (8, "-", "two", 1)]


@pytest.mark.long  # as in tests/checking.py (check_versions) and the test above
def test_rows_in_a_window_change_with_the_table(session: Session, tmp_path: Path) -> None:
    world, cql = World(tmp_path, session), "SELECT S.k, T.name FROM S [RANGE 9], T WHERE S.k = T.k"
    world.rows((1, 1), (2, 2), (3, 4))
    assert world.run(cql) == [(1, "+", 1, "one"), (2, "+", 2, "two")]
    world.table(NEW)
    world.rows((4, 3), (5, 5))
    assert world.run(cql) == [
        (3, "+", 1, "ONE"), (3, "-", 1, "one"), (3, "-", 2, "two"), (4, "+", 3, "three"),
    ]  # fmt: skip


def test_refresh_while_it_runs(session: Session, tmp_path: Path) -> None:
    world = World(tmp_path, session)
    world.rows((1, 1), (2, 2))
    df = session.sql("SELECT S.k, T.name FROM S LEFT JOIN T ON S.k = T.k")
    query, found = world.start(df, processingTime="0 seconds")
    try:
        query.processAllAvailable()
        assert session.refresh_table("t") == 0
        world.table(NEW)
        session.sql("REFRESH TABLE T")
        query.processAllAvailable()
        world.rows((3, 1), (4, 2), (5, 3))
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(found) == [(1, 1, "one"), (2, 2, "two"), (3, 1, "ONE"), (4, 2, None), (5, 3, "three")]
    # Another query of the same DataFrame reads the table again: what was refreshed is not taken back.
    world.rows((6, 1))
    again, more = world.start(df, availableNow=True)
    again.awaitTermination()
    assert more == [(6, 1, "ONE")]


def test_refresh_every(session: Session, tmp_path: Path) -> None:
    world = World(tmp_path, session, "REFRESH EVERY 200 MILLISECONDS")
    world.rows((1, 1))
    query, found = world.start(
        session.sql("SELECT T.name FROM S, T WHERE S.k = T.k"), processingTime="0 seconds"
    )
    try:
        query.processAllAvailable()
        world.table(NEW)
        folder = tmp_path / "checkpoint" / "commands"
        for _ in range(300):
            if folder.exists() and any(f.suffix == ".json" for f in folder.iterdir()):
                break
            query.awaitTermination(0.1)
        query.processAllAvailable()
        world.rows((3, 3))
        query.processAllAvailable()
    finally:
        query.stop()
    assert found == [(1, "one"), (3, "three")]


@pytest.mark.long  # as without Spark (test_stored_commands.py)
def test_many_refreshes_leave_few_files(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "FOLDED_FROM", 3)
    world, cql = World(tmp_path, session), "SELECT S.k, T.name FROM S LEFT JOIN T ON S.k = T.k"
    world.rows((0, 1))
    query, found = world.start(session.sql(cql), processingTime="0 seconds")
    try:
        for n in range(1, 9):
            query.processAllAvailable()
            world.table({"k": [1, 2], "name": [f"one {n}", "two" if n % 2 else "zwei"]})
            session.sql("REFRESH TABLE T")
            query.processAllAvailable()
            world.rows((n, 1))
        query.processAllAvailable()
    finally:
        query.stop()
    expected = [(0, 1, "one"), *((n, 1, f"one {n}") for n in range(1, 9))]
    assert sorted(found) == expected
    names = [f.name for f in (tmp_path / "checkpoint" / "commands").iterdir() if f.suffix == ".json"]
    assert len(names) <= 5 and any(name.startswith("folded") for name in names)
    world.rows((9, 1), (10, 2))  # the table is as the query holds it
    assert world.run(cql) == [(9, 1, "one 8"), (10, 2, "zwei")]
    world.table(NEW)
    world.rows((11, 1))
    assert world.run(cql) == [(11, 1, "ONE")]


def test_a_read_that_fails_does_not_end_refreshing(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, reads = QueryTables((), (), {}), list[str]()
    commands_ = SimpleNamespace(runs=True, run_id="")

    def refresh(name: str) -> bool:
        reads.append(name)
        commands_.runs = len(reads) < 3
        raise FileNotFoundError("a file was replaced while it was read")

    every = SimpleNamespace(table=SimpleNamespace(name="T", refresh_every=0.01))
    monkeypatch.setattr(tables, "_inputs", {"T": every})
    monkeypatch.setattr(tables, "_commands", commands_)
    monkeypatch.setattr(tables, "refresh", refresh)
    tables._refresh_every(0.01)
    assert reads == ["T"] * 3


def test_what_cannot_be_refreshed(session: Session) -> None:
    with pytest.raises(CatalogError, match="there is no table 'nothing'; tables: none"):
        session.refresh_table("nothing")
    with pytest.raises(CQLError, match="REFRESH EVERY needs a unit"):
        session.create_table("T", session.spark.range(1), refresh_every="5")
