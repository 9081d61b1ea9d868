"""Aggregates whose state is the group's rows, and arrays, on Spark as on the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark
ROWS = [(t // 3, {"k": "abc"[t % 3], "v": t * 7 % 11, "x": t / 4}) for t in range(24)]
QUERY = """SELECT k, FIRST(v) AS f, LAST(v) FILTER (WHERE v > 2) AS l, MEDIAN(v) AS m, COLLECT_LIST(v) AS vs,
    COLLECT_SET(x) AS xs, STRING_AGG(k, '-') AS ks, MAX_BY(x, v) AS top, COUNT(DISTINCT k, v) AS n,
    APPROX_COUNT_DISTINCT(v) AS d, APPROX_PERCENTILE(x, 0.5) AS p FROM S [RANGE 4] GROUP BY k"""
WHOLE = "SELECT FIRST(v) AS f, LAST(v) AS l, MIN_BY(k, v) AS b, COUNT_IF(v > 3) AS n FROM S [ROWS 7]"


@pytest.mark.parametrize("query", (QUERY, WHOLE))
def test_agrees_with_the_engine(spark: Any, query: str) -> None:
    here = penstock.evaluate(query, {"S": ROWS}, until=16)
    there = penstock.evaluate(query, {"S": ROWS}, until=16, on="spark", partitions=2, batches=2)
    assert sorted(map(repr, there)) == sorted(map(repr, here)) and len(here) > 10


def test_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    """An aggregate of one's own, registered again, and a list: their state is in the checkpoint."""
    query = "SELECT k, most(v) AS m, COLLECT_LIST(v) AS vs, FIRST(v) AS f FROM S [ROWS 5] GROUP BY k"
    most: dict[str, Any] = {
        "returns": "BIGINT",
        "state": "most BIGINT",
        "add": lambda v: {"most": v},
        "merge": lambda a, b: {"most": pc.max_element_wise(a["most"], b["most"])},
        "finish": lambda state: state["most"],
    }
    found: list[Any] = []
    (tmp_path / "in").mkdir()
    for number in range(2):
        part = ROWS[12 * number : 12 * number + 12]
        table = pa.Table.from_pylist([{"k": row["k"], "v": row["v"], "t": ts} for ts, row in part])
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
        session = Session(spark, 2)
        session.create_aggregate("most", **most)
        columns = "k STRING, v BIGINT, t BIGINT"
        session.sql(f"CREATE STREAM S ({columns}) TIMESTAMP BY t FROM PARQUET '{tmp_path}/in'")
        df = session.sql(query)
        assert df is not None
        writer = df.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        session.close()
    expected = penstock.evaluate(query, {"S": ROWS}, functions={"most": most})
    last = max(ts for ts, _ in ROWS)
    complete = [(ts, op, row) for ts, op, row in expected if ts < last]
    got = [(row[0], row[1], row.asDict()) for row in found]
    names = ("k", "m", "vs", "f")
    assert sorted(repr((ts, op, [row[n] for n in names])) for ts, op, row in got) == sorted(
        repr((ts, op, [row[n] for n in names])) for ts, op, row in complete
    )
