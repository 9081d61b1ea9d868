"""How text is read: precedence of operators, literals with types, edges of types; each as Spark reads it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import penstock
from penstock.errors import CQLError

HALF_BEFORE = "TIMESTAMP '1969-12-31 23:59:59.5'"
EXPECTED: dict[str, Any] = {
    # Precedence: a comparison over | over ^ over & over shifts over sums.
    "1 & 2 >> 1": 1,
    "1 | 6 & 3 ^ 4": 7,
    "4 ^ 6 & 3": 6,
    "1 | 2 ^ 3": 1,
    "1 + 1 << 2": 8,
    "16 >>> 2 << 1 >> 1": 4,
    "1 & 3 = 1": True,
    "1 = 1 IS NULL": False,
    "2 > 1 IN (true)": True,
    "1 < 2 = true": True,
    "NOT 1 = 2": True,
    "! true AND false": False,
    "NOT 1 = 1 IS NULL": True,
    "1 BETWEEN 0 AND 1 + 1 AND 2 > 1": True,
    "-2 * -3 + +4": 10,
    "- -1": 1,
    "7 % 4 * 2": 6,
    "7 DIV 2 * 2": 6,
    "~1 & 3": 2,
    # Signs and types belong to literals.
    "-128::TINYINT": -128,
    "-2147483648": -2147483648,
    "+ '1'": 1.0,
    "+ 1.5": 1.5,
    "TIMESTAMP '2020-01-01 12:30:15'::DATE": dt.date(2020, 1, 1),
    "TIMESTAMP_NTZ '2020-01-01 12:30:15'::DATE": dt.date(2020, 1, 1),
    "DATE '2020-01-02'::STRING": "2020-01-02",
    "'2020-01-02'::DATE::STRING": "2020-01-02",
    "INTERVAL '1' DAY * 2 = INTERVAL 2 DAYS": True,
    "INTERVAL +'1 02:03:04' DAY TO SECOND": dt.timedelta(1, 7384),
    # Fractions before 1970, and DECIMALs at an edge.
    f"UNIX_TIMESTAMP({HALF_BEFORE})": 0,
    "UNIX_TIMESTAMP('1969-12-31 23:59:58.5', 'yyyy-MM-dd HH:mm:ss.S')": -1,
    f"UNIX_SECONDS({HALF_BEFORE})": -1,
    f"SECOND({HALF_BEFORE})": 59,
    "WIDTH_BUCKET(6.0000000000000000, 10, 0, 5)": 3,
    "WIDTH_BUCKET(CAST(6 AS DECIMAL(38, 16)), 10, 0, 5)": 3,
    "CAST(CAST(6 AS DECIMAL(38, 16)) AS DOUBLE)": 6.0,
    "CAST(0.12345678901234567890123456789012345678 AS DOUBLE)": 0.12345678901234568,
    "CAST(16777217.000000000000000000000000000001 AS FLOAT) = CAST(16777218 AS FLOAT)": True,
}
"""Constant expressions with their values."""


def ours(text: str) -> Any:
    ((_, _, row),) = penstock.evaluate(f"SELECT {text} AS c FROM S", {"S": [(0, {"v": 1})]})
    return row["c"]


@pytest.mark.parametrize("text", EXPECTED)
def test_value(text: str) -> None:
    found = ours(text)
    assert str(found) == str(EXPECTED[text]) if isinstance(EXPECTED[text], str) else found == EXPECTED[text]


@pytest.mark.spark
def test_values_are_sparks(spark: Any) -> None:
    texts = list(EXPECTED)
    (row,) = spark.sql("SELECT " + ", ".join(f"{t} AS c{n}" for n, t in enumerate(texts))).collect()
    wrong = {
        t: (found, EXPECTED[t]) for t, found in zip(texts, row, strict=True) if str(found) != str(EXPECTED[t])
    }
    assert not wrong


@pytest.mark.parametrize("text", ("true = 1 < 2", "+ true", "1 < < 2", "v IS NULL = true", "1 > > 2"))
def test_spark_refuses_it_too(text: str) -> None:
    with pytest.raises(CQLError):
        ours(text)


def test_sets_of_the_columns_before_them() -> None:
    query = "SELECT k, v, COUNT(*) AS n FROM S GROUP BY k, v GROUPING SETS ({sets})"
    rows = {"S": [(1, {"k": 1, "v": 5}), (1, {"k": 1, "v": 6})]}
    found = penstock.evaluate(query.format(sets="()"), rows)
    assert [row for _, _, row in found] == [{"k": None, "v": None, "n": 2}]
    assert [row for _, _, row in penstock.evaluate(query.format(sets="k"), rows)] == [
        {"k": 1, "v": None, "n": 2}
    ]
    with pytest.raises(CQLError, match=r"'S.w' is in GROUPING SETS but not in GROUP BY"):
        penstock.evaluate(query.format(sets="w"), {"S": [(1, {"k": 1, "v": 5, "w": 1})]})
