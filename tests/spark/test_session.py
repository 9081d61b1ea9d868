"""The session: what can be registered, what a query's DataFrame looks like, what mistakes are told."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from longer import longer
from pyspark.errors import StreamingQueryException
from waiting import until

import penstock
from penstock import CatalogError, CQLError
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    session = penstock.connect(spark)
    yield session
    session.close()


@pytest.fixture
def rate(spark: Any) -> Any:
    """A streaming DataFrame with columns of many types."""
    shown = ("timestamp AS ts", "value AS v", "CAST(value AS INT) AS i", "'x' AS s", "value > 1 AS b")
    return spark.readStream.format("rate").load().selectExpr(*shown)


def run(df: Any) -> list[Any]:
    """All rows of a query over what there is."""
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    return rows


def write(directory: Path, **columns: Any) -> str:
    directory.mkdir()
    pq.write_table(pa.table(columns), directory / "1.parquet")
    return str(directory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"timestamp": "when"},
            "timestamp names an unknown column 'when'; the columns are ts, v, i, s, b",
        ),
        ({"timestamp": "s"}, "timestamp column 's' is STRING; it must be a TIMESTAMP or an integer"),
        ({"timestamp": "ts", "unit": "seconds"}, "unit='seconds' is for integer timestamps"),
        ({"timestamp": "v", "unit": "fortnights"}, "unknown unit of time 'fortnights'"),
        ({"timestamp": "ts", "skew": "soon"}, "disorder takes a number"),
        ({"timestamp": "ts", "idle_after": "-"}, "idle_after takes a number"),
        ({"timestamp": "ts", "heartbeat": "v"}, "heartbeat column 'v' is BIGINT; it must be BOOLEAN"),
        ({"timestamp": "ts", "heartbeat": "beat"}, "heartbeat names an unknown column 'beat'"),
    ],
)
def test_wrong_streams(session: Session, rate: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError) as raised:
        session.create_stream("S", rate, **arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_streams_and_tables_are_told_apart(session: Session, rate: Any, spark: Any) -> None:
    with pytest.raises(CatalogError, match="the DataFrame is static"):
        session.create_stream("S", spark.range(3), timestamp="id")
    with pytest.raises(CatalogError, match="the DataFrame is streaming"):
        session.create_table("T", rate)
    with pytest.raises(CatalogError, match=r"stream 'S' is made of a DataFrame of Spark, not str; pass one"):
        session.create_stream("S", "dir", timestamp="ts")
    with pytest.raises(CatalogError, match=r"table 'T' is made of a DataFrame of Spark, not NoneType"):
        session.create_table("T", None)
    with pytest.raises(CatalogError, match=r"not pandas.DataFrame; pass one, as spark.createDataFrame\("):
        session.create_table("T", pd.DataFrame({"a": [1]}))


def test_names_are_taken_once_whatever_their_case(session: Session, rate: Any, spark: Any) -> None:
    session.create_stream("S", rate, timestamp="TS")
    with pytest.raises(CatalogError, match="'S' already exists"):
        session.create_table("s", spark.range(1))
    session.drop("s")
    session.create_table("s", spark.range(1))
    with pytest.raises(CatalogError, match="'q'"):
        session.drop("q")


def test_skew_and_units_are_ticks(session: Session, rate: Any) -> None:
    session.create_stream("S", rate, timestamp="v", unit="milliseconds", skew="2 seconds", idle_after=5)
    options = session._catalog["S"].options
    assert (options.skew, options.idle_after, options.time.unit) == (2000, 5, "milliseconds")


def test_mistakes_in_a_query_are_told_at_once(session: Session, rate: Any) -> None:
    session.create_stream("Stock", rate, timestamp="ts")
    with pytest.raises(CQLError, match="line 1, column 15"):
        session.sql("SELECT v FROM Stok")
    with pytest.raises(CQLError, match="line 1, column 8"):
        session.sql("SELECT w FROM Stock")
    with pytest.raises(penstock.PenstockError, match="partitions=0"):
        Session(session.spark, 0)


def test_a_source_that_cannot_be_read(session: Session) -> None:
    with pytest.raises(CatalogError, match="from /no/such/place: there is no such path; a rel") as raised:
        session.sql("CREATE STREAM S (a INT, t BIGINT) TIMESTAMP BY t FROM PARQUET '/no/such/place'")
    assert "\n" not in str(raised.value)


def test_a_relation_has_ts_op_and_the_columns(session: Session, tmp_path: Path) -> None:
    base = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    stamps = pa.array([base + dt.timedelta(seconds=n) for n in range(4)], pa.timestamp("us", tz="UTC"))
    source = write(tmp_path / "S", ts=stamps, op=["a", "b", "c", "d"])
    session.sql(f"CREATE STREAM S (ts TIMESTAMP, op STRING) TIMESTAMP BY ts FROM PARQUET '{source}'")
    df = session.sql("SELECT * FROM S [RANGE 1 SECOND]")
    assert df is not None
    assert df.dtypes == [("ts", "timestamp"), ("op", "string"), ("ts_1", "timestamp"), ("op_1", "string")]
    rows = run(df)
    assert {r.op for r in rows} == {"+", "-"}
    entered = sorted((r.ts.second, r.op_1, r.ts_1.second) for r in rows if r.op == "+")
    assert entered == [(0, "a", 0), (1, "b", 1), (2, "c", 2)]
    life = dt.timedelta(seconds=1, microseconds=1)
    assert sorted((r.op_1, r.ts - r.ts_1) for r in rows if r.op == "-") == [("a", life), ("b", life)]


def test_a_stream_over_integers_has_no_op(session: Session, tmp_path: Path) -> None:
    source = write(tmp_path / "S", t=[1, 2, 3], a=pa.array([10, 20, 30], pa.int32()))
    session.sql(f"CREATE STREAM S (t BIGINT, a INT) TIMESTAMP BY t FROM PARQUET '{source}'")
    df = session.sql("SELECT ISTREAM(a) FROM S [RANGE 5]")
    assert df is not None
    assert df.dtypes == [("ts", "bigint"), ("a", "int")]
    assert [(r.ts, r.a) for r in run(df)][:2] == [(1, 10), (2, 20)]


def test_json_and_csv_directories(session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in (("J", json.dumps({"t": 1, "a": 5}) + "\n"), ("K", "1,5\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").write_text(text)
    session.sql(f"""
        CREATE STREAM J (t BIGINT, a INT) TIMESTAMP BY t FROM JSON '{tmp_path / "J"}';
        CREATE STREAM K (t BIGINT, a INT) TIMESTAMP BY t FROM CSV '{tmp_path / "K"}';
    """)
    df = session.sql("SELECT J.a AS j, K.a AS k FROM J, K WHERE J.a = K.a")
    assert df is not None
    assert [(r.ts, r.j, r.k) for r in run(df)] == [(1, 5, 5)]
    grows = "state grows without end: binary-join keeps every row of {}: no window ends them; give the stream"
    assert [
        r.getMessage().startswith(grows.format(n)) for r, n in zip(caplog.records, "JK", strict=False)
    ] == [True] * 2


def test_tables_join_streams(session: Session, spark: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "S", t=[1, 2, 3], a=[1, 2, 1])
    session.sql(f"CREATE STREAM S (t BIGINT, a BIGINT) TIMESTAMP BY t FROM PARQUET '{source}'")
    session.create_table("T", spark.createDataFrame([(1, "one"), (2, "two")], "k BIGINT, name STRING"))
    df = session.sql("SELECT ISTREAM(S.a, T.name) FROM S [NOW], T WHERE S.a = T.k AND T.name <> 'two'")
    assert df is not None
    assert ("ts", "bigint") in df.dtypes
    assert {r.name for r in run(df)} == {"one"}


def test_heartbeats_let_time_run_on(session: Session, spark: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "S", t=[1, 9], a=[5, None], beat=[False, True])
    df = spark.readStream.schema("t BIGINT, a BIGINT, beat BOOLEAN").parquet(source)
    session.create_stream("S", df, timestamp="t", heartbeat="beat")
    result = session.sql("SELECT a FROM S [RANGE 2]")
    assert result is not None
    assert [(r.ts, r.op, r.a) for r in run(result)] == [(1, "+", 5), (4, "-", 5)]


def test_explain_of_a_running_query(session: Session, tmp_path: Path) -> None:
    rows = {"k": list(range(3000)), "ts": [dt.datetime(2026, 1, 1)] * 3000}
    for name in ("A", "B", "C"):
        place = write(tmp_path / name, **rows)
        session.sql(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '{place}'")
    df = session.sql(
        "SELECT ISTREAM(A.k, A.ts AS a, B.ts AS b, C.ts AS c) FROM A [NOW], B [NOW], C [NOW] "
        "WHERE A.k = B.k AND B.k = C.k"
    )
    query = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        text = session.explain(query)
    finally:
        query.stop()
    until(lambda: session.explain(query).startswith("the query has ended, and its engines with it"))
    assert "stage 1, partition 0: " in text
    assert "mjoin A.k = B.k = C.k: " in text
    assert "a-greedy: " in text and " changes of order" in text


def test_explain_of_something_else(session: Session) -> None:
    with pytest.raises(penstock.PenstockError, match="text of a query or a running query, not 5"):
        session.explain(5)  # type: ignore[arg-type]


def test_explain_says_what_spark_does(session: Session, rate: Any) -> None:
    session.create_stream("S", rate, timestamp="ts")
    text = session.explain("SELECT v FROM S [RANGE 1 MINUTE] WHERE i > 3")
    assert "Catalyst" in text
    assert "stage 1" in text


@pytest.mark.parametrize("partitions", [3, *longer(1)])
def test_evaluate_on_spark_is_evaluate_on_the_engine(spark: Any, partitions: int) -> None:
    inputs = {
        "S": [(n // 3, {"k": n % 4, "x": None if n % 5 == 0 else n * 0.5}) for n in range(30)],
        "T": [{"k": n, "name": f"n{n}"} for n in range(3)],
    }
    query = "SELECT T.name, COUNT(*) AS n, SUM(S.x) AS x FROM S [RANGE 3], T WHERE S.k = T.k GROUP BY T.name"
    here = penstock.evaluate(query, inputs, until=20)
    there = penstock.evaluate(query, inputs, until=20, on="spark", partitions=partitions, batches=2)
    assert here
    assert sorted(there, key=repr) == sorted(here, key=repr)


def test_a_new_session_of_one_spark_is_limited_by_what_its_engines_hold(spark: Any, tmp_path: Path) -> None:
    """The limit is far below the address space of a Python process; a join that outgrows it is told."""
    session = penstock.connect(spark.newSession(), partitions=1)
    few, many = range(30), range(60_000)
    for name, rows in (("A", few), ("B", few), ("C", many), ("D", many)):
        place = write(tmp_path / name, t=[0 for _ in rows], k=[n % 3 for n in rows])
        session.sql(f"CREATE STREAM {name} (t BIGINT, k BIGINT) TIMESTAMP BY t FROM PARQUET '{place}'")
    session.sql("SET penstock.engine_memory = 50 MB")
    small = session.sql("SELECT ISTREAM ALL(A.k) FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k")
    assert len(run(small)) == 300
    large = session.sql("SELECT ISTREAM ALL(C.k) FROM C [RANGE 9], D [RANGE 9] WHERE C.k = D.k")
    told = "stage 1, partition 0 needs more memory than penstock.engine_memory = 50 MB allows"
    with pytest.raises(StreamingQueryException, match=told) as raised:
        run(large)
    assert "lost" not in str(raised.value)
    session.close()


def test_workers_import_a_compiled_pyspark(spark: Any) -> None:
    """An archive of pyspark in front of the path would be compiled again by every process."""

    def where(_: int) -> str:
        import pyspark

        return pyspark.__file__

    assert ".zip" not in spark.sparkContext.parallelize([0], 1).map(where).first()
