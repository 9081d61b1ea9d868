"""Plans mean what their queries say: both run in DuckDB over the same rows, full of NULLs and duplicates.

The query runs as SQL, without its windows; its bound plan is written as SQL node by node. No engine here:
what fails is the binder's rewriting of subqueries, joins and set operations into the algebra.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import duckdb
import pytest
import sqlglot

from penstock import cql
from penstock.cql.names.context import Catalog
from penstock.expression import Expression
from penstock.plan import logical
from penstock.plan.logical import Logical, show
from penstock.spark.map_side.catalyst import quote, to_spark_sql

SMALL = (None, 0, 1, 2)
TABLES = {
    "S": ["A INT, B INT, C INT, t BIGINT", [(a, b, (a or 0) + 1, b) for a, b in product(SMALL, SMALL)]],
    "S1": ["A INT, B INT, t BIGINT", [(0, 1, 1), (0, 1, 2), (1, None, 1), (None, 2, 1), (2, 2, 2)]],
    "S2": ["A INT, D INT, t BIGINT", [(0, 0, 1), (0, 2, 1), (1, None, 1), (1, 1, 2), (None, 1, 1)]],
    "R1": ["A INT, t BIGINT", [(1, 1), (1, 2), (2, 2), (7, 1)]],
    "T": ["a INT, name STRING", [(0, "x"), (1, "y"), (1, "y"), (2, None)]],
}

QUERIES = """
SELECT A, B FROM S WHERE A IN (SELECT D FROM S2)
SELECT A, B FROM S WHERE A NOT IN (SELECT D FROM S2)
SELECT A, B FROM S WHERE A NOT IN (SELECT D FROM S2 WHERE D > 0)
SELECT A, B FROM S WHERE A NOT IN (SELECT D FROM S2 WHERE D > 9)
SELECT A, B FROM S WHERE A IN (SELECT D FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE A NOT IN (SELECT D FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE A NOT IN (SELECT D FROM S2 WHERE S2.A < S.B)
SELECT A, B FROM S WHERE (A, B) IN (SELECT A, D FROM S2)
SELECT A, B FROM S WHERE (A, B) NOT IN (SELECT A, D FROM S2)
SELECT A, B FROM S WHERE EXISTS (SELECT 1 FROM S2 WHERE S2.A = S.A AND D < S.B)
SELECT A, B FROM S WHERE NOT EXISTS (SELECT 1 FROM S2 WHERE S2.A = S.A AND D < S.B)
SELECT A, B FROM S WHERE NOT EXISTS (SELECT 1 FROM S2 WHERE S2.D > 9) AND NOT (NOT EXISTS (SELECT * FROM T))
SELECT A, B FROM S WHERE B = 2 OR A IN (SELECT D FROM S2)
SELECT A, B FROM S WHERE B = 2 OR A NOT IN (SELECT D FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE B = 2 OR A NOT IN (SELECT D FROM S2 WHERE D > 9)
SELECT A, B FROM S WHERE NOT (B = 2 OR EXISTS (SELECT 1 FROM S2 WHERE S2.A = S.A))
SELECT A, B, A IN (SELECT D FROM S2 WHERE S2.A = S.B) AS i, EXISTS (SELECT 1 FROM T WHERE T.a = S.B) AS e FROM S
SELECT A, B, A IN (SELECT D FROM S2 WHERE D > 0) AS i, B NOT IN (SELECT a FROM T) AS e FROM S
SELECT A, (SELECT MAX(D) FROM S2) AS m FROM S WHERE B > (SELECT MIN(a) FROM T)
SELECT A, (SELECT MAX(D) FROM S2 WHERE D > 9) AS m, (SELECT COUNT(*) FROM S2 WHERE D > 9) AS n FROM S
SELECT A, B, (SELECT COUNT(*) FROM S2 WHERE S2.A = S.A) AS n FROM S
SELECT A, B, (SELECT COUNT(D) + COALESCE(SUM(D), 100) FROM S2 WHERE S2.A = S.A AND S2.t = S.B) AS n FROM S
SELECT A, B, (SELECT MAX(D) FROM S2 WHERE S2.A = S.A HAVING COUNT(*) > 1) AS n FROM S
SELECT A, B FROM S WHERE B < (SELECT COUNT(*) FROM S2 WHERE S2.A + 1 = S.A)
SELECT A, B FROM S WHERE A IN (SELECT MAX(D) FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE A NOT IN (SELECT MAX(D) FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE A IN (SELECT D FROM S2 WHERE S2.A = S.B GROUP BY D HAVING COUNT(*) > 0)
SELECT A, B FROM S WHERE A IN (SELECT A FROM S1 WHERE B NOT IN (SELECT D FROM S2 WHERE S2.A = S1.A))
SELECT A, B FROM S WHERE A IN (SELECT a FROM T UNION ALL SELECT D FROM S2)
SELECT A, COUNT(*) AS n FROM S GROUP BY A HAVING A IN (SELECT D FROM S2) AND COUNT(*) > (SELECT MIN(a) FROM T)
SELECT A, COUNT(*) AS n, (SELECT SUM(D) FROM S2 WHERE S2.A = S.A) AS m FROM S GROUP BY A
SELECT A, B FROM S WHERE A IN (SELECT DISTINCT D FROM S2 WHERE S2.A = S.B)
SELECT A, B FROM S WHERE EXISTS (SELECT 1 FROM S1 WHERE S.A > (SELECT MIN(D) FROM S2) AND S1.B = S.B)
SELECT A, B FROM S WHERE EXISTS (SELECT 1 FROM S1 WHERE S1.B = (SELECT MAX(D) FROM S2 WHERE S2.A = S1.A) AND S1.A = S.A)
SELECT A, B FROM S WHERE EXISTS (SELECT 1 FROM S1 JOIN S2 ON S1.A = S2.A WHERE S1.B = S.A OR S2.D = S.B)
SELECT A, B FROM S WHERE (A IN (SELECT D FROM S2 WHERE D > 0)) IS NULL
SELECT A, B FROM S WHERE (SELECT COUNT(*) FROM T WHERE T.a = S.A) = (SELECT COUNT(*) FROM S2 WHERE S2.D = S.B)
SELECT A + 1 AS k, COUNT(*) AS n FROM S GROUP BY A HAVING A + 1 IN (SELECT D FROM S2 WHERE S2.A + 1 = S.A + 1)
SELECT SUM(B) AS s FROM S HAVING COUNT(*) NOT IN (SELECT D FROM S2)
SELECT CASE WHEN A IN (SELECT a FROM T) THEN 'known' ELSE 'new' END AS k, (SELECT MIN(a) FROM T) BETWEEN 0 AND 1 AS b FROM S
SELECT S1.A, B, D FROM S1 LEFT JOIN S2 ON S1.A = S2.A AND S1.B > D
SELECT S1.A, B, D FROM S1 RIGHT JOIN S2 ON S1.A = S2.A WHERE D > 0
SELECT S1.A, B, D FROM S1 FULL JOIN S2 ON S1.A = S2.A AND B = 1
SELECT * FROM S1 FULL JOIN R1 USING (A)
SELECT A, t, B, D FROM S1 JOIN S2 USING (A, t)
SELECT A, B, D, R1.t FROM S1 JOIN S2 USING (A) LEFT JOIN R1 USING (A)
SELECT A, B, D FROM S1 RIGHT JOIN S2 USING (A)
SELECT A, COUNT(*) AS n FROM S1 FULL JOIN R1 USING (A) GROUP BY A HAVING COUNT(*) > 1
SELECT x.A, y.D, T.name FROM S1 x, S2 y LEFT JOIN T ON y.D = T.a AND T.name = 'y' WHERE x.A = y.A
SELECT S1.B FROM S1 LEFT JOIN (S2 JOIN T ON S2.D = T.a) ON S1.A = S2.A
SELECT B, D FROM S1 NATURAL JOIN S2
SELECT A FROM S1 UNION SELECT D FROM S2
SELECT A FROM S1 UNION ALL SELECT D FROM S2 EXCEPT SELECT a FROM T
SELECT A FROM S EXCEPT ALL SELECT D FROM S2
SELECT A FROM S INTERSECT ALL SELECT D FROM S2
SELECT A FROM S1 UNION SELECT D FROM S2 INTERSECT SELECT a FROM T
(SELECT A FROM S1 UNION SELECT D FROM S2) INTERSECT SELECT a FROM T
SELECT DISTINCT B FROM (SELECT A AS B, COUNT(DISTINCT B) AS n FROM S GROUP BY A) AS x WHERE n > 1
WITH x AS (SELECT A, COUNT(*) AS n FROM S GROUP BY A), y (k) AS (SELECT n FROM x) SELECT x.A, k FROM x, y WHERE x.n = y.k
SELECT x.p, COUNT(*) AS c FROM (SELECT A, B FROM S) AS x (p, q) WHERE q > 0 GROUP BY x.p
SELECT A, t FROM S1 LEFT SEMI JOIN R1 ON S1.A = R1.A
SELECT A, t FROM S1 LEFT ANTI JOIN R1 ON S1.A = R1.A
""".strip().split("\n")  # noqa: E501


def columns(node: Logical) -> str:
    return ", ".join(quote(n) for n in node.schema.names)


def conjunction(conjuncts: tuple[Expression, ...]) -> str:
    return " AND ".join(to_spark_sql(c) for c in conjuncts) or "TRUE"


def written(node: Logical) -> str:
    """A plan as Spark SQL."""
    below = [f"({written(i)})" for i in node.inputs]
    match node:
        case logical.StreamSource(alias, source) | logical.TableSource(alias, source):
            named = ", ".join(f"{n} AS {quote(f'{alias}.{n}')}" for n in source.schema.names)
            return f"SELECT {named} FROM {source.name}"
        case logical.Window() | logical.ToStream() | logical.Single():
            return f"SELECT * FROM {below[0]} AS i"
        case logical.Select(_, conjuncts):
            return f"SELECT * FROM {below[0]} AS i WHERE {conjunction(conjuncts)}"
        case logical.Join(_, conjuncts):
            items = " CROSS JOIN ".join(f"{b} AS i{n}" for n, b in enumerate(below))
            return f"SELECT * FROM {items} WHERE {conjunction(conjuncts)}"
        case logical.OuterJoin(_, _, kind, conjuncts):
            return f"SELECT * FROM {below[0]} AS l {kind} JOIN {below[1]} AS r ON {conjunction(conjuncts)}"
        case logical.SemiJoin(left, _, conjuncts, anti):
            matches = f"SELECT 1 FROM {below[1]} AS r WHERE {conjunction(conjuncts)}"
            word = "NOT EXISTS" if anti else "EXISTS"
            return f"SELECT {columns(left)} FROM {below[0]} AS l WHERE {word} ({matches})"
        case logical.SetOperation(_, kind, every):
            word = f" {kind} ALL " if every else f" {kind} "
            return word.join(f"SELECT * FROM {b} AS i{n}" for n, b in enumerate(below))
        case logical.Distinct():
            return f"SELECT DISTINCT * FROM {below[0]} AS i"
        case logical.Project(_, named):
            items = ", ".join(f"{to_spark_sql(e)} AS {quote(n)}" for n, e in named)
            return f"SELECT {items} FROM {below[0]} AS i"
        case logical.Aggregate(_, keys, calls):
            items = [f"{to_spark_sql(e)} AS {quote(n)}" for n, e in keys]
            items += [f"{aggregate(c)} AS {quote(n)}" for n, c in calls]
            by = f" GROUP BY {', '.join(to_spark_sql(e) for _, e in keys)}" if keys else ""
            return f"SELECT {', '.join(items)} FROM {below[0]} AS i{by}"
    raise AssertionError(node)


def aggregate(call: logical.AggregateCall) -> str:
    inside = ", ".join(map(to_spark_sql, call.arguments)) or "*"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside})"


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, (schema, rows) in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({schema})")
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return connection


def rows_of(sql: str, database: duckdb.DuckDBPyConnection) -> Counter[tuple[object, ...]]:
    return Counter(database.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall())


@pytest.mark.parametrize("query", QUERIES)
def test_plan_means_the_query(query: str, catalog: Catalog, database: duckdb.DuckDBPyConnection) -> None:
    root = cql.bind(query, catalog).root
    assert rows_of(written(root), database) == rows_of(query, database), show(root)
