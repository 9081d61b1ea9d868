"""Intervals as values: what Spark computes (in UTC), and aggregates that take rows back."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import penstock
from penstock.errors import DataError

US = dt.timedelta(microseconds=1)


def moment(micros: int) -> dt.datetime:
    return dt.datetime(2024, 2, 29, 23, 59, 59, tzinfo=dt.UTC) + micros * US


ROWS: list[dict[str, Any]] = [
    {"a": moment(0), "b": moment(-1), "n": 1, "x": 1.5, "day": dt.date(2024, 3, 1)},
    {"a": moment(1_000_001), "b": moment(90_061_000_001), "n": 3, "x": -0.1, "day": dt.date(1969, 12, 31)},
    {"a": moment(-5), "b": moment(5), "n": -4, "x": 2.5, "day": dt.date(2000, 2, 29)},
    {"a": None, "b": moment(7), "n": 7, "x": 1e-9, "day": None},
    {"a": moment(86_400_000_000 * 400), "b": moment(3), "n": 2, "x": 3.0, "day": dt.date(2024, 2, 29)},
]
SCHEMA = "a TIMESTAMP, b TIMESTAMP, n INT, x DOUBLE, day DATE"
EXPRESSIONS = (
    "a - b", "b + (a - b)", "b - (a - b)", "(a - b) + day", "day - (a - b)", "-(a - b)", "ABS(a - b)",
    "(a - b) + INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '5' MINUTE - (a - b)", "(a - b) * n",
    "n * (a - b)", "(a - b) * x", "(a - b) / n", "(a - b) / x", "(a - b) * 1.25", "(a - b) / 0.3",
    "a - b < INTERVAL '1' DAY", "a - b IN (INTERVAL '10' SECOND, b - a)", "(a - b) <=> NULL",
    "CAST(a - b AS STRING)", "COALESCE(a - b, INTERVAL '1' DAY)", "GREATEST(a - b, INTERVAL '0' SECOND)",
    "CASE WHEN n > 2 THEN a - b ELSE INTERVAL '0 00:00:01' DAY TO SECOND END", "a - day", "day - b",
    "EXTRACT(DAY FROM b - a)", "EXTRACT(HOUR FROM a - b)", "EXTRACT(MINUTE FROM a - b)",
    "EXTRACT(SECOND FROM a - b)", "MAKE_DT_INTERVAL(n, 2, -3, 4.5)", "MAKE_DT_INTERVAL()",
    "MAKE_DT_INTERVAL(0, n)",
)  # fmt: skip


def ours(expression: str) -> list[Any]:
    stream = [(t, {"i": t, **row}) for t, row in enumerate(ROWS)]
    found = penstock.evaluate(f"SELECT {expression} AS v FROM S", {"S": stream}, {"S": f"i INT, {SCHEMA}"})
    return [row["v"] for _, _, row in found]


@pytest.mark.spark
def test_values_are_those_of_spark(spark: Any) -> None:
    table = spark.createDataFrame([(i, *row.values()) for i, row in enumerate(ROWS)], f"i INT, {SCHEMA}")
    listed = ", ".join(f"{e} AS v{i}" for i, e in enumerate(EXPRESSIONS))
    table.createOrReplaceTempView("intervals")
    there = spark.sql(f"SELECT {listed} FROM intervals ORDER BY i").toArrow()
    for i, expression in enumerate(EXPRESSIONS):
        assert ours(expression) == there.column(f"v{i}").to_pylist(), expression


def test_by_hand() -> None:
    assert ours("a - b")[:3] == [US, -90_060_000_000 * US, -10 * US]
    assert ours("(a - b) / 4")[2] == -3 * US, "half up, away from zero"
    assert ours("CAST(b - a AS STRING)")[1] == "INTERVAL '1 01:01:00' DAY TO SECOND"
    with pytest.raises(DataError, match="division by zero"):
        ours("(a - b) / (n - 1)")
    with pytest.raises(DataError, match="out of range"):
        ours("(a - b) * 1e300")


@pytest.mark.parametrize("partitions", [1, 3])
def test_aggregates_take_rows_back(partitions: int) -> None:
    random = Random(3)
    lengths = [None if random.random() < 0.1 else random.randint(-(10**12), 10**12) for _ in range(60)]
    rows = [(t, {"d": None if n is None else n * US, "k": t % 2}) for t, n in enumerate(lengths)]
    listed = "SUM(d) AS s, AVG(d) AS m, MIN(d) AS lo, MAX(d) AS hi, COUNT(DISTINCT d) AS c"
    query = f"SELECT {listed} FROM S [ROWS 5]"
    schema = {"S": "d INTERVAL DAY TO SECOND, k INT"}
    found = penstock.evaluate(query, {"S": rows}, schema, partitions=partitions)
    shown = {t: row for t, sign, row in found if sign == "+"}
    for t in range(60):
        there = [n for n in lengths[max(t - 4, 0) : t + 1] if n is not None]
        if not there or t not in shown:
            continue
        mean = Fraction(abs(sum(there)), len(there))
        rounded = int(mean + Fraction(1, 2)) * (1 if sum(there) >= 0 else -1)
        values = (sum(there), rounded, min(there), max(there))
        assert list(shown[t].values()) == [*(n * US for n in values), len(set(there))]


def test_a_join_by_a_difference_and_groups() -> None:
    rows = {n: [(t, {"a": moment(t * s), "b": moment(0)}) for t in range(6)] for n, s in (("S", 2), ("T", 3))}
    query = "SELECT S.a - S.b AS d FROM S [ROWS 6], T [ROWS 6] WHERE S.a - S.b = T.a - T.b"
    found = penstock.evaluate(query, rows, partitions=3)
    assert sorted(row["d"] for _, sign, row in found if sign == "+") == [0 * US, 6 * US]
    having = "HAVING a - b > INTERVAL '5 microseconds'"
    grouped = f"SELECT a - b AS d, COUNT(*) AS n FROM S GROUP BY a - b {having}"
    assert [row for _, _, row in penstock.evaluate(grouped, {"S": rows["S"]}, partitions=2)] == [
        {"d": n * US, "n": 1} for n in (6, 8, 10)
    ]
