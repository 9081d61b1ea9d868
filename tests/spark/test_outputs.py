"""Outputs that tell batches apart by number: what a checkpoint writes there, no other one may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from waiting import until

import penstock
from penstock import CatalogError, PipelineError
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark
ROWS = "SELECT ISTREAM(a, ts AS at) FROM S [NOW]"
LARGE = "SELECT ISTREAM(a, ts AS at) FROM S [NOW] WHERE a > {}"


class Place:
    """A session, a stream of files, and what a sink has of it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.now, self.out = spark, root, 0, root / "out"
        (root / "in").mkdir()
        self.session = self.connected()

    def connected(self, sink: bool = True) -> Session:
        session = penstock.connect(self.spark, partitions=1)
        session.sql(
            f"CREATE STREAM S (ts BIGINT, a BIGINT) TIMESTAMP BY ts FROM PARQUET '{self.root / 'in'}'"
            + (f"; CREATE SINK out TO PARQUET '{self.out}'" if sink else "")
        )
        return session

    def add(self) -> None:
        """Five rows of the next instant."""
        self.now += 1
        rows = {"ts": [self.now] * 5, "a": [0, 1, 2, 3, 4]}
        pq.write_table(pa.table(rows), self.root / "in" / f"{self.now:04}.parquet")

    def written(self) -> list[tuple[int, int]]:
        """The rows that a reader sees, instant and value."""
        return sorted((r["at"], r["a"]) for r in self.spark.read.parquet(str(self.out)).collect())


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Iterator[Place]:
    found = Place(spark, tmp_path)
    yield found
    for query in spark.streams.active:
        query.stop()
    found.session.close()


def run(df: Any, checkpoint: Path, **options: Any) -> None:
    """Write what there is."""
    query = df.writeStream.option("checkpointLocation", str(checkpoint)).start(**options)
    query.processAllAvailable()
    query.stop()


REFUSED = "has batches up to number 0 of the checkpoint .*c1, and Spark skips .* write to another directory"


def test_a_new_checkpoint_does_not_write_where_another_did(place: Place, spark: SparkSession) -> None:
    place.add()
    df = place.session.sql(ROWS)
    assert df is not None
    run(df, place.root / "c1", path=str(place.out))
    with pytest.raises(CatalogError, match=REFUSED):
        run(df, place.root / "c2", path=str(place.out))
    assert not (place.root / "c2").exists()
    with pytest.raises(CatalogError, match=REFUSED):
        place.session.sql(f"SET penstock.checkpoint = '{place.root / 'c3'}'; INSERT INTO out {ROWS}")
    place.add()
    run(df, place.root / "c1", path=str(place.out))
    assert len(place.written()) == 10
    # An older copy of the checkpoint would skip what it has not counted.
    (place.out / "_spark_metadata" / "penstock.json").unlink()
    with pytest.raises(CatalogError, match="up to number 1 of another checkpoint"):
        run(df, place.root / "c2", path=str(place.out))
    for folder, name in (("offsets", "1"), ("commits", "1")):
        (place.root / "c1" / folder / name).unlink()
        (place.root / "c1" / folder / f".{name}.crc").unlink()
    with pytest.raises(CatalogError, match="and Spark skips numbers"):
        run(df, place.root / "c1", path=str(place.out))


