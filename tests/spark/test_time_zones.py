"""All times are in UTC, whatever the time zone of the Spark session, also where its clocks change."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from longer import longer

import penstock

# In Berlin 2:30 came twice on 27 October 2024 and never on 31 March; in New York 1:30 twice on 3 November.
TIMES = [
    "2024-10-27 00:30:00", "2024-10-27 01:30:00", "2024-11-03 05:30:00.123456", "2024-11-03 06:30:00",
    "2024-03-31 00:59:59", "2024-03-31 01:30:00", "2024-01-01 23:30:00", "2023-12-31 23:59:59.999999",
]  # fmt: skip
QUERY = """
SELECT t, n, HOUR(t) AS h, CAST(t AS STRING) AS s, DATE_TRUNC('day', t) AS d, CAST(t AS DATE) AS e,
       CAST(n AS TIMESTAMP) AS z, t + INTERVAL 1 DAY AS later, w
FROM S [ROWS 1], T
WHERE {} AND YEAR(t) = w
"""
PREDICATES = (
    "HOUR(t) = 1", "CAST(t AS STRING) LIKE '%00:30%'", "t = n AND HOUR(n) < 2", "DATE_TRUNC('hour', t) < t",
    "t >= TIMESTAMP '2024-03-31 01:00:00'", "CAST(t AS DATE) = DATE '2024-01-01'", "UNIX_MICROS(t) % 2 = 0",
)  # fmt: skip
SCHEMAS = {"S": "t TIMESTAMP, n TIMESTAMP_NTZ", "T": "w INT, f TIMESTAMP"}


@pytest.fixture(params=["Europe/Berlin", *longer("America/New_York")])
def zone(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def inputs() -> dict[str, Any]:
    moments = [dt.datetime.fromisoformat(text) for text in TIMES]
    rows = [(i, {"t": m.replace(tzinfo=dt.UTC), "n": m}) for i, m in enumerate(moments)]
    return {"S": rows, "T": [{"w": year, "f": moments[0].replace(tzinfo=dt.UTC)} for year in (2023, 2024)]}


@pytest.mark.spark
def test_pushed_down_and_not(spark: Any, zone: str) -> None:
    where = " OR ".join(f"({p})" for p in PREDICATES)
    for condition in (f"({where})", "HOUR(t) <> 1 AND HOUR(f) = 0")[: 1 + (zone == "Europe/Berlin")]:
        query = QUERY.format(condition)
        expected = penstock.evaluate(query, inputs(), SCHEMAS)
        assert len(expected) > 4
        found = penstock.evaluate(query, inputs(), SCHEMAS, on="spark", partitions=2)
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.spark
def test_times_as_text_in_files(spark: Any, zone: str, tmp_path: Path) -> None:
    rows = [json.dumps({"t": text.replace(" ", "T"), "i": i}) for i, text in enumerate(TIMES)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text("\n".join([*rows, json.dumps({"t": "2030-01-01T00:00:00"})]))
    with closing(penstock.connect(spark)) as ps:
        disorder = "TIMESTAMP BY t SKEW 400 DAYS"
        ps.sql(f"CREATE STREAM Z (t TIMESTAMP, i INT) {disorder} FROM JSON '{tmp_path / 'in'}'")
        df = ps.sql("SELECT ISTREAM(i, UNIX_MICROS(t) AS u, HOUR(t) AS h) FROM Z [NOW] WHERE HOUR(t) <> 7")
        found: list[Any] = []
        writer = df.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
    moments = [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in TIMES]
    expected = {(i, (m - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1), m.hour)
                for i, m in enumerate(moments)}  # fmt: skip
    assert {(row["i"], row["u"], row["h"]) for row in found if row["i"] is not None} == expected
