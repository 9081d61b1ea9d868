"""Aggregates whose state is the group's rows, and arrays, on Spark as on the engine."""

from __future__ import annotations

from typing import Any

import pytest

import penstock

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
