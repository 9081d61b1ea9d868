"""A stage on Spark with an engine that counts: whatever is killed, every row is counted once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_engine
import psutil
import pyarrow as pa
import pytest
from longer import longer
from pyspark.errors import StreamingQueryException
from stage_on_spark import Files
from waiting import until

from penstock.engine.operators.source import Source as SourceNode
from penstock.engine.stage import RESULT, Stage, StageInput
from penstock.expression import Call, Column, Literal
from penstock.measurement import Property
from penstock.plan.physical import PhysicalPlan, PlannedStage, SourceInput
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain
from penstock.spark.driver import dataframe, exchange
from penstock.spark.driver.exchange import partition_keys
from penstock.spark.driver.session import Session
from penstock.spark.driver.sources import create_input
from penstock.spark.resident.directory import Process
from penstock.spark.wire.record import Envelope

pytestmark = pytest.mark.spark


def plan(spark: Any, files: Files, partitions: int = 2, minimum: int | None = None) -> PhysicalPlan:
    """Send column k of the stream, filtered by ``k > minimum``, to the counting engine."""
    df = (
        spark.readStream.schema("k BIGINT, t BIGINT").option("maxFilesPerTrigger", 1).parquet(str(files.root))
    )
    definition = create_input("stream", "S", df, timestamp="t")
    k = Column("S.k", pa.int64())
    condition = None if minimum is None else Call(">", (k, Literal(minimum, pa.int64())), pa.bool_())
    route = Route((Axis(partitions, (k,)),) if partitions > 1 else ())
    source = SourceInput("S", "S", definition, (("k", k),), condition, route)
    read = pa.schema([("k", pa.int64())])
    stage = Stage({RESULT: SourceNode("S", read)}, (StageInput("S", read),))
    return PhysicalPlan(
        (PlannedStage(stage, partitions, (source,)),), TimeDomain(), "stream", fake_engine.ROW
    )


def counted(spark: Any, files: Files, **how: Any) -> Any:
    build = how.pop("build", fake_engine.forgetful)
    return dataframe.dataframe(plan(spark, files, **how), build=build)


class Run:
    """A started query that collects its rows, each batch's in order."""

    def __init__(
        self, df: Any, checkpoint: Path, before_batch: Callable[[int], None] = lambda n: None
    ) -> None:
        self.rows: list[Any] = []

        def take(batch: Any, number: int) -> None:
            before_batch(number)
            self.rows += batch.collect()

        self.query = df.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).start()

    def all(self) -> list[Any]:
        self.query.processAllAvailable()
        return self.rows


def check(rows: list[Any], keys: list[int], partitions: int = 2) -> None:
    """Every key came once, and each partition's count has no gap."""
    assert sorted(r.k for r in rows) == sorted(keys)
    totals = sorted(r.total for r in rows)
    longest = max(totals, default=0)
    counts = [totals.count(n) for n in range(1, longest + 1)]
    assert all(1 <= c <= partitions for c in counts), counts
    assert counts == sorted(counts, reverse=True)


def pids(session: Session) -> set[int]:
    """The processes of all engines."""
    return {int(m.value) for m in session.metrics().of(Property.PID)}


