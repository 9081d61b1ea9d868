"""``penstock.evaluate``: scripts and functions, on the engine and on Spark, and what it refuses."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import DataError

S = {"S": [(1, {"k": "a", "v": 1}), (2, {"k": "b", "v": 5}), (3, {"k": "a", "v": 4})]}
HOSTS = ("engine", pytest.param("spark", marks=pytest.mark.spark))


@pytest.fixture(params=HOSTS)
def on(request: pytest.FixtureRequest) -> str:
    """Where to evaluate; Spark is the one session of the test run."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def half(values: pa.Array) -> pa.Array:
    return pc.divide(values, 2)


def test_a_script_with_views_settings_and_functions(on: str) -> None:
    script = """
        SET penstock.filters = 'static';
        CREATE STREAM Big AS SELECT ISTREAM(k, v) FROM S [NOW] WHERE half(v) > 1;
        CREATE VIEW Counted AS SELECT k, COUNT(*) AS n, SUM(HALF(v)) AS h FROM Big [RANGE 1] GROUP BY k;
        SELECT k, n, h FROM Counted WHERE n > 0
    """
    # A lambda is pickled whole; what lies in a test module could not be imported by Spark's workers.
    functions = {"half": (lambda v: pc.divide(v.cast("double"), 2.0), "DOUBLE")}
    found = penstock.evaluate(script, S, until=5, on=on, functions=functions)
    assert found == [
        (2, "+", {"k": "b", "n": 1, "h": 2.5}),
        (3, "+", {"k": "a", "n": 1, "h": 2.0}),
        (4, "-", {"k": "b", "n": 1, "h": 2.5}),
        (5, "-", {"k": "a", "n": 1, "h": 2.0}),
    ]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "needs a query at the end of the text; add a SELECT"),
        ("CREATE VIEW V AS SELECT k FROM S", "needs a query at the end of the text; add a SELECT"),
        ("SELECT k FROM S; SELECT v FROM S", "evaluate runs one query; call it once for each SELECT"),
        (None, "evaluate takes the text of a query, not None"),
        ("DROP STREAM S; SELECT v FROM S", "only CREATE VIEW, CREATE STREAM ... AS and SET may stand"),
        ("CREATE VIEW s AS SELECT k FROM S; SELECT k FROM s", "'S' already exists"),
        ("SET penstock.filter = 'x'; SELECT k FROM S", "did you mean 'penstock.filters'"),
    ],
)
def test_what_is_no_script(script: str, message: str) -> None:
    with pytest.raises(penstock.CatalogError, match=message):
        penstock.evaluate(script, S)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("abs", (half, "INT"), "ABS is a function of CQL already"),
        ("Nvl", (half, "INT"), "NVL is a function of CQL already"),
        ("SUM", (half, "INT"), "SUM is a function of CQL already"),
        ("now", (half, "INT"), "NOW is a function of CQL already"),
        ("istream", (half, "INT"), "ISTREAM is a function of CQL already"),
        ("cast", (half, "INT"), "a query cannot call a function by the name 'cast'"),
        ("case", (half, "INT"), "a query cannot call a function by the name 'case'"),
        ("my half", (half, "INT"), "a query cannot call a function by the name 'my half'"),
        ("", (half, "INT"), "a query cannot call a function by the name ''"),
        ("S", (half, "INT"), "'S' already exists"),
        ("f", (half, "INTT"), "function 'f' returns 'INTT', which is not a type"),
        ("f", (half, "INT, y INT"), "function 'f' returns 'INT, y INT', which is not a type"),
        ("f", (7, "INT"), "function 'f': 7 cannot be called"),
        ("f", half, r"function 'f': missing a required argument: 'returns'; give \(function, 'INT'\)"),
        ("f", {"function": half}, "function 'f': missing a required argument: 'returns'; give"),
        ("f", {"returns": "INT", "function": half}, "or a dict of create_aggregate's arguments"),
        ("f", (half, "INT", False, 1), "function 'f': too many positional arguments; give"),
    ],
)
def test_what_is_no_function(name: str, function: Any, message: str) -> None:
    with pytest.raises(penstock.CatalogError, match=message):
        penstock.evaluate("SELECT k FROM S", S, functions={name: function})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda k: [5], "function f returned 1 value for 8 rows; it must return one per row"),
        (lambda k: [5] * 9, "function f returned 9 values for 8 rows; it must return one per row"),
        (lambda k: None, "function f returned None for 8 rows; it must return one per row"),
        (lambda k: 3.5, "function f returned 3.5 for 8 rows; it must return one per row"),
    ],
)
def test_a_function_that_gives_not_one_value_a_row(answer: Any, message: str) -> None:
    """No row is to blame, so none is looked for: alone a row would have the one value it needs."""
    rows = {"S": [(1, {"k": k}) for k in range(8)]}
    with pytest.raises(penstock.CatalogError, match=message):
        penstock.evaluate("SELECT f(k) FROM S [NOW]", rows, functions={"f": (answer, "BIGINT")})
    with pytest.raises(penstock.CatalogError, match="one per row"):
        penstock.evaluate(
            "SELECT k FROM S [NOW] WHERE f(k) > 1 AND k - 1 > 0", rows, functions={"f": (answer, "BIGINT")}
        )


