"""Conjunctions of look-ups and predicates: the oracle's result in whatever order they are evaluated."""

from __future__ import annotations

from random import Random
from typing import Any

import oracle
import pyarrow as pa
import pytest
from checking import check, expect
from restless import PLANNERS, planned_by
from strategies import Case

from penstock import DataError, evaluation
from penstock.catalog import FunctionDef
from penstock.cql import bind
from penstock.plan import compile
from penstock.schema import TimeDomain

SCHEMA = "a BIGINT, b BIGINT, x DOUBLE, s STRING"
QUERIES = {
    "two windows": "a IN (SELECT a FROM S1 {w}) AND b IN (SELECT a FROM S2 {w})",
    "the same key": "a IN (SELECT a FROM S1 {w}) AND a IN (SELECT b FROM S2 {w})",
    "one stream twice": "a IN (SELECT a FROM S1 {w}) AND b IN (SELECT b FROM S1 {w})",
    "a row": "(a, b) IN (SELECT a, b FROM S1 {w}) AND b IN (SELECT a FROM S2 {w})",
    "a table": "a IN (SELECT a FROM T) AND b IN (SELECT b FROM T WHERE a > 0)",
    "a table and a window": "a IN (SELECT a FROM T) AND b IN (SELECT a FROM S1 {w}) AND S0.b > 0",
    "words": "s IN (SELECT s FROM S1 {w}) AND a IN (SELECT a FROM S2 {w})",
    "numbers with a point": "x IN (SELECT x FROM S1 {w}) AND a IN (SELECT a FROM T)",
    "computed": "a + 1 IN (SELECT b FROM S1 {w}) AND b IN (SELECT a * 2 FROM S2 {w})",
    "exists": "EXISTS (SELECT * FROM S1 {w} AS y WHERE y.a = S0.a AND y.b = S0.b) AND a IN (SELECT a FROM T)",
    "a range": "EXISTS (SELECT * FROM S1 {w} AS y WHERE y.a < S0.a) AND b IN (SELECT a FROM S2 {w})",
    "not in": "a IN (SELECT a FROM S1 {w}) AND b NOT IN (SELECT a FROM S2 {w} WHERE a IS NOT NULL)",
    "and like": "a IN (SELECT a FROM S1 {w}) AND s LIKE 'x%' AND b IN (SELECT a FROM S2 {w})",
}
OUTER = ("[NOW]", "[RANGE 3]", "[ROWS 3]", "[ROWS UNBOUNDED]")


def element(random: Random) -> dict[str, Any]:
    numbers = {c: random.choice((0, 1, 2, None)) for c in "ab"}
    return {
        **numbers,
        "x": random.choice((0.0, -0.0, 1.5, float("nan"), None)),
        "s": random.choice(("x", "xy", "y", None)),
    }


def case(query: str, outer: str, kind: str = "") -> Case:
    random = Random(f"{query}{outer}")
    window = random.choice(("[ROWS 2]", "[RANGE 2]", "[ROWS 4]", "[NOW]"))
    where = QUERIES[query].format(w=window)
    shown = f"{kind}(a, b, s)" if kind else "a, b, s"
    inputs: dict[str, list] = {n: [(random.randrange(12), element(random)) for _ in range(16)] for n in NAMES}
    inputs["T"] = [element(random) for _ in range(4)]
    return Case(f"SELECT {shown} FROM S0 {outer} WHERE {where}", inputs, dict.fromkeys(inputs, SCHEMA))


NAMES = ("S0", "S1", "S2")


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("outer", OUTER)
def test_the_result_is_the_oracles(query: str, outer: str) -> None:
    drawn = case(query, outer)
    expected = expect(drawn)
    for planner in PLANNERS if outer != "[ROWS UNBOUNDED]" else PLANNERS[:2]:
        with planned_by(planner):
            check(drawn, expected)


@pytest.mark.parametrize("query", QUERIES)
def test_as_a_stream(query: str) -> None:
    drawn = case(query, "[NOW]", "ISTREAM")
    check(drawn, expect(drawn))


@pytest.mark.parametrize("query", QUERIES)
def test_there_is_something_to_check(query: str) -> None:
    assert any(expect(case(query, outer)) for outer in OUTER)


def fraction(a: pa.Array, b: pa.Array) -> list[bool | None]:
    """Fails where b is 0, as users' functions do."""
    pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
    return [None if x is None or y is None else x // y >= 1 for x, y in pairs]


def run(case: Case, text: str) -> list[Any]:
    finite = evaluation.read_inputs(case.inputs, case.schemas, TimeDomain())
    catalog = {**finite.catalog(), "fraction": FunctionDef("fraction", pa.bool_(), fraction)}
    return evaluation._run(compile(bind(text, catalog)), finite, None, 3)


GUARDS = ("b <> 0", "b <> 0 AND a IN (SELECT a FROM S1 [ROWS 3])", "b IN (SELECT b FROM T WHERE b > 0)")


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("outer", "others"), [(o, g) for o in OUTER[:3] for g in (GUARDS if o == "[NOW]" else GUARDS[:2])]
)
def test_a_function_among_look_ups_is_called_as_if_guarded(planner: str, outer: str, others: str) -> None:
    drawn = case("two windows", outer)
    expected = oracle.evaluate(
        f"SELECT a, b, s FROM S0 {outer} WHERE {others} AND CASE WHEN b <> 0 THEN a >= b ELSE FALSE END",
        drawn.inputs,
        drawn.schemas,
    )
    with planned_by(planner):
        found = run(drawn, f"SELECT a, b, s FROM S0 {outer} WHERE fraction(a, b) AND {others}")
    oracle.assert_same(found, expected, others)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_row_that_nothing_else_drops_is_an_error(planner: str) -> None:
    drawn = case("two windows", "[NOW]")
    with planned_by(planner), pytest.raises(DataError, match="fraction failed at .*: ZeroDivisionError"):
        run(drawn, "SELECT a FROM S0 [NOW] WHERE fraction(a, b) AND b IN (SELECT b FROM T WHERE b >= 0)")
