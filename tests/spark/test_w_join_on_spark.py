"""Joins with windows between streams on Spark: by hash, by time, grouped; as the engine has them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import penstock
from penstock.evaluation import plan_of, read_inputs
from penstock.schema import TimeDomain

pytestmark = pytest.mark.spark
SPAN = "SET penstock.batch_span = '100 SECONDS'; "
QUERIES = {
    "by hash": "SELECT ISTREAM ALL(A.v, B.v AS w) FROM A, B, C WINDOW 4 WHERE A.k = B.k AND B.k = C.k",
    "by time": SPAN
    + "SELECT A.v, B.v AS w FROM A, B, C WINDOW (A, B) 2 AND DWINDOW (B, C) 3 WHERE A.k < C.k",
    "by time, grouped": SPAN
    + "SELECT x.k, COUNT(*) AS n FROM A AS x, A AS y, B WINDOW PATH (x, y, B) (2, 1) GROUP BY x.k",
}


def rows(name: str) -> list[tuple[int, dict[str, Any]]]:
    die = Random(name)
    stamps = sorted(die.randrange(60) for _ in range(40))
    return [(t, {"k": die.randrange(3), "v": n}) for n, t in enumerate(stamps)]


@pytest.mark.share(2)
@pytest.mark.parametrize("how", QUERIES)
def test_spark_returns_what_the_engine_does(spark: Any, how: str) -> None:
    inputs = {n: rows(n) for n in "ABC"}
    there = penstock.evaluate(QUERIES[how], inputs, until=80, on="spark", partitions=3, batches=2)
    here = penstock.evaluate(QUERIES[how], inputs, until=80)

    def keyed(changes: list[Any]) -> list[Any]:
        return sorted((ts, sign, tuple(row.values())) for ts, sign, row in changes)

    assert keyed(there) == keyed(here) != []
    plan = plan_of(QUERIES[how], read_inputs(inputs, {}, TimeDomain()).catalog(), (), 3)
    routes = [i.route for i in plan.stages[0].inputs]
    assert any(r.sliced for r in routes) == ("time" in how)
