"""A pipeline on Spark: each query returns what it would alone from its registration on, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_pipeline import pids
from waiting import until

from penstock.errors import CatalogError, DataError, PipelineError, QueryFailed
from penstock.spark.driver import commands
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.pipeline import Pipeline
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

TOTALS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM S [RANGE 6] GROUP BY k"
PAIRS = "SELECT ISTREAM(S.k, S.v, R.v AS w) FROM S [RANGE 6], R [RANGE 4] WHERE S.k = R.k"
ALL = "SELECT COUNT(*) AS n FROM S [RANGE 3]"
"""A query that runs in one of the two partitions."""
CROSSED = "SELECT S.v, COUNT(*) AS n FROM S [RANGE 6], R [RANGE 4] WHERE S.k = R.k GROUP BY S.v"
LARGE = "SELECT k, MAX(v) AS m FROM S [RANGE 3] WHERE v > 20 GROUP BY k"
CHECKED = "SELECT ISTREAM(k, checked(v) AS c) FROM S [NOW]"
ROW = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])


class Feed:
    """Streams S and R in files, and the pipeline over them; times 0 to 3 come first, then 4 to 7 ..."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.files = spark, root, 0
        self.rows: dict[str, list[Any]] = {"S": [], "R": []}
        self.since: dict[str, int] = {}
        self.readers = 0
        for name in self.rows:
            (root / name).mkdir()

    def session(self, partitions: int = 2) -> Session:
        session = Session(self.spark, partitions)
        for name in self.rows:
            columns, where = "k BIGINT, v BIGINT, t BIGINT", f"FROM PARQUET '{self.root / name}'"
            session.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t {where}")
        session.create_function("checked", checked, "BIGINT", scalar=True)
        session.sql(f"CREATE SINK out TO PARQUET '{self.root / 'out'}'")
        return session

    def pipeline(self, session: Session | None = None, **how: Any) -> Pipeline:
        how = {"streams": ["S", "R"], **how}
        return (session or self.session()).pipeline("p", checkpoint=str(self.root / "c"), **how)

    def add(self, value: int | None = None) -> None:
        """One more file a stream; ``value`` in one of the rows of S."""
        times = range(4 * self.files, 4 * self.files + 4)
        for name, step in (("S", 7), ("R", 3)):
            part = [(t, {"k": t * step % 5, "v": t * step % 41}) for t in times for _ in range(2)]
            if value is not None and name == "S":
                part[3][1]["v"] = value
            self.rows[name] += part
            # Spark must not see the file before it has its time: it ignores files much older than the latest.
            hidden = self.root / name / f".{self.files:03}.parquet"
            pq.write_table(pa.Table.from_pylist([{**row, "t": t} for t, row in part], ROW), hidden)
            os.utime(hidden, (self.files, self.files))
            hidden.rename(self.root / name / f"{self.files:03}.parquet")
        self.files += 1

    @property
    def now(self) -> int:
        """The last time that is complete."""
        return 4 * self.files - 2

    def read(self, pipeline: Pipeline, query: str, checkpoint: str = "") -> list[Any]:
        """All results of a query, or those that are new since the last call with this checkpoint."""
        self.readers += 1
        place = self.root / (checkpoint or f"reader{self.readers}")
        found: list[Any] = []
        writer = pipeline[query].writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(place)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return [_change(row.asDict()) for row in found]

    def check(self, found: list[Any], query: str, after: int = -1, until: int | None = None) -> None:
        """Exactly what the query returns over the rows later than ``after``, up to what is complete."""
        last = self.now if until is None else until
        rows = {n: [(t, row) for t, row in own if after < t <= last] for n, own in self.rows.items()}
        expected = oracle.evaluate(query, rows, until=last)
        assert len(expected) > 5
        oracle.assert_same([c for c in found if c[0] <= last], expected, query)