def test_derived_dataframes_and_tables_are_checked(
    place: Place, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's own writer starts a derived one; it ends before its first batch."""
    place.add()
    df = place.session.sql(ROWS)
    assert df is not None
    run(df.filter("a > 2"), place.root / "c1", path=str(place.out))
    assert place.written() == [(1, 3), (1, 4)]
    options = {"path": str(place.out), "checkpointLocation": str(place.root / "c2")}
    query = df.filter("a > 2").writeStream.options(**options).start()
    with pytest.raises(Exception, match=REFUSED):
        query.awaitTermination()
    assert "cannot be started: file:" in caplog.text
    run(df.filter("a > 2"), place.root / "c1", path=str(place.out))
    try:
        writer = df.writeStream.option("checkpointLocation", str(place.root / "t1"))
        query = writer.toTable("outputs_of_one")
        query.processAllAvailable()
        query.stop()
        assert spark.table("outputs_of_one").count() == 5
        with pytest.raises(CatalogError, match="batches up to number 0 of the checkpoint .*t1"):
            df.writeStream.option("checkpointLocation", str(place.root / "t2")).toTable("outputs_of_one")
    finally:
        spark.sql("DROP TABLE IF EXISTS outputs_of_one")


def pipeline(place: Place, session: Session, *statements: str) -> Any:
    """Make or resume the pipeline, with statements before its start, and write what there is."""
    session.sql(f"CREATE PIPELINE p (S) CHECKPOINT '{place.root / 'state'}' TRIGGER AVAILABLE NOW")
    for statement in statements:
        session.sql(statement)
    session.sql("START PIPELINE p")
    found = session.pipeline("p")
    found.awaitTermination()
    return found


def test_a_registered_sink_is_remembered(place: Place) -> None:
    place.add()
    pipeline(place, place.session, f"REGISTER QUERY big INTO out AS {LARGE.format(2)}")
    with pytest.raises(PipelineError, match="query 'big' writes to sink 'out'; drop it first, write one"):
        place.session.sql(f"REGISTER QUERY other INTO out AS {ROWS}")
    with pytest.raises(PipelineError, match="query 'big' writes to sink 'out'; to write elsewhere, drop it"):
        place.session.pipeline("p").register("big", LARGE.format(2), sink=lambda df: df.writeStream)
    place.add()
    found = pipeline(place, place.connected())
    assert place.written() == [(n, a) for n in (1, 2) for a in (3, 4)]
    assert [q.sink for q in found.queries()] == ["ended"]
    place.add()
    with pytest.raises(PipelineError, match="query 'big' writes to sink 'out', and there is no sink 'out'"):
        pipeline(place, place.connected(sink=False))
    pipeline(place, place.connected())
    assert len(place.written()) == 6


@pytest.mark.long
def test_a_sink_given_later_is_remembered(place: Place) -> None:
    place.add()
    pipeline(place, place.session, f"REGISTER QUERY all AS {ROWS}")
    place.add()
    pipeline(place, place.connected(), f"REGISTER QUERY all INTO out AS {ROWS}")
    place.add()
    pipeline(place, place.connected())
    assert len(place.written()) == 15


@pytest.mark.parametrize("function", [True, pytest.param(False, marks=pytest.mark.long)])
def test_what_takes_the_place_of_a_query_writes_on(place: Place, function: bool) -> None:
    """Dropped and registered anew while the pipeline stands, over restarts, with nothing lost."""
    sink: Any = (lambda df: df.writeStream.option("path", str(place.out))) if function else "out"

    def resumed(least: int | None) -> None:
        """The pipeline with the query changed, before rows come."""
        session = place.connected()
        found = session.pipeline("p", checkpoint=str(place.root / "state"), streams=["S"])
        if least is not None and place.now:
            found.drop("big")
        if least is not None:
            found.register("big", LARGE.format(least), sink=sink)
        elif function:
            found.register("big", LARGE.format(1), sink=sink)
        place.add()
        found.start("available-now").awaitTermination()

    resumed(2)
    resumed(1)
    resumed(None)
    expected = [(n, a) for n, least in enumerate((2, 1, 1), 1) for a in range(5) if a > least]
    assert place.written() == expected
    assert len(list((place.root / "state" / "sinks").iterdir())) == 1


def test_a_query_is_changed_while_the_pipeline_runs(place: Place) -> None:
    place.add()
    place.session.sql(
        f"CREATE PIPELINE p (S) CHECKPOINT '{place.root / 'state'}';"
        f"REGISTER QUERY big INTO out AS {LARGE.format(2)}; START PIPELINE p"
    )
    running = place.session.pipeline("p")
    running.process_all_available()
    for least in (1, 0):
        place.session.sql(f"DROP QUERY big; REGISTER QUERY big INTO out AS {LARGE.format(least)}")
        place.add()
        running.process_all_available()
    until(lambda: len(place.written()) == 2 + 3 + 4)
    assert place.written() == [(n, a) for n, least in enumerate((2, 1, 0), 1) for a in range(5) if a > least]
    place.session.sql("DROP QUERY big; REGISTER QUERY more AS SELECT ISTREAM(a) FROM S [NOW]")
    with pytest.raises(CatalogError, match="of the checkpoint .*sinks.*; write to another directory"):
        place.session.sql(f"CREATE SINK same TO PARQUET '{place.out}'; REGISTER QUERY x INTO same AS {ROWS}")
    running.stop()


def test_a_query_that_never_saw_a_batch_leaves_no_sink(place: Place, spark: SparkSession) -> None:
    """Registered and dropped before the next batch: its sink ends, too."""
    place.add()
    place.session.sql(
        f"CREATE PIPELINE p (S) CHECKPOINT '{place.root / 'state'}';"
        f"REGISTER QUERY all AS {ROWS}; REGISTER QUERY never INTO out AS {ROWS}; DROP QUERY never;"
    )
    running = place.session.pipeline("p").start()
    running.process_all_available()
    assert [q.name for q in spark.streams.active] == ["p"]
    place.session.sql(f"REGISTER QUERY brief INTO out AS {ROWS}; DROP QUERY brief")
    place.add()
    running.process_all_available()
    until(lambda: [q.name for q in spark.streams.active] == ["p"])
    assert not any(pq.read_metadata(f).num_rows for f in place.out.glob("*.parquet"))
    running.stop()
