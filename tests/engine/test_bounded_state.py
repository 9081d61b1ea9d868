"""What a query keeps does not grow with the number of steps, if its windows do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input, TableDef
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.schema import TimeDomain

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
CATALOG = {name: Input(name, SCHEMA) for name in "RST"}
ROWS = 300
EARLY, LATE = 15, 60
QUERIES = [
    "SELECT a FROM S [RANGE 3] WHERE a IN (SELECT a FROM T [ROWS 100])",
    "SELECT a FROM S [NOW] WHERE a IN (SELECT a FROM T [ROWS 100]) AND b IN (SELECT b FROM R [RANGE 2])",
    "SELECT RSTREAM(a) FROM S [NOW] WHERE a NOT IN (SELECT a FROM T [RANGE 2])",
    "SELECT a FROM S [RANGE 2] AS o WHERE EXISTS (SELECT 1 FROM T [ROWS 50] WHERE T.a = o.a)",
    "SELECT S.a, T.b FROM S [RANGE 2] LEFT JOIN T [ROWS 100] ON S.a = T.a",
    "SELECT S.a, T.b FROM S [ROWS 50] FULL JOIN T [RANGE 1] ON S.a = T.a",
    "SELECT R.a FROM R [RANGE 1], S [RANGE 1], T [RANGE 1] WHERE R.a = S.a AND S.b = T.b",
    "SELECT R.a FROM R [ROWS 60], S [ROWS 60] WHERE R.a < S.a AND S.a < R.a + 3",
    "SELECT a, COUNT(*) AS n, SUM(b) AS s, MAX(b) AS m, AVG(x) AS v FROM S [RANGE 3] GROUP BY a",
    "SELECT s, MIN(x) AS x, COUNT(DISTINCT b) AS n FROM S [PARTITION BY s ROWS 5] GROUP BY s",
    "SELECT DISTINCT a, s FROM S [RANGE 4 SLIDE 2]",
    "SELECT DISTINCT b FROM S [ROWS 100 SLIDE 7]",
    "SELECT window_end, a, COUNT(*) AS n FROM S [TUMBLE 3] GROUP BY window_end, a",
    "SELECT DISTINCT a, window_start FROM S [HOP 4 EVERY 2]",
    "SELECT S.a, T.b FROM S [HOP 4 EVERY 1], T [TUMBLE 2] WHERE S.a = T.a",
    "SELECT ISTREAM(s, window_end, COUNT(*) AS n) FROM S [SESSION 1 PARTITION BY s] GROUP BY s, window_end",
    "SELECT ISTREAM(a, b) FROM S [SESSION 1 PARTITION BY a, b]",
    "SELECT a FROM S [RANGE 2] UNION SELECT b AS a FROM T [ROWS 80]",
    "SELECT a FROM S [RANGE 2] EXCEPT SELECT a FROM T [ROWS 80]",
    "SELECT a FROM S [RANGE 2] INTERSECT ALL SELECT a FROM T [ROWS 80]",
    "SELECT ISTREAM(a, COUNT(*) AS n) FROM S [RANGE 2] GROUP BY a",
    "SELECT DSTREAM(a) FROM S [ROWS 90]",
    "SELECT n FROM (SELECT ISTREAM(a, COUNT(*) AS n) FROM S [RANGE 2] GROUP BY a) [RANGE 3] GROUP BY n",
    "SELECT a, (SELECT COUNT(*) FROM T [RANGE 1]) AS n FROM S [ROWS 20]",
    "SELECT a FROM S [RANGE 2] WHERE b > (SELECT AVG(b) FROM T [ROWS 40])",
    "SELECT a, s FROM S [RANGE 2] ORDER BY x DESC LIMIT 5 OFFSET 3",
    "SELECT b, s FROM S ORDER BY x DESC, s LIMIT 50",
    "SELECT b, x FROM S QUALIFY DENSE_RANK() OVER (PARTITION BY b ORDER BY s DESC) <= 2",
    "SELECT * FROM (SELECT s, x, RANK() OVER (PARTITION BY s ORDER BY x) AS r FROM S [ROWS 90]) WHERE r < 3",
    "SELECT S.a, T.b FROM S [RANGE 3], T [RANGE 3] WHERE S.a = T.a WITHIN MEMORY 100 ROWS",
]


def steps(engine: Engine, inputs: list[tuple[str, pa.Schema]]) -> Iterator[int]:
    """The bytes that an engine says it keeps after each step, all of which are alike."""
    random = np.random.default_rng(1)
    for step in range(LATE):
        arrivals = []
        for name, schema in inputs:
            # Keys that go by as well as keys that stay.
            drawn = {
                "a": pa.array(random.integers(0, 200, ROWS) + 5 * step),
                "b": pa.array(random.integers(0, 200, ROWS)),
                "x": pa.array(random.random(ROWS)),
                "s": pa.array([f"key {k}" for k in random.integers(step, step + 50, ROWS)]),
            }
            columns = {f.name: drawn.get(f.name.rpartition(".")[2], drawn["b"]) for f in schema}
            batch = pa.RecordBatch.from_pydict({TS: pa.array(np.full(ROWS, step)), **columns})
            arrivals.append(Arrival(name, 0, batch, step, step + 1))
        engine.step(arrivals)
        yield engine.state_bytes()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.some(3)
def test_state_is_bounded_by_the_windows(query: str) -> None:
    stage = compile(bind(query, CATALOG), 1).stages[0].stage
    early = 0
    for step, kept in enumerate(steps(Engine(stage), [(i.name, i.schema) for i in stage.inputs])):
        if step < EARLY:
            early = max(early, kept)
        else:
            assert kept < 1.6 * early + 100_000, f"{kept:,} bytes in step {step}, before it {early:,} at most"


TABLE = pa.schema([("a", pa.int64()), ("b", pa.int64())])
WITH_TABLES = [
    "SELECT S.b FROM S, D WHERE S.a = D.a",
    "SELECT S.b FROM S, D WHERE S.a < D.a",
    "SELECT S.b, D.b AS d, E.a FROM S, D, E WHERE S.a = D.a AND S.b = E.b",
    "SELECT b FROM S WHERE a IN (SELECT a FROM D)",
    "SELECT b FROM S WHERE a IN (SELECT a FROM D) AND b IN (SELECT b FROM E)",
    "SELECT b FROM S WHERE a NOT IN (SELECT a FROM D)",
    "SELECT b FROM S WHERE a NOT IN (SELECT a FROM D) AND b NOT IN (SELECT b FROM E)",
    "SELECT b FROM S WHERE EXISTS (SELECT 1 FROM D WHERE D.a = S.a AND D.b > S.b)",
    "SELECT b FROM S WHERE EXISTS (SELECT 1 FROM D WHERE D.a < S.a)",
    "SELECT b FROM S WHERE NOT EXISTS (SELECT 1 FROM D WHERE D.a = S.a)",
    "SELECT S.a, D.b FROM S LEFT JOIN D ON S.a = D.a",
    "SELECT S.a, D.b FROM S LEFT JOIN D ON S.a = D.a LEFT JOIN E ON S.b = E.b",
    "SELECT S.a, D.b FROM D RIGHT JOIN S ON S.a = D.a",
    "SELECT S.a, D.b FROM D LEFT JOIN S ON S.a = D.a",
    "SELECT S.a, D.b FROM S FULL JOIN D ON S.a = D.a",
    "SELECT S.a, x.b FROM S, (SELECT DISTINCT a, b FROM D) AS x WHERE S.a = x.a",
    "SELECT S.a, x.n FROM S, (SELECT a, COUNT(*) AS n FROM D GROUP BY a) AS x WHERE S.a = x.a",
    "SELECT S.a, x.n FROM S LEFT JOIN (SELECT a, COUNT(*) AS n FROM D GROUP BY a) AS x ON S.a = x.a",
    "SELECT S.a FROM S, (SELECT D.a, E.b FROM D, E WHERE D.a = E.a) AS x WHERE S.a = x.a",
    "SELECT a FROM S WHERE b > (SELECT AVG(b) FROM D)",
    "SELECT a, (SELECT MAX(b) FROM D) AS m FROM S",
    "SELECT a, (SELECT MAX(b) FROM D WHERE D.a = S.a) AS m FROM S",
    "SELECT D.b, COUNT(*) AS n FROM S, D WHERE S.a = D.a GROUP BY D.b",
    "SELECT COUNT(*) AS n FROM S LEFT JOIN D ON S.a = D.a",
    "SELECT x.b FROM (SELECT S.a, S.b FROM S, D WHERE S.a = D.a) AS x, E WHERE x.b = E.b",
    "SELECT D.b FROM D WHERE D.a IN (SELECT a FROM S)",
    "SELECT D.b FROM D WHERE D.a NOT IN (SELECT a FROM S)",
    "SELECT S.a, D.b FROM S [RANGE 2], D WHERE S.a = D.a",
    "SELECT S.a, D.b FROM S [ROWS 50] LEFT JOIN D ON S.a = D.a",
    "SELECT S.a, T.a, D.b FROM S [RANGE 1], T [RANGE 1], D WHERE S.a = T.a AND T.b = D.b",
]


def _table(schema: pa.Schema) -> pa.Table:
    return pa.table({f.name: pa.array(range(100), f.type) for f in schema})


@pytest.mark.parametrize(
    "query",
    ["SELECT S.b, D.b AS d FROM S FULL JOIN D ON S.a = D.a", "SELECT s FROM S ORDER BY s LIMIT 2"],
)
def test_rows_of_state_are_those_that_take_space(query: str) -> None:
    """However often a row has come, it is kept once."""
    table = [{"a": k, "b": k} for k in range(9)]
    rows = [(t, {"a": t % 9, "b": t, "s": "x"}) for t in range(900)]
    inputs: dict[str, Any] = {"S": rows, "D": table} if " D " in query else {"S": rows}
    finite = read_inputs(inputs, {}, TimeDomain("integer", "seconds"))
    run = InProcessRun(plan_of(query, finite.catalog(), [], 1), finite.tables)
    run.step({name: t.combine_chunks().to_batches()[0] for name, t in finite.streams.items()})
    ((engine,),) = run.engines
    assert measured(engine.measure()).of_kind(Kind.ENGINE).total(Property.ROWS) < 60


@pytest.mark.parametrize("query", WITH_TABLES)
@pytest.mark.some(3)
def test_state_does_not_hold_rows_that_meet_only_tables(query: str) -> None:
    catalog = CATALOG | {n: TableDef(n, TABLE) for n in "DE"}
    stage = compile(bind(query, catalog), 1).stages[0].stage
    inputs = [(i.name, i.schema) for i in stage.inputs if i.kind == "source"]
    mine = {i.name: _table(i.schema) for i in stage.inputs if i.kind == "table"}
    early = 0
    for step, kept in enumerate(steps(Engine(replace(stage, tables=mine)), inputs)):
        if step == 2:
            early = kept
        assert step < 2 or kept <= 1.3 * early + 60_000, f"{kept:,} bytes in step {step}, at first {early:,}"
