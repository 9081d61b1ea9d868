"""What a query keeps does not grow with the number of steps, if its windows do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile

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
    "SELECT a FROM S [RANGE 2] UNION SELECT b AS a FROM T [ROWS 80]",
    "SELECT a FROM S [RANGE 2] EXCEPT SELECT a FROM T [ROWS 80]",
    "SELECT a FROM S [RANGE 2] INTERSECT ALL SELECT a FROM T [ROWS 80]",
    "SELECT ISTREAM(a, COUNT(*) AS n) FROM S [RANGE 2] GROUP BY a",
    "SELECT DSTREAM(a) FROM S [ROWS 90]",
    "SELECT n FROM (SELECT ISTREAM(a, COUNT(*) AS n) FROM S [RANGE 2] GROUP BY a) [RANGE 3] GROUP BY n",
    "SELECT a, (SELECT COUNT(*) FROM T [RANGE 1]) AS n FROM S [ROWS 20]",
    "SELECT a FROM S [RANGE 2] WHERE b > (SELECT AVG(b) FROM T [ROWS 40])",
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
def test_state_is_bounded_by_the_windows(query: str) -> None:
    stage = compile(bind(query, CATALOG), 1).stages[0].stage
    early = 0
    for step, kept in enumerate(steps(Engine(stage), [(i.name, i.schema) for i in stage.inputs])):
        if step < EARLY:
            early = max(early, kept)
        else:
            assert kept < 1.6 * early + 100_000, f"{kept:,} bytes in step {step}, before it {early:,} at most"
