"""TIMESTAMP time on Spark: windows with bounds, and RSTREAM at the instants of all partitions."""

from __future__ import annotations

import datetime as dt
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

pytestmark = pytest.mark.spark
START = dt.datetime(2024, 1, 31, tzinfo=dt.UTC)
ROWS = [(s, s % 5, s) for s in (0, 1, 9, 10, 12, 19, 20, 21, 22, 30)]
LAST = 100
"""A row that completes the instants before it."""


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def write(directory: Path) -> str:
    """Two files, read one after the other."""
    directory.mkdir()
    rows = [*ROWS, (LAST, 0, 0)]
    for number, some in enumerate((rows[:5], rows[5:])):
        columns = {
            "ts": pa.array([at(s) for s, _, _ in some], pa.timestamp("us", "UTC")),
            "k": pa.array([k for _, k, _ in some], pa.int64()),
            "v": pa.array([v for _, _, v in some], pa.int64()),
        }
        pq.write_table(pa.table(columns), directory / f"{number}.parquet")
        os.utime(directory / f"{number}.parquet", (1_700_000_000 + number,) * 2)  # the older first
    return str(directory)


def seconds(row: Any) -> tuple[Any, ...]:
    """A result row with its times in seconds from the start."""
    plain = (v.replace(tzinfo=dt.UTC) if isinstance(v, dt.datetime) else v for v in row)
    return tuple((v - START).total_seconds() if isinstance(v, dt.datetime) else v for v in plain)


def test_tumbling_sessions_and_rstream(spark: Any, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    path = write(tmp_path / "in")

    def run(query: str) -> list[tuple[Any, ...]]:
        rows: list[Any] = []
        writer = ps.sql(query).writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(map(seconds, rows))

    with closing(penstock.connect(spark, partitions=3)) as ps:
        options = "OPTIONS (maxFilesPerTrigger '1')"
        columns = "(ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts"
        ps.sql(f"CREATE STREAM S {columns} FROM PARQUET '{path}' {options}")
        counted = run(
            "SELECT ISTREAM(window_start, window_end, COUNT(*) AS n) FROM S [TUMBLE 10 SECONDS] "
            "WHERE window_start < TIMESTAMP '2024-01-31 00:00:30' GROUP BY window_start, window_end"
        )
        sessions = run(
            "SELECT ISTREAM(k, window_start, COUNT(*) AS n) FROM S [SESSION 11 SECONDS PARTITION BY k] "
            "GROUP BY k, window_start"
        )
        shown = run("SELECT RSTREAM(k, COUNT(*) AS n) FROM S [RANGE 5 SECONDS] WHERE v < 20 GROUP BY k")
        whole = run("SELECT RSTREAM(COUNT(*) AS n) FROM S [RANGE 5 SECONDS] WHERE v < 20")
        paired = run(
            "SELECT RSTREAM(a.v, b.v AS w) FROM S [RANGE 10 SECONDS] AS a, S [NOW] AS b WHERE a.k = b.k"
        )
    assert counted == [(b, b - 10, b, n) for b, n in ((10, 3), (20, 3), (30, 3))]
    assert sessions == _sessions()
    assert shown == _shown()
    assert whole == [(now, sum(now - 5 <= s <= now and v < 20 for s, _, v in ROWS)) for now, _, _ in ROWS]
    pairs = [(s, v, w) for s, k, w in ROWS for t, j, v in ROWS if j == k and s - 10 <= t <= s]
    assert paired == sorted([*pairs, (LAST, 0, 0)])  # the last one does not wait


@pytest.mark.parametrize(("size", "hop"), [(7, 5), (10, 4), (9, 3)])
def test_hops_are_those_of_sparks_window(spark: Any, size: int, hop: int) -> None:
    stamps = [-13, -2, *(s for s, _, _ in ROWS)]
    spark.createDataFrame([(s,) for s in stamps], "s BIGINT").createOrReplaceTempView("hops")
    theirs = spark.sql(
        "SELECT unix_seconds(w.start), unix_seconds(w.end), n FROM (SELECT COUNT(*) AS n, "
        f"window(timestamp_seconds(s), '{size} seconds', '{hop} seconds') AS w FROM hops GROUP BY w)"
    )
    ours = penstock.evaluate(
        "SELECT ISTREAM(window_start, window_end, COUNT(*) AS n) "
        f"FROM S [HOP {size} EVERY {hop}] GROUP BY window_start, window_end",
        {"S": [(s, {"v": 1}) for s in stamps]},
        until=LAST,
    )
    assert sorted(tuple(row.values()) for _, _, row in ours) == sorted(map(tuple, theirs.collect()))


def _sessions() -> list[tuple[Any, ...]]:
    found = []
    for key in range(5):
        mine = [s for s, k, _ in ROWS if k == key]
        while mine:
            end = next((i for i in range(1, len(mine)) if mine[i] - mine[i - 1] >= 11), len(mine))
            found.append((mine[end - 1] + 11, key, mine[0], end))
            mine = mine[end:]
    return sorted(found)


def _shown() -> list[tuple[Any, ...]]:
    """R at every instant with a row, whatever its key and whether or not the filter drops it."""
    found = []
    for now in (s for s, _, _ in ROWS):
        keys = [k for s, k, v in ROWS if now - 5 <= s <= now and v < 20]
        found += [(now, k, keys.count(k)) for k in set(keys)]
    return sorted(found)
