"""explain names the inputs whose state grows without end, and why; those that only meet tables do not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.catalog import Input, TableDef
from penstock.cql import bind
from penstock.plan import compile, explain
from penstock.plan.growth import growing

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
CATALOG = {**{n: Input(n, SCHEMA) for n in "RS"}, "D": TableDef("D", SCHEMA)}
GROWS = {
    "SELECT S.a FROM S, R WHERE S.a = R.a": [
        "binary-join keeps every row of S: no window ends them",
        "binary-join keeps every row of R: no window ends them",
    ],
    "SELECT S.a FROM S, R [RANGE 5], D WHERE S.a = R.a AND R.b = D.b": [
        "mjoin keeps every row of S: no window ends them"
    ],
    "SELECT DISTINCT a FROM S": ["duplicate-eliminate keeps each different row of S: no window ends them"],
    "SELECT MEDIAN(a) AS m, FIRST(a) AS f, APPROX_COUNT_DISTINCT(a) AS n FROM S": [
        "aggregate keeps each different CAST(S.a AS DOUBLE) of S: no window ends them"
    ],
    "SELECT COUNT(DISTINCT a) AS n FROM S": ["aggregate keeps each different S.a of S: no window ends them"],
    "SELECT a, COUNT(*) AS n FROM S GROUP BY a": [
        "aggregate keeps one row for each S.a of S: bounded if their number is"
    ],
    "SELECT a FROM S EXCEPT SELECT a FROM D": ["except keeps each different row of S: no window ends them"],
    "SELECT a FROM S QUALIFY RANK() OVER (PARTITION BY b ORDER BY a) <= 2": [
        "rank keeps each different row with RANK up to 2 of S: no window ends them"
    ],
    "SELECT a FROM S QUALIFY RANK() OVER (ORDER BY a) > 2": [
        "rank keeps every row of S: no window ends them"
    ],
    "SELECT RSTREAM(a) FROM S": ["r-stream keeps every row of S: no window ends them"],
    "SELECT a FROM S WHERE a NOT IN (SELECT a FROM R [RANGE 5])": [
        "antijoin keeps every row of S: no window ends them",
        "binary-join keeps every row of S: no window ends them",
    ],
}
BOUNDED = (
    "SELECT S.a FROM S, D WHERE S.a = D.a",
    "SELECT S.a FROM S LEFT JOIN D ON S.a = D.a",
    "SELECT S.a FROM S [RANGE 5], R [ROWS 3], D WHERE S.a = D.a AND R.b = S.b",
    "SELECT a FROM S WHERE a NOT IN (SELECT a FROM D) AND b > (SELECT MAX(b) FROM D)",
    "SELECT COUNT(*) AS n FROM S",
)


@pytest.mark.parametrize("query", GROWS)
def test_state_that_grows_is_named(query: str) -> None:
    plan = compile(bind(query, CATALOG))
    assert [g.sentence for g in growing(plan)] == GROWS[query]
    assert "state    grows without end" in explain(plan)


def test_the_second_stage_names_streams() -> None:
    plan = compile(bind("SELECT COUNT(DISTINCT S.b) AS n FROM S, D WHERE S.a = D.a", CATALOG), 3)
    named = [g.sentence for g in growing(plan)]
    assert len(plan.stages) == 2 and named and all("of S:" in sentence for sentence in named)


@pytest.mark.parametrize("query", BOUNDED)
def test_state_that_is_bounded_is_not_named(query: str) -> None:
    plan = compile(bind(query, CATALOG))
    assert [g.sentence for g in growing(plan)] == []
    assert "grows without end" not in explain(plan)


def test_explain_shows_that_a_stream_looks_up_tables() -> None:
    text = explain(compile(bind("SELECT S.a FROM S, D WHERE S.a = D.a", CATALOG)))
    assert "[synopses: D by hash of a; S looks up and is not kept]" in text
    anti = explain(compile(bind("SELECT a FROM S WHERE a NOT IN (SELECT a FROM D)", CATALOG)))
    assert "look-up anti" in anti