def test_rows_arrive_once_whatever_the_batch(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    run = Run(counted(spark, files), tmp_path / "c")
    for batch in range(4):
        files.add([(10 * batch + i, batch) for i in range(10)])
        run.all()
    check(run.rows, list(range(40)))
    assert len(pids(session)) == 2
    assert {place[1:] for place in session.metrics().by_engine()} == {(1, 0), (1, 1)}


@pytest.mark.long  # as without Spark (test_resident.py: test_a_killed_engine_is_rebuilt)
def test_killed_between_batches(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    run = Run(counted(spark, files), tmp_path / "c")
    for batch in range(4):
        files.add([(10 * batch + i, batch) for i in range(10)])
        run.all()
        for pid in pids(session):
            os.kill(pid, signal.SIGKILL)
    check(run.rows, list(range(40)))


@pytest.mark.long  # as without Spark (test_resident.py: test_an_engine_killed_within_a_step)
def test_killed_within_a_batch(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    """The engine itself kills its process in the middle of a step, the first time it sees key 13."""
    marker = tmp_path / "died"
    run = Run(counted(spark, files, build=fake_engine.Mortal(13, str(marker))), tmp_path / "c")
    for batch in range(3):
        files.add([(10 * batch + i, batch) for i in range(10)])
        run.all()
    assert marker.exists()
    check(run.rows, list(range(30)))


@pytest.mark.parametrize("build", [fake_engine.forgetful, *longer(fake_engine.hoarding)])
def test_restart_from_the_checkpoint(
    spark: Any, session: Session, files: Files, tmp_path: Path, build: Any
) -> None:
    rows = []
    for start in range(3):
        run = Run(counted(spark, files, build=build), tmp_path / "c")
        for batch in range(2):
            files.add([(20 * start + 10 * batch + i, batch) for i in range(10)])
            run.all()
        run.query.stop()
        rows += run.rows
    check(rows, list(range(60)))


def test_engines_end_with_their_query(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    run = Run(counted(spark, files), tmp_path / "c")
    files.add([(i, i) for i in range(10)])
    run.all()
    engines = [Process.of(pid) for pid in pids(session)]
    assert len(engines) == 2
    run.query.stop()
    until(lambda: not any(e.alive for e in engines))


def test_a_query_that_is_stopped_under_load_starts_no_engine(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    """Its tasks work when it is stopped, lose their engines, and would start new ones."""
    started = tmp_path / "started"
    run = Run(counted(spark, files, build=fake_engine.Busy(7, str(started))), tmp_path / "c")
    files.add([(7, 1)])
    until(lambda: started.exists() and bool(started.read_text()))
    host = psutil.Process(int(started.read_text().split()[0])).parent()
    run.query.stop()
    until(lambda: not host.children())
    time.sleep(1.0)  # longer than a task waits before it tries again
    assert not host.children()
    assert len(started.read_text().split()) == 1


def test_two_queries_at_once(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    runs = [Run(counted(spark, files), tmp_path / f"c{n}") for n in range(2)]
    for batch in range(3):
        files.add([(10 * batch + i, batch) for i in range(10)])
        for run in runs:
            run.all()
    assert len(pids(session)) == 4
    runs[0].query.stop()
    files.add([(30, 4)])
    runs[1].all()
    check(runs[0].rows, list(range(30)))
    check(runs[1].rows, list(range(31)))


def over(source: SourceInput, df: Any) -> SourceInput:
    """The same source over a static DataFrame."""
    static = replace(source.stream.source, df=df)
    return replace(source, stream=replace(source.stream, source=static))


def test_filtered_rows_still_tell_the_time(spark: Any, files: Files) -> None:
    files.add([(1, 100), (5, 200), (9, 300), (5, 900)])
    (source,) = plan(spark, files, minimum=4).stages[0].inputs
    assert isinstance(source, SourceInput)
    df = spark.read.parquet(str(files.root))
    packed = exchange.pack([over(source, df)], (3, 7)).collect()
    envelopes = [Envelope.from_json(r.envelope) for r in packed]
    assert sorted(r.partition for r in packed) == [3, 7]
    assert {(e.min_ts, e.max_ts) for e in envelopes} == {(100, 900)}
    assert sum(e.rows for e in envelopes) == 3


def test_empty_tasks_send_empty_blobs(spark: Any, files: Files) -> None:
    files.add([])
    (source,) = plan(spark, files).stages[0].inputs
    assert isinstance(source, SourceInput)
    df = spark.read.schema("k BIGINT, t BIGINT").parquet(str(files.root))
    packed = exchange.pack([over(source, df)], (0, 1)).collect()
    assert [(r.partition, bytes(r.blob)) for r in packed] == [(0, b""), (1, b"")]


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_keys_land_in_different_tasks(spark: Any, tasks: int) -> None:
    for partitions in (1, tasks, 5 * tasks):
        keys = partition_keys(partitions)
        rows = spark.createDataFrame([(k,) for k in keys], "k INT").repartition(tasks, "k")
        homes = rows.selectExpr("k", "spark_partition_id() AS home").collect()
        assert {r.k: r.home for r in homes} == {k: p % tasks for p, k in enumerate(keys)}


def test_null_timestamps_are_refused(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    files.add([(1, 1), (2, None), (3, None)])
    failure = error_of(counted(spark, files), tmp_path / "c")
    assert "stream 'S': " in failure and "0000.parquet, row 2: column 't' is NULL; correct it" in failure


def test_an_engines_error_is_readable(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    files.add([(-1, 1)])
    failure = error_of(counted(spark, files), tmp_path / "c")
    assert "stream 'S': the key -1 is cursed" in failure.splitlines()[0]


def test_another_plan_refuses_the_checkpoint(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    run = Run(counted(spark, files), tmp_path / "c")
    files.add([(1, 1)])
    run.all()
    run.query.stop()
    files.add([(2, 2)])
    derived = counted(spark, files, partitions=1).filter("true")
    failure = error_of(derived, tmp_path / "c")
    assert "written with 2 partitions and this query has 1; connect with" in failure.splitlines()[0]


def error_of(df: Any, checkpoint: Path) -> str:
    """What a query that fails says."""
    query = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.processAllAvailable()
    return str(raised.value)
