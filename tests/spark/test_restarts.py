"""Going on from a checkpoint: with what may be another, with what may not, and after data that was bad."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from penstock.errors import CatalogError
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

QUERY = "SELECT ISTREAM ALL(L.k, L.v, R.v AS w) FROM L [RANGE 6], R [RANGE 6] WHERE L.k = R.k"
ROW = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])


@pytest.fixture(autouse=True)
def settings(spark: Any) -> Iterator[None]:
    """Tests may change Spark's own."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, before)


class Feed:
    """Streams L and R in files, and all that a query over them has given so far."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.files = spark, root, 0
        self.rows: dict[str, list[Any]] = {"L": [], "R": []}
        self.found: list[Any] = []
        for name in self.rows:
            (root / name).mkdir()

    def add(self) -> None:
        """One more file a stream."""
        for name, step in (("L", 2), ("R", 3)):
            times = range(4 * self.files, 4 * self.files + 4)
            part = [(t, {"k": t * step % 3, "v": t * step}) for t in times for _ in range(2)]
            self.rows[name] += part
            self.write(name, pa.Table.from_pylist([{**row, "t": t} for t, row in part], ROW))
        self.files += 1

    def write(self, name: str, rows: pa.Table) -> Path:
        path = self.root / name / f"{self.files:03}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (self.files, self.files))
        return path

    def run(
        self,
        query: str = QUERY,
        partitions: int = 2,
        setting: str = "",
        more: str = "",
        derived: bool = False,
    ) -> None:
        """All there is, from where the last run ended."""
        session = Session(self.spark, partitions)
        for name in self.rows:
            columns = "k BIGINT, v BIGINT, t BIGINT"
            where = f"FROM PARQUET '{self.root / name}'"
            session.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t {more} {where}")
        if setting:
            session.sql(setting)
        df = session.sql(query)
        assert df is not None
        df = df.filter("true") if derived else df
        writer = df.writeStream.foreachBatch(lambda batch, _: self.found.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        finally:
            session.close()

    def fails(self, **how: Any) -> str:
        """What is said of a run that fails, which must leave the checkpoint as it was."""
        with pytest.raises(StreamingQueryException) as raised:
            self.run(**how)
        return str(raised.value)

    def refused(self, **how: Any) -> str:
        """What is said of a run that does not even start, and touches nothing."""
        before, given = self.checkpoint(), len(self.found)
        with pytest.raises(CatalogError) as raised:
            self.run(**how)
        assert self.checkpoint() == before and len(self.found) == given
        return str(raised.value)

    def checkpoint(self) -> dict[str, tuple[int, int]]:
        """Every file of it, with when it was changed and its size."""
        files = (f for f in (self.root / "checkpoint").rglob("*") if f.is_file())
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files}

    def check(self) -> None:
        """Nothing lost, nothing twice, whatever the columns were called."""
        found = [(row[0], "+", dict(zip(("k", "v", "w"), row[1:], strict=True))) for row in self.found]
        expected = oracle.evaluate(QUERY, self.rows)
        assert len(expected) > 20
        oracle.assert_same(sorted(found, key=lambda change: change[0]), expected, QUERY)


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def test_what_may_be_another(spark: Any, feed: Feed) -> None:
    feed.add()
    feed.run()
    feed.add()
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    feed.run(QUERY.replace("AS w", "AS x"), setting="SET penstock.filters = sweep")
    feed.add()
    feed.run(query=QUERY.replace("AS w", "AS y"), derived=True)
    feed.check()


def test_what_may_not(feed: Feed) -> None:
    feed.add()
    feed.run()
    feed.add()
    said = feed.refused(partitions=3)
    assert said.startswith(
        "the checkpoint was written with 2 partitions and this query has 3; connect with "
        "penstock.connect(partitions=2)"
    )
    other = QUERY.replace("[RANGE 6], R", "[RANGE 5], R")
    said = feed.refused(query=other)
    assert "it has 'seq-window [RANGE 6] of L', and this one 'seq-window [RANGE 5] of L'" in said
    said = feed.refused(more="SKEW 1 SECOND")
    before = "TIMESTAMP BY t IN SECONDS"
    assert f"stream L had {before}, and now has {before} DISORDER 1 SECONDS" in said
    feed.run()
    feed.check()


OTHERWISE = (
    "select istream all(b.v as w, a.k as k, a.v as v) from L [range 6 seconds] as a, R [RANGE 6] AS b "
    "where true and b.k = a.k"
)


def test_an_equal_query_goes_on_however_it_is_written(feed: Feed) -> None:
    """Other names, order and aliases: it runs the plan that wrote the state, under its own columns."""
    feed.add()
    feed.run()
    feed.add()
    feed.run(query=OTHERWISE)
    assert (
        feed.found[-1].asDict().keys() == {"ts", "w", "k", "v"} and feed.found[-1][1] == feed.found[-1]["w"]
    )
    feed.add()
    feed.run(query=QUERY.replace("ISTREAM ALL(L.k, L.v", "ISTREAM ALL(L.v, L.k"))
    said = feed.refused(query=OTHERWISE.replace("b.k = a.k", "b.k = a.v"))
    assert "it has 'spark L: columns k, v; to 2 partitions by hash of L.k'" in said
    feed.found = [(row["ts"], row["k"], row["v"], row["w"]) for row in feed.found]
    feed.check()


@pytest.mark.long  # as without Spark (test_state_log.py: test_another_query_is_refused)
def test_a_derived_frame_is_refused_in_its_first_step(feed: Feed) -> None:
    """It has Spark's own writer, which knows of no checkpoints but Spark's."""
    feed.add()
    feed.run()
    feed.add()
    other = QUERY.replace("[RANGE 6], R", "[RANGE 5], R")
    assert "this one 'seq-window [RANGE 5] of L'" in feed.fails(query=other, derived=True)
    feed.run(derived=True)
    feed.check()


def test_before_the_first_commit_any_query_may_begin(feed: Feed) -> None:
    feed.add()
    good = pq.read_table(feed.root / "L" / "000.parquet")
    feed.files -= 1
    feed.write("L", pa.table({"k": ["a"], "v": [1], "t": [4]}))
    feed.fails(query=QUERY.replace("[RANGE 6], R", "[RANGE 5], R"))
    feed.write("L", good)
    feed.files += 1
    feed.add()
    feed.run()
    feed.check()


def test_after_bad_data(feed: Feed) -> None:
    """A file of another schema, mended; then rows without a time, left out."""
    feed.add()
    feed.run()
    feed.add()
    good = pq.read_table(feed.root / "L" / "001.parquet")
    feed.files -= 1
    feed.write("L", pa.table({"k": ["a"], "v": [1], "t": [4]}))
    assert "001.parquet" in feed.fails()
    feed.write("L", pa.concat_tables([good, pa.Table.from_pylist([{"k": 0, "v": 0, "t": None}], ROW)]))
    assert "001.parquet, row 9: column 't' is NULL" in feed.fails()
    feed.run(more="ON BAD ROWS COUNT")
    feed.check()