def test_a_function_that_returns_another_type() -> None:
    message = "function f returned values such as 'no', and it was registered to return INT; register it with"
    with pytest.raises(penstock.DataError, match=message):
        penstock.evaluate("SELECT f(k) FROM S [NOW]", S, functions={"f": (lambda k: ["no"] * len(k), "INT")})


@pytest.mark.parametrize("element", [(dt.datetime(2026, 1, 1), {"v": 1}), ("1", {"v": 1}), (1,), 7])
def test_what_is_no_element(element: Any) -> None:
    with pytest.raises(penstock.CatalogError, match=r"an element of 'S' is .* with ts a whole number"):
        penstock.evaluate("SELECT v FROM S [NOW]", {"S": [element]}, schemas={"S": "v INT"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": [(1, {"a": 1})]}, r"inputs maps names to lists of rows, and is not \[\(1, "),
        ({"functions": [half]}, "functions maps names to functions, and is not .*; give .function, 'INT'"),
        ({"schemas": {"S": {"v": "INT"}}}, r"schemas maps names of inputs to text, such as \{'S': 'a INT, b"),
        ({"constraints": "PRIMARY KEY (v)"}, "constraints maps names of inputs to text, such as .'S': 'PRIM"),
        ({"constraints": {"S": ["v"]}}, r"such as \{'S': 'PRIMARY KEY \(a\)'\}, and is not \{'S': \['v'\]\}"),
        (
            {"constraints": {"S": "PRIMARYKEY (v)"}},
            r"^constraints of 'S': .* near 'PRIMARYKEY'; write e.g. PRIMARY KEY \(a\)$",
        ),
        (
            {"inputs": {"S": [(1, {"v": [1]})]}},
            "column 'v' of input 'S' has list; a column has single",
        ),
    ],
)
def test_what_are_no_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(penstock.CatalogError, match=message):
        penstock.evaluate("SELECT v FROM S [NOW]", **{"inputs": S, **given})


@pytest.mark.parametrize("argument", ["partitions", "batches"])
@pytest.mark.parametrize("value", [0, -1, "2", 1.5, True, None])
def test_what_is_no_count(argument: str, value: Any) -> None:
    with pytest.raises(penstock.PenstockError, match=f"{argument}={value!r} is not a whole number"):
        penstock.evaluate("SELECT a FROM S [RANGE 1]", {"S": [(1, {"a": 1})]}, **{argument: value})


def reciprocal(k: Any) -> Any:
    return [1 // x.as_py() for x in k]


def of_values(k: Any) -> Any:
    return "odd" if k % 2 else "even"


def test_a_function_that_raises_is_told_at_once_with_its_line() -> None:
    """Not after it was tried on every row alone, to find out which one is to blame."""
    calls = []

    def failing(k: Any) -> Any:
        calls.append(len(k))
        raise ValueError("no")

    rows = {"S": [(1, {"k": k}) for k in range(5_000)]}
    line = failing.__code__.co_firstlineno + 2
    told = rf"function f failed at .*test_evaluation.py, line {line}: ValueError: no$"
    for condition in ("f(k) > 1", "f(k) > 1 AND k / (k - k) > 1"):
        calls.clear()
        with pytest.raises(penstock.DataError, match=told):
            query = f"SELECT k FROM S [NOW] WHERE {condition}"
            penstock.evaluate(query, rows, functions={"f": (failing, "BIGINT")}, batches=1)
        assert len(calls) < 50


def test_a_row_on_which_a_function_fails_may_be_dropped_by_another_predicate() -> None:
    rows = {"S": [(1, {"k": k % 3}) for k in range(60)]}
    kept = "SELECT DISTINCT k FROM S [NOW] WHERE g(k) >= 0 AND g(k) < 9 AND k <> 0"
    assert [row for _, sign, row in penstock.evaluate(kept, rows, functions={"g": (reciprocal, "INT")})] == [
        {"k": 1},
        {"k": 2},
    ]
    with pytest.raises(penstock.DataError, match="line .*: ZeroDivisionError"):
        query = "SELECT k FROM S [NOW] WHERE g(k) = 1 AND k >= 0"
        penstock.evaluate(query, rows, functions={"g": (reciprocal, "INT")})


def test_a_function_of_single_values_is_told_or_wrapped() -> None:
    rows, query = {"S": [(1, {"k": k}) for k in range(2)]}, "SELECT f(k) AS p FROM S [NOW] WHERE f(k) <> ''"
    with pytest.raises(
        penstock.CatalogError,
        match="works on single values but gets Arrow.*scalar=True, in evaluate .function, 'INT'",
    ):
        penstock.evaluate(query, rows, functions={"f": (of_values, "STRING")})
    found = penstock.evaluate(query, rows, functions={"f": (of_values, "STRING", True)})
    assert sorted(row["p"] for _, _, row in found) == ["even", "odd"]


@pytest.mark.parametrize("partitions", (1, 2))
def test_arguments_that_read_the_same_are_told_apart(partitions: int) -> None:
    """A NULL of each type, and constants of two."""
    items = "MEDIAN(NULL) AS m, STRING_AGG(NULL) AS s, SUM(1) AS n, SUM(1L) AS b, COUNT(*) AS c"
    query = f"SELECT {items} FROM S [ROWS 2]"
    got = penstock.evaluate(query, {"S": [(1, {"a": 1}), (2, {"a": 2})]}, partitions=partitions)
    assert got[-1] == (2, "+", {"m": None, "s": None, "n": 2, "b": 2, "c": 2})


@pytest.mark.parametrize(
    "call", ("COUNT(k, v)", "COUNT(v, k)", "COUNT(DISTINCT k, v)", "COUNT(DISTINCT v, k)")
)
def test_a_row_with_any_null_is_not_counted(call: str) -> None:
    rows = [(1, {"k": None, "v": 1}), (1, {"k": 2, "v": None}), (1, {"k": 2, "v": 2})]
    got = penstock.evaluate(f"SELECT {call} AS n FROM S [ROWS 3]", {"S": rows}, {"S": "k INT, v INT"})
    assert got == [(1, "+", {"n": 1})]


@pytest.mark.parametrize(
    "cql",
    (
        "SELECT * FROM R",
        "SELECT COUNT(*) AS n FROM R",
        "SELECT DISTINCT a FROM R",
        "SELECT R.a FROM R, S [RANGE 3] WHERE R.a = S.a",
        "SELECT a FROM S [RANGE 3] WHERE a NOT IN (SELECT a FROM R)",
        "SELECT a FROM R UNION ALL SELECT a FROM S [RANGE 3]",
    ),
)
@pytest.mark.parametrize("partitions", (1, 3))
def test_a_deletion_without_a_row_is_an_error_that_names_it(cql: str, partitions: int) -> None:
    inputs = {"R": [(1, "+", {"a": 1}), (2, "-", {"a": 2})], "S": [(1, {"a": 1})]}
    with pytest.raises(
        DataError, match="an element at 2 removes the row {'a': 2}, which is not in the relation R"
    ):
        penstock.evaluate(cql, inputs, partitions=partitions, until=9)


def test_a_correlated_scalar_subquery_has_one_row_for_each_row_that_meets_it() -> None:
    """Several rows of a key that no row asks for are no error."""
    query = "SELECT S.v, (SELECT x FROM U [ROWS UNBOUNDED] WHERE U.k = S.k + {}) AS x FROM S [ROWS 1]"
    rows = {
        "S": [(t, {"k": 0, "v": t}) for t in (1, 3)],
        "U": [(1, {"k": 0, "x": 5}), (2, {"k": 7, "x": 6}), (2, {"k": 7, "x": 6})],
    }
    assert (3, "+", {"v": 3, "x": 5}) in penstock.evaluate(query.format(0), rows, partitions=2)
    with pytest.raises(penstock.DataError, match="a scalar subquery has more than one row"):
        penstock.evaluate(query.format(7), rows)


def test_subqueries_in_on_below_an_outer_join() -> None:
    query = (
        "SELECT S.v, U.x FROM S [ROWS 9] JOIN S [ROWS 9] AS t ON S.v = t.v AND S.v IN (SELECT x FROM U) "
        "LEFT JOIN U [ROWS 9] ON U.x = S.v"
    )
    rows = {"S": [(1, {"v": 1}), (1, {"v": 2})], "U": [(1, {"x": 2})]}
    assert penstock.evaluate(query, rows) == [(1, "+", {"v": 2, "x": 2})]
