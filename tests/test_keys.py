"""Keys that are easy to get wrong: NaN, infinities, -0.0 and NULL in joins, groups and set operations.

As in Spark, and unlike in IEEE 754: NaN equals NaN and is greater than all else, -0.0 equals 0.0.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_host import Manner
from longer import longer
from strategies import Case

import penstock
from penstock.engine.kernels.hashing import as_integers

NAN, INF = math.nan, math.inf
OTHER_NAN = struct.unpack("<d", struct.pack("<q", -1))[0]
"""NaN in other bits: sign and payload set."""

LEFT = [(1, 0.0), (2, -0.0), (3, NAN), (4, OTHER_NAN), (5, INF), (6, -INF), (7, None), (8, 1.5), (9, None)]
RIGHT = [(1, -0.0), (2, NAN), (3, None), (4, INF), (5, 2.0)]
WHOLE = [(1, 0), (2, 2)]

QUERIES = {
    "SELECT S.i, T.i AS j FROM S, T WHERE S.x = T.x": [(1, 1), (2, 1), (3, 2), (4, 2), (5, 4)],
    "SELECT S.i, T.i AS j FROM S JOIN T ON S.x <=> T.x WHERE S.x IS NULL": [(7, 3), (9, 3)],
    "SELECT S.i, T.i AS j FROM S FULL JOIN T ON S.x = T.x WHERE S.i IS NULL OR T.i IS NULL": [
        (6, None), (7, None), (8, None), (9, None), (None, 3), (None, 5),
    ],
    "SELECT S.i, T.i AS j FROM S JOIN T ON CAST(S.x AS FLOAT) = CAST(T.x AS FLOAT)": [
        (1, 1), (2, 1), (3, 2), (4, 2), (5, 4),
    ],
    "SELECT T.i, W.i AS j FROM T, W WHERE T.x = W.n": [(1, 1), (5, 2)],
    "SELECT S.i, T.i AS j FROM S, T WHERE S.x = T.x AND S.i = T.i": [(1, 1)],
    "SELECT S.i, T.i AS j FROM S, T WHERE S.x > T.x AND S.i > 2 AND T.i > 3": [
        (3, 4), (3, 5), (4, 4), (4, 5), (5, 5),
    ],
    "SELECT S.i FROM S WHERE x IN (SELECT x FROM T)": [(1,), (2,), (3,), (4,), (5,)],
    "SELECT S.i FROM S WHERE x NOT IN (SELECT x FROM T WHERE x IS NOT NULL)": [(6,), (8,)],
    "SELECT S.i FROM S WHERE NOT EXISTS (SELECT 1 FROM T WHERE T.x = S.x)": [(6,), (7,), (8,), (9,)],
    "SELECT x, COUNT(*) AS n FROM S GROUP BY x": [
        (0.0, 2), (NAN, 2), (INF, 1), (-INF, 1), (None, 2), (1.5, 1),
    ],
    "SELECT x, i % 2 AS odd, COUNT(*) AS n FROM S WHERE i < 5 GROUP BY x, i % 2": [
        (0.0, 1, 1), (0.0, 0, 1), (NAN, 1, 1), (NAN, 0, 1),
    ],
    "SELECT DISTINCT x FROM S": [(0.0,), (NAN,), (INF,), (-INF,), (None,), (1.5,)],
    "SELECT DISTINCT CAST(x AS FLOAT) AS x FROM S": [(0.0,), (NAN,), (INF,), (-INF,), (None,), (1.5,)],
    "SELECT COUNT(DISTINCT x) AS n, MIN(x) AS least, MAX(x) AS most FROM S": [(5, -INF, NAN)],
    "SELECT x FROM S UNION SELECT x FROM T": [(0.0,), (NAN,), (INF,), (-INF,), (None,), (1.5,), (2.0,)],
    "SELECT x FROM S EXCEPT SELECT x FROM T": [(-INF,), (1.5,)],
    "SELECT x FROM S EXCEPT ALL SELECT x FROM T": [(0.0,), (NAN,), (None,), (-INF,), (1.5,)],
    "SELECT x FROM S INTERSECT SELECT x FROM T": [(0.0,), (NAN,), (INF,), (None,)],
    "SELECT x FROM S INTERSECT ALL SELECT x FROM T": [(0.0,), (NAN,), (INF,), (None,)],
}  # fmt: skip


def rows(names: str, values: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in values]


TABLES = {"S": rows("ix", LEFT), "T": rows("ix", RIGHT), "W": rows("in", WHOLE)}
SCHEMAS = {"S": "i INT, x DOUBLE", "T": "i INT, x DOUBLE", "W": "i INT, n INT"}


def case(query: str) -> Case:
    """The query over streams, whose rows are gone at 20 and come again from 21 on."""
    text = re.sub(r"(FROM|JOIN|,) ([STW])\b(?!\.)", r"\1 \2 [RANGE 10]", query)
    names = [name for name in TABLES if f"{name} [" in text]
    once = {n: list(enumerate(TABLES[n])) for n in names}
    inputs = {n: once[n] + [(21 + ts, row) for ts, row in once[n]] for n in names}
    return Case(text, inputs, {n: SCHEMAS[n] for n in names}, 50)


def normal(row: Any) -> tuple[Any, ...]:
    """Comparable: no NaN, no -0.0."""
    return tuple("NaN" if v != v else "NULL" if v is None else v + 0 for v in row)


def states(changes: list[Any], *instants: int) -> list[list[tuple[Any, ...]]]:
    """The relation at each of the instants, sorted; taking out what is not there is an error."""
    there: list[tuple[Any, ...]] = []
    found = []
    left = list(changes)
    for instant in instants:
        while left and left[0][0] <= instant:
            now = [c for c in left if c[0] == left[0][0]]
            there += [normal(row.values()) for _, sign, row in now if sign == "+"]
            for row in (normal(row.values()) for _, sign, row in now if sign == "-"):
                there.remove(row)
            left = left[len(now) :]
        found.append(sorted(there, key=repr))
    return found


def check(query: str, changes: list[Any]) -> None:
    expected = sorted(map(normal, QUERIES[query]), key=repr)
    nothing = [(0, "NULL", "NULL")] if "COUNT(DISTINCT" in query else []
    assert states(changes, 9, 20, 30, 50) == [expected, nothing, expected, nothing], query


def test_decimals_in_a_longer_buffer() -> None:
    """Arrow may leave anything after the values of a buffer, and any number of bytes."""
    kind = pa.decimal128(9, 2)
    data = pa.array([Decimal("1.25"), Decimal("-3.00")], kind).buffers()[1]
    longer = pa.py_buffer(data.to_pybytes()[:32] + b"xyz")
    column = pa.Array.from_buffers(kind, 1, [None, longer], offset=1)
    found, none = as_integers(column), as_integers(pa.array([], kind))
    assert found is not None and found.tolist() == [-300] and none is not None and not len(none)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("partitions", (1, 3))
def test_engine(query: str, partitions: int) -> None:
    c = case(query)
    check(query, penstock.evaluate(c.cql, c.inputs, c.schemas, until=c.until, partitions=partitions))


@pytest.mark.spark
@pytest.mark.parametrize("partitions", (4, *longer(1)))
def test_on_spark(spark: Any, tmp_path: Path, partitions: int) -> None:
    from bundle import run

    manners = [Manner(partitions, (0.5,))] * len(QUERIES)
    found = run([case(query) for query in QUERIES], spark, tmp_path, manners)
    for query, changes in zip(QUERIES, found, strict=True):
        check(query, changes)


@pytest.mark.spark
@pytest.mark.long
def test_spark_itself_says_so(spark: Any) -> None:
    for name, table in TABLES.items():
        values = [tuple(row.values()) for row in table]
        spark.createDataFrame(values, SCHEMAS[name]).createOrReplaceTempView(name)
    for query, expected in QUERIES.items():
        found = sorted((normal(row) for row in spark.sql(query).collect()), key=repr)
        assert found == sorted(map(normal, expected), key=repr), query
