"""NULLs without a type, conditions that are constant, and names that are Penstock's own."""

from __future__ import annotations

from typing import Any

import oracle
import pytest

import penstock
from penstock.errors import CatalogError, CQLError

S = [(1, {"a": 1, "b": 2}), (2, {"a": 2, "b": 2}), (4, {"a": None, "b": 3})]
NULLS = """
SELECT SUM(NULL) AS s, AVG(NULL) AS v, MAX(NULL) AS m, MIN(NULL) AS n, COUNT(NULL) AS c FROM S [RANGE 1]
SELECT MAX(NULL) AS m FROM S
SELECT SUM(DISTINCT NULL) AS s, COUNT(DISTINCT NULL) AS c, MAX(DISTINCT NULL) AS m FROM S [RANGE 1]
SELECT STDDEV(NULL) AS d, VAR_POP(NULL) AS v FROM S [RANGE 1] GROUP BY b
SELECT DISTINCT NULL AS n FROM S [RANGE 1]
SELECT n, COUNT(*) AS c FROM (SELECT NULL AS n FROM S [RANGE 1]) AS x GROUP BY n
SELECT -n AS m, -(-n) AS k FROM (SELECT NULL AS n FROM S [RANGE 1]) AS x
SELECT NULL AS n, COUNT(*) AS c FROM S [RANGE 1] GROUP BY NULL
SELECT NULL AS n FROM S [RANGE 1] UNION SELECT NULL FROM S [RANGE 2]
SELECT NULL AS n FROM S [RANGE 1] UNION ALL SELECT NULL FROM S [RANGE 2] UNION ALL SELECT a FROM S [NOW]
SELECT NULL AS n FROM S [RANGE 2] EXCEPT ALL SELECT NULL FROM S [RANGE 1]
SELECT NULL AS n FROM S [RANGE 2] INTERSECT ALL SELECT NULL FROM S [RANGE 1]
SELECT NULL AS n FROM S [RANGE 2] EXCEPT SELECT NULL FROM S [NOW]
SELECT x.n FROM (SELECT NULL AS n FROM S [RANGE 1]) x JOIN (SELECT NULL AS n FROM S [RANGE 1]) y ON x.n = y.n
SELECT x.b FROM S [RANGE 1] x LEFT JOIN (SELECT NULL AS n, b FROM S [NOW]) y ON x.b = y.b AND y.n IS NULL
SELECT a FROM S [RANGE 1] WHERE a IN (SELECT NULL FROM S [NOW])
SELECT a FROM S [RANGE 1] WHERE b NOT IN (SELECT NULL FROM S [NOW])
SELECT ISTREAM(NULL AS n) FROM S [RANGE 1]
SELECT RSTREAM(NULL AS n, a) FROM S [NOW]
SELECT (SELECT MAX(NULL) FROM S [ROWS 1]) AS n, b FROM S [NOW]
SELECT n FROM (SELECT ISTREAM(NULL AS n, b) FROM S [NOW]) [PARTITION BY n ROWS 1] AS x
""".strip().splitlines()
CONSTANT = """
SELECT s.a FROM S [RANGE 1] AS s JOIN S [NOW] AS t ON {}
SELECT s.a, t.b FROM S [RANGE 1] AS s LEFT JOIN S [NOW] AS t ON {}
SELECT s.a, t.b FROM S [RANGE 1] AS s RIGHT JOIN S [NOW] AS t ON {}
SELECT s.a, t.b FROM S [RANGE 1] AS s FULL JOIN S [NOW] AS t ON {}
SELECT s.a FROM S [RANGE 1] AS s SEMI JOIN S [NOW] AS t ON {}
SELECT s.a FROM S [RANGE 1] AS s ANTI JOIN S [NOW] AS t ON {}
""".strip().splitlines()
QUERIES = NULLS + [q.format(c) for q in CONSTANT for c in ("FALSE", "TRUE", "1 = 0", "NULL", "(FALSE)")]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("query", QUERIES)
def test_query(query: str, partitions: int) -> None:
    found = penstock.evaluate(query, {"S": S}, until=6, partitions=partitions)
    oracle.assert_same(found, oracle.evaluate(query, {"S": S}, until=6), query)


@pytest.mark.parametrize("partitions", [1, 2])
def test_columns_may_have_any_name_but_one_with_a_hash(partitions: int) -> None:
    own = [(5, {"__ts": 7, "__sign": 8, "_c": 9})]
    shown = penstock.evaluate("SELECT *, _c AS op, _c AS ts FROM S", {"S": own}, partitions=partitions)
    assert shown == [(5, "+", {"__ts": 7, "__sign": 8, "_c": 9, "op": 9, "ts": 9})]
    query = "SELECT __sign AS __ts, COUNT(*) AS __sign FROM S [RANGE 1] GROUP BY __sign"
    assert penstock.evaluate(query, {"S": own}, partitions=partitions) == [(5, "+", {"__ts": 8, "__sign": 1})]
    with pytest.raises(CatalogError, match="column '#a' of 'S': names that begin with # are reserved"):
        penstock.evaluate("SELECT * FROM S", {"S": [(1, {"#a": 1})]})
    with pytest.raises(CQLError, match="names that begin with # are reserved"):
        penstock.evaluate("SELECT a AS `#ts` FROM S", {"S": S})
    with pytest.raises(CatalogError, match="'S' has two columns 'A', in any case"):
        penstock.evaluate("SELECT * FROM S", {"S": [(1, {"a": 1, "A": 2})]})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"S": [(1, {}), (2, {})]}, "the rows of input 'S' have no columns"),
        ({"S": [{}]}, "the rows of input 'S' have no columns"),
        ({"S": [(True, {"a": 1})]}, "with ts a whole number"),
        ({"S": [(1.0, {"a": 1})]}, "with ts a whole number"),
        ({"S": [(2**61, {"a": 1})]}, r"with ts a whole number below 2\^61"),
        ({"S": [(2**63 - 1, {"a": 1})]}, r"with ts a whole number below 2\^61"),
        ({"S": [(-(2**63), {"a": 1})]}, r"with ts a whole number below 2\^61"),
        ({"S": [(1, 5)]}, "a row of input 'S' maps names of columns to values, not 5"),
        ({"S": [(1, {1: 2})]}, "a row of input 'S' maps names of columns to values"),
        ({"S": 5}, "inputs maps names to lists of rows, not 'S' to 5"),
        ({"S": [(1, {"a": 2**70})]}, "a row of input 'S' does not fit its schema"),
    ],
)
def test_inputs_that_are_none(inputs: Any, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        penstock.evaluate("SELECT * FROM S [RANGE 1]", inputs)


def test_until_is_an_instant() -> None:
    for until in (True, 2.5, 2**62):
        with pytest.raises(CatalogError, match="is not an instant"):
            penstock.evaluate("SELECT * FROM S", {"S": S}, until=until)
