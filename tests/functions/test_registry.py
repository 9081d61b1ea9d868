"""The registry: every example holds, on the engine and in Spark, and one entry is all a function needs."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import cql
from penstock.engine.evaluate import evaluate
from penstock.engine.synopses.accumulators import ACCUMULATORS
from penstock.errors import CQLError
from penstock.expression import Call, Expression, Literal
from penstock.functions import FUNCTIONS, THEMES, Theme, called, for_catalyst, may_raise, registry
from penstock.functions.aggregates import AGGREGATES, EXAMPLE
from penstock.plan.logical import Project, ToStream
from penstock.spark.map_side.catalyst import to_spark_sql

STREAM = cql.parse("CREATE STREAM S (t INT) TIMESTAMP BY t FROM PARQUET 's'")
CATALOG: dict[str, Any] = {statement.name: statement.definition() for statement in STREAM}


def bound(text: str) -> Expression:
    root = cql.bind(f"SELECT {text} FROM S", CATALOG).root
    assert isinstance(root, ToStream) and isinstance(root.input, Project)
    return root.input.columns[0][1]


def value(expression: Expression) -> Any:
    return evaluate(expression, {}, 1)[0].as_py()


def same(got: Any, expected: Any) -> bool:
    return got == expected or (isinstance(got, float) and math.isclose(got, expected, rel_tol=1e-12))


def both_decimal(*types: pa.DataType) -> bool:
    return all(map(pa.types.is_decimal, types))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_example(name: str) -> None:
    call, result = map(bound, FUNCTIONS[name].example.split(" -> "))
    assert call.type == result.type or both_decimal(call.type, result.type)
    assert same(value(call), value(result))


@pytest.mark.spark
def test_examples_in_catalyst(spark: Any) -> None:
    texts = [f.example.split(" -> ") for f in FUNCTIONS.values() if f.spark is not None]
    columns = [f"{to_spark_sql(bound(text))} AS c{n}" for n, (text, _) in enumerate(texts)]
    table = spark.range(1).selectExpr(*columns).toArrow()
    for n, (text, result) in enumerate(texts):
        assert table[f"c{n}"].type == bound(text).type, text
        assert same(table[f"c{n}"][0].as_py(), value(bound(result))), text


@pytest.mark.parametrize("name", AGGREGATES)
def test_example_of_an_aggregate(name: str) -> None:
    call, result = AGGREGATES[name].example.split(" -> ")
    rows = [(1, {"v": v}) for v in EXAMPLE]
    answer = penstock.evaluate(f"SELECT {call} AS r FROM S", {"S": rows}, {"S": "v INT"})
    (got,) = (row["r"] for _, _, row in answer)
    expected = ast.literal_eval(result) if result[0] == "[" else value(bound(result))
    expected = float(expected) if isinstance(expected, Decimal) else expected
    assert type(got) is type(expected) and same(got, expected)


def test_every_aggregate_has_an_accumulator() -> None:
    assert {name for name, entry in AGGREGATES.items() if entry.rule is None} <= set(ACCUMULATORS)


def test_every_function_is_in_a_theme_of_the_reference() -> None:
    assert {f.name for theme in THEMES for f in theme.functions} == set(FUNCTIONS)


@pytest.fixture
def shout() -> Iterator[Theme]:
    """A function that exists only here, and one that only the engine has."""
    theme = Theme("Test")

    @theme.by_row("shout", "STRING [, INT] -> STRING", "loud", "SHOUT('a') -> 'A!'",
                  aliases=("yell",), raises=True)  # fmt: skip
    def _shout(text: str, count: int = 1) -> str:
        return text.upper() + "!" * count

    theme.define("whisper", "STRING -> STRING", "quiet", "WHISPER('A') -> 'a'",
                 lambda call, args: args[0], spark=None)  # fmt: skip
    yield theme
    for function in theme.functions:
        del FUNCTIONS[function.name]
    del registry.ALIASES["yell"]


def test_one_entry_is_a_function(shout: Theme) -> None:
    assert value(bound("SHOUT('ab')")) == "AB!"
    assert value(bound("Yell('ab', 2) || NULL")) is None
    assert bound("SHOUT(NULL)") == Call("shout", (Literal(None, pa.string()),), pa.string())
    assert to_spark_sql(bound("SHOUT('a', 2)")) == "shout('a', 2)"
    assert may_raise(bound("LENGTH(SHOUT('a'))")) and not may_raise(bound("LENGTH(WHISPER('a'))"))
    assert for_catalyst(bound("SHOUT('a')")) and not for_catalyst(bound("LENGTH(WHISPER('a'))"))
    with pytest.raises(CQLError, match=r"YELL takes \(STRING \[, INT\]\), not \(INT\)"):
        bound("YELL(1)")
    with pytest.raises(CQLError, match="SHOUT takes 1 to 2 arguments, not 3"):
        bound("SHOUT('a', 1, 2)")
    with pytest.raises(CQLError, match="did you mean 'SHOUT'"):
        bound("SHOT('a')")


def test_an_operator_is_not_called_by_name() -> None:
    assert called("negative") is None and called("CEILING") is FUNCTIONS["ceil"]


def test_the_engine_needs_no_compiler() -> None:
    loaded = "[m for m in sys.modules if 'sqlglot' in m or m.startswith('penstock.cql')]"
    code = f"import sys, penstock.engine.evaluate; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
