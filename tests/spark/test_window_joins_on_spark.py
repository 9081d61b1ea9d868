"""Joins inside a budget through all of Spark, on one partition and on two."""

from __future__ import annotations

from typing import Any

import pytest
from longer import longer

import penstock

pytestmark = pytest.mark.spark

WITHIN = (
    "SELECT ISTREAM ALL(A.n, B.n AS m) FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k "
    "WITHIN RATE 12 PER SECOND AT LEAST 2 EACH AND MEMORY 80 ROWS"
)


@pytest.mark.parametrize("partitions", [2, *longer(1)])
def test_a_budget_loses_the_same_rows_as_without_spark(spark: Any, partitions: int) -> None:
    inputs = {n: [(t // 20, {"k": t % 7, "n": t}) for t in range(400)] for n in "AB"}
    runs = [
        penstock.evaluate(WITHIN, inputs, partitions=partitions, batches=2, on=on)
        for on in ("engine", "spark")
    ]
    whole = penstock.evaluate(WITHIN.partition("WITHIN")[0], inputs)
    engine, on_spark = ({(ts, *row.values()) for ts, _, row in run} for run in runs)
    assert engine == on_spark
    assert 0 < len(runs[1]) < len(whole)
    assert on_spark < {(ts, *row.values()) for ts, _, row in whole}