def _change(row: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    return row.pop("ts"), row.pop("op", "+"), row


def checked(value: int) -> int:
    if value == 1000:
        raise ValueError("1000 is too much")
    return value


@pytest.fixture
def feed(spark: Any, session: Session, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def states(pipeline: Pipeline) -> dict[str, str]:
    return {q.name: q.state for q in pipeline.queries()}


def step(feed: Feed, pipeline: Pipeline) -> None:
    feed.add()
    pipeline.process_all_available()


def test_queries_come_and_go_over_a_restart(feed: Feed) -> None:
    written: list[Any] = []
    sink: Callable[[Any], Any] = lambda df: df.writeStream.foreachBatch(  # noqa: E731
        lambda batch, _: written.extend(_change(row.asDict()) for row in batch.collect())
    )
    pipeline = feed.pipeline()
    pipeline.register("totals", TOTALS)
    pairs = pipeline.register("pairs", PAIRS, sink=sink)
    assert pairs.state == "registered" and pairs.results.columns == ["ts", "k", "v", "w"]
    pipeline.start()
    step(feed, pipeline)
    assert states(pipeline) == {"totals": "running", "pairs": "running"}
    first = feed.read(pipeline, "pairs", "one")
    pipeline.register("large", LARGE, sink="out")
    later = 4 * feed.files - 1
    step(feed, pipeline)
    pipeline.drop("totals")
    assert "S by k: to 2 partitions by hash of S.k; read by pairs, large" in pipeline.explain()
    step(feed, pipeline)
    assert states(pipeline) == {"totals": "dropped", "pairs": "running", "large": "running"}
    pipeline.stop()

    again = feed.pipeline()
    assert states(again) == states(pipeline)
    again.register("pairs", PAIRS + ";", sink=sink)
    again.start()
    step(feed, again)
    assert [q.sink for q in again.queries()] == ["", "running", "running"]
    again.register("totals", TOTALS)
    anew = 4 * feed.files - 1
    step(feed, again)
    step(feed, again)

    feed.check(first + feed.read(again, "pairs", "one"), PAIRS)
    feed.check(written, PAIRS)
    feed.check(feed.read(again, "totals"), TOTALS, anew)
    again.stop()
    rows = feed.spark.read.parquet(str(feed.root / "out")).collect()
    feed.check(sorted((_change(row.asDict()) for row in rows), key=lambda c: c[0]), LARGE, later)


def test_a_query_that_raises_ends_alone(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = feed.pipeline()
    query = pipeline.register("checked", CHECKED)
    pipeline.register("totals", TOTALS)
    pipeline.register("all", ALL)
    pipeline.start()
    step(feed, pipeline)
    before = feed.now
    feed.add(value=1000)
    pipeline.process_all_available()
    until(lambda: query.state == "failed")
    assert "1000 is too much" in query.reason and "1000 is too much" in caplog.text
    step(feed, pipeline)
    feed.check(feed.read(pipeline, "totals"), TOTALS)
    feed.check(feed.read(pipeline, "all"), ALL)
    found = feed.read(pipeline, "checked")
    # Nothing of the batch in which one partition failed, from any partition.
    assert {ts for ts, _, _ in found} == set(range(4)) and len(found) == 8
    assert before == 2
    anew = pipeline.register("checked", CHECKED)
    after = 4 * feed.files - 1
    step(feed, pipeline)
    assert anew.state == "running" and query.state == "failed"
    feed.check(feed.read(pipeline, "checked"), CHECKED.replace("checked(v)", "v"), after)


def test_what_is_killed_is_rebuilt_and_published_once(feed: Feed, session: Session) -> None:
    pipeline = feed.pipeline(split={"R": "k"})
    pipeline.register("totals", TOTALS)
    pipeline.start()
    step(feed, pipeline)
    pipeline.register("pairs", PAIRS)
    later = 4 * feed.files - 1
    step(feed, pipeline)
    for pid in pids(session):
        os.kill(pid, signal.SIGKILL)
    step(feed, pipeline)

    def die(older_than: float) -> None:
        raise DataError("the driver dies after it has published and before Spark commits")

    object.__setattr__(pipeline.results, "retire", die)
    feed.add()
    until(lambda: not pipeline.isActive)
    assert str(pipeline.exception()).startswith("the driver dies after")
    again = feed.pipeline()
    again.start()
    step(feed, again)
    feed.check(feed.read(again, "totals"), TOTALS)
    feed.check(feed.read(again, "pairs"), PAIRS, later)
    published = json.loads((feed.root / "c" / "results" / "published.json").read_text())
    assert published["first"] == 0 and published["commands"] == 2


def test_a_second_stage_for_queries_that_come_later(feed: Feed, session: Session) -> None:
    """Also one that raises there, engines that are killed, and a restart."""
    pipeline = feed.pipeline(split={"S": "k", "R": "k"}, stages=2, columns={"S": ["k", "v"]})
    pipeline.register("totals", TOTALS)
    pipeline.register("all", ALL)
    pipeline.start()
    step(feed, pipeline)
    assert "in two stages" in pipeline.explain()
    pipeline.register("crossed", CROSSED)
    most = pipeline.register("most", "SELECT checked(MAX(v)) AS m FROM S [RANGE 3]")
    later = 4 * feed.files - 1
    step(feed, pipeline)
    for pid in pids(session):
        os.kill(pid, signal.SIGKILL)
    feed.add(value=1000)
    pipeline.process_all_available()
    until(lambda: most.state == "failed")
    step(feed, pipeline)
    pipeline.stop()
    with pytest.raises(PipelineError, match="has the setting stages = 2, not 1; they are fixed"):
        feed.pipeline(stages=1)
    with pytest.raises(PipelineError, match="has the columns of S k, v, not k; they are fixed"):
        feed.pipeline(columns={"S": ["k"]})
    again = feed.pipeline()
    again.start()
    step(feed, again)
    for name, query in (("totals", TOTALS), ("all", ALL)):
        feed.check(feed.read(again, name), query)
    feed.check(feed.read(again, "crossed"), CROSSED, later)
    assert {ts for ts, _, _ in feed.read(again, "most")} <= set(range(later, later + 5))


def test_a_run_over_finite_input_completes_the_last_instant(feed: Feed) -> None:
    session = feed.session()
    session.sql("SET penstock.at_end = '0 SECONDS'")
    pipeline = feed.pipeline(session)
    feed.add()
    feed.add()
    pipeline.register("totals", TOTALS, sink="out")
    pipeline.start()
    pipeline.awaitTermination()
    rows = feed.spark.read.parquet(str(feed.root / "out")).collect()
    found = sorted((_change(row.asDict()) for row in rows), key=lambda c: c[0])
    feed.check(found, TOTALS, until=4 * feed.files - 1)


def test_an_interrupted_first_start_goes_on_and_lost_results_are_told(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = feed.pipeline()
    pipeline.register("totals", TOTALS)
    pipeline.register("pairs", PAIRS)
    store, stored = commands.store, []

    def full(*given: Any) -> Any:
        if stored:
            raise OSError("no space left on device")
        stored.append(given)
        return store(*given)

    monkeypatch.setattr(commands, "store", full)
    with pytest.raises(OSError, match="no space"):
        pipeline.start()
    monkeypatch.undo()
    feed.add()
    pipeline.start("available-now").awaitTermination()
    kept = commands.stored(Directory(feed.spark, str(feed.root / "c")))
    assert [(c.kind, c.payload["query"]) for c in kept] == [("register", "totals"), ("register", "pairs")]
    assert states(pipeline) == {"totals": "running", "pairs": "running"}
    shutil.rmtree(feed.root / "c" / "results")
    feed.add()
    with pytest.raises(QueryFailed, match="does not have the batches that the pipeline has published"):
        pipeline.start("available-now").awaitTermination()


def test_static_tables_are_read_again(feed: Feed) -> None:
    def names(number: int) -> None:
        table = pa.table({"k": [0, 1, 2, 3, 4], "name": [f"{k}{'abc'[number]}" for k in range(5)]})
        pq.write_table(table, feed.root / ".new")
        (feed.root / ".new").rename(feed.root / "T" / f"{number}.parquet")
        (feed.root / "T" / f"{number - 1}.parquet").unlink(missing_ok=True)

    def start() -> tuple[Session, Pipeline]:
        session = feed.session()
        session.sql(f"CREATE TABLE T (k BIGINT, name STRING) FROM PARQUET '{feed.root / 'T'}'")
        pipeline = feed.pipeline(session, streams=["S"])
        pipeline.register("named", "SELECT ISTREAM(S.k, T.name) FROM S [NOW], T WHERE S.k = T.k")
        return session, pipeline.start()

    (feed.root / "T").mkdir()
    names(0)
    session, pipeline = start()
    step(feed, pipeline)
    names(1)
    assert session.refresh_table("T") == 1
    step(feed, pipeline)
    pipeline.stop()
    names(2)
    session, pipeline = start()
    step(feed, pipeline)
    assert session.refresh_table("T") == 0
    found = feed.read(pipeline, "named")
    assert len(found) == 24
    assert {(ts, row["name"][-1]) for ts, _, row in found} == {(t, "abc"[t // 4]) for t in range(12)}


def test_bad_input_ends_the_pipeline_with_a_sentence(feed: Feed) -> None:
    pipeline = feed.pipeline()
    pipeline.register("totals", TOTALS)
    pipeline.start()
    path = feed.root / "S" / "bad.parquet"
    pq.write_table(pa.Table.from_pylist([{"k": 1, "v": 1, "t": None}], ROW), path)
    with pytest.raises(QueryFailed, match=f"^stream 'S': {path}, row 1: column 't' is NULL"):
        pipeline.process_all_available()
    path.unlink()


def test_what_is_refused(feed: Feed, session: Session) -> None:
    own = feed.session()
    (feed.root / "C").mkdir()
    relation = "CREATE RELATION C (k BIGINT, t BIGINT, op STRING) TIMESTAMP BY t CHANGE BY op"
    own.sql(f"{relation} FROM PARQUET '{feed.root / 'C'}'")
    streams = ["S", "R", "C"]
    pipeline = feed.pipeline(own, streams=streams, split={"C": "k"})
    with pytest.raises(PipelineError, match="has no query; register one before"):
        pipeline.start()
    pipeline.register("totals", TOTALS)
    pipeline.register("totals", TOTALS.replace("SELECT", "SELECT\n"))
    with pytest.raises(PipelineError, match="already has a query 'totals' with another text: SELECT k, COU"):
        pipeline.register("totals", LARGE)
    with pytest.raises(PipelineError, match="has no query 'x'; it has totals"):
        pipeline.drop("x")
    with pytest.raises(PipelineError, match="has no query 'x'; it has totals"):
        pipeline["x"]
    with pytest.raises(PipelineError, match="was not started"):
        pipeline.process_all_available()
    with pytest.raises(CatalogError, match="there is no sink 'x'; sinks: out"):
        pipeline.register("large", LARGE, sink="x")
    bad = pipeline.register("pairs", PAIRS, sink=lambda df: df.writeStream.format("parquet"))
    feed.add()
    pipeline.start("available-now")
    pipeline.awaitTermination()
    assert "path" in bad.sink and bad.state == "running"
    with pytest.raises(PipelineError, match="changes reads a relation, whose rows so far"):
        pipeline.register("changes", "SELECT k, COUNT(*) AS n FROM C GROUP BY k")
    with pytest.raises(PipelineError, match=r"needs rows where the pipeline does not send them.*split="):
        pipeline.register("by_v", "SELECT v, COUNT(*) AS n FROM S [RANGE 6] GROUP BY v")
    with pytest.raises(PipelineError, match="has the streams S, R, C, not S, R; they are fixed when"):
        feed.pipeline()
    with pytest.raises(PipelineError, match="has 2 partitions, and this session 3; connect with penstock"):
        feed.pipeline(_with_partitions(own, 3), streams=streams)
    with pytest.raises(PipelineError, match=r"has the splits of S \(k\), not \(v\); they are fixed"):
        feed.pipeline(_with_partitions(own, 2), streams=streams, split={"S": "v"})
    resumed = feed.pipeline(own, streams=streams, split={"S": "k"})
    assert resumed["totals"].columns == ["ts", "op", "k", "n", "s"]
    with pytest.raises(CatalogError, match="there is no pipeline 'x'; give checkpoint="):
        session.pipeline("x")
    with pytest.raises(CatalogError, match="unknown stream 'X'; registered: SysStream, S, R"):
        feed.pipeline(streams=["X"])


def _with_partitions(session: Session, partitions: int) -> Session:
    session.partitions = partitions
    return session
