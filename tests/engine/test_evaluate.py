"""The evaluator against values worked out by hand, and its whole table against Spark."""

from __future__ import annotations

import datetime as dt
import math
import resource
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_cases import (
    BIGINT,
    BOOL,
    DOUBLE,
    INT,
    NAN,
    SAMPLE,
    STRING,
    C,
    call,
    cast,
    lit,
    num,
    text,
)  # fmt: skip
from expression_cases import (
    EXPRESSIONS as BASIC_EXPRESSIONS,
)
from expression_cases import (
    FAILING as BASIC_FAILING,
)
from function_cases import FUNCTIONS_EXPRESSIONS, FUNCTIONS_FAILING

from penstock.engine.evaluate import FORMS, evaluate, true_mask
from penstock.errors import DataError
from penstock.expression import Call, Column, Expression, walk
from penstock.functions import FUNCTIONS, may_raise
from penstock.spark.map_side.catalyst import to_spark_sql

EXPRESSIONS = [*BASIC_EXPRESSIONS, *FUNCTIONS_EXPRESSIONS]
FAILING = [*BASIC_FAILING, *FUNCTIONS_FAILING]
ROWS = SAMPLE.num_rows
COLUMNS = {name: SAMPLE[name].combine_chunks() for name in SAMPLE.column_names}


def value(expression: Expression) -> Any:
    """The value on the sample's rows, in a list."""
    result = evaluate(expression, COLUMNS, ROWS)
    assert isinstance(result, pa.Array) and result.type == expression.type
    return result.to_pylist()


def double(x: float | None) -> Expression:
    return lit(x, DOUBLE)


CONSTANTS: list[tuple[Expression, Any]] = [
    (call("=", double(NAN), double(NAN)), True),
    (call(">", double(NAN), double(math.inf)), True),
    (call("<", double(1.0), double(NAN)), True),
    (call(">=", double(1.0), double(NAN)), False),
    (call("=", double(-0.0), double(0.0)), True),
    (call("=", double(None), double(NAN)), None),
    (call("<=>", num(None), num(None)), True),
    (call("<=>", num(1), num(None)), False),
    (call("and", lit(None, BOOL), lit(False, BOOL)), False),
    (call("or", lit(None, BOOL), lit(True, BOOL)), True),
    (call("or", lit(None, BOOL), lit(False, BOOL)), None),
    (call("in", num(2), num(1), num(None)), None),
    (call("in", num(1), num(1), num(None)), True),
    (call("%", num(-7), num(3), type=INT), -1),
    (call("%", num(7), num(-3), type=INT), 1),
    (call("round", double(2.5), num(0), type=DOUBLE), 3.0),
    (call("round", double(-2.5), num(0), type=DOUBLE), -3.0),
    (call("round", double(2.675), num(2), type=DOUBLE), 2.68),
    (call("floor", double(-1.5), type=BIGINT), -2),
    (call("ceil", double(-1.5), type=BIGINT), -1),
    (call("least", num(None), num(3), num(2), type=INT), 2),
    (call("greatest", double(NAN), double(1.0), double(None), type=DOUBLE), NAN),
    (call("substring", text("Spark"), num(-3), num(2), type=STRING), "ar"),
    (call("substring", text("abc"), num(-5), num(3), type=STRING), "a"),
    (call("substring", text("abc"), num(0), num(2), type=STRING), "ab"),
    (call("length", text("héß"), type=INT), 3),
    (call("upper", text("straße"), type=STRING), "STRASSE"),
    (call("concat", text("a"), text(None), type=STRING), None),
    (call("like", text("a\nb"), text("a_b")), True),
    (call("like", text("50%"), text("50\\%")), True),
    (call("like", text("505"), text("50\\%")), False),
    (call("ln", double(0.0), type=DOUBLE), None),
    (cast(double(1e7), STRING), "1.0E7"),
    (cast(double(5e-324), STRING), "4.9E-324"),
    (cast(double(2e-323), STRING), "2.0E-323"),
    (cast(lit(1e-45, pa.float32()), STRING), "1.4E-45"),
    (cast(lit(1e10, pa.float32()), STRING), "1.0E10"),
    (call("round", double(-0.3), num(0), type=DOUBLE), 0.0),
    (call("round", double(-0.0), num(2), type=DOUBLE), 0.0),
    (call("atan2", double(-0.0), double(-0.0), type=DOUBLE), 0.0),
    (call("power", double(-1.0), double(math.inf), type=DOUBLE), NAN),
    (call("power", double(1.0), double(NAN), type=DOUBLE), NAN),
    (call("power", double(NAN), double(0.0), type=DOUBLE), 1.0),
    (call("power", double(1.0), double(None), type=DOUBLE), None),
    (cast(text(" 12\t"), INT), 12),
    (cast(double(-1.9), INT), -1),
    (cast(text("1.005"), pa.decimal128(10, 2)), Decimal("1.01")),
    (
        cast(lit(dt.datetime(2024, 1, 1, 10, 0, 0, 120000), pa.timestamp("us")), STRING),
        "2024-01-01 10:00:00.12",
    ),
]


@pytest.mark.parametrize(("expression", "expected"), CONSTANTS, ids=lambda v: str(v))
def test_constants(expression: Expression, expected: Any) -> None:
    for got in evaluate(expression, {}, 2).to_pylist():
        assert same(got, expected), got


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=lambda n: str(EXPRESSIONS[n]))
def test_the_type_is_kept_and_rows_do_not_depend_on_each_other(number: int) -> None:
    expression = EXPRESSIONS[number]
    whole = value(expression)
    for row in range(ROWS):
        alone = evaluate(expression, {n: a.slice(row, 1) for n, a in COLUMNS.items()}, 1).to_pylist()
        assert same(alone[0], whole[row])
    assert len(evaluate(expression, {n: a.slice(0, 0) for n, a in COLUMNS.items()}, 0)) == 0


@pytest.mark.parametrize(("expression", "message"), FAILING, ids=lambda v: str(v))
def test_what_spark_refuses_is_refused(expression: Expression, message: str) -> None:
    assert may_raise(expression) or expression.function == "like", "guards must keep rows from it"
    with pytest.raises(DataError, match=message):
        evaluate(expression, COLUMNS, ROWS)


BEYOND = num(2**31 - 1)
TOO_LONG = [
    call("repeat", text("ab"), BEYOND, type=STRING),
    call("repeat", text("0123456789" * 10), BEYOND, type=STRING),
    call("lpad", text("ab"), BEYOND, text("xy"), type=STRING),
]  # fmt: skip


@pytest.mark.parametrize("expression", TOO_LONG, ids=str)
def test_a_text_that_no_column_holds_is_refused_before_it_is_made(expression: Expression) -> None:
    assert may_raise(expression)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="over 2 GB of text"):
        evaluate(expression, COLUMNS, ROWS)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "kB"


def test_branches_see_only_the_rows_that_reach_them() -> None:
    ratio = call("/", cast(C["b"], DOUBLE), cast(C["i"], DOUBLE), type=DOUBLE)
    guarded = call("case", call("<>", C["i"], num(0)), ratio, double(None), type=DOUBLE)
    assert value(guarded)[:4] == [10.0, 20 / 7, None, None]
    with pytest.raises(DataError, match="division by zero"):
        value(call("coalesce", ratio, double(0.0), type=DOUBLE))
    both = call("and", call("<>", C["i"], num(0)), call(">", ratio, double(0.0)))
    assert true_mask(both, COLUMNS, ROWS).tolist() == [True, True, False, False, False, True, True, True]


def test_a_mask_counts_null_as_false() -> None:
    mask = true_mask(C["p"], COLUMNS, ROWS)
    assert mask.dtype == np.bool_ and mask.tolist() == [True, False, False, True, False, False, True, False]
    assert true_mask(lit(None, BOOL), {}, 3).tolist() == [False] * 3


def test_chunked_columns_and_literals() -> None:
    chunked = {"S.i": pa.chunked_array([[1, 2], [3]], INT)}
    assert evaluate(Column("S.i", INT), chunked, 3).to_pylist() == [1, 2, 3]
    assert evaluate(num(4), {}, 3).to_pylist() == [4, 4, 4]


def test_every_function_is_in_the_cases() -> None:
    used = {e.function for case in EXPRESSIONS for e in walk(case) if isinstance(e, Call)}
    assert used == {name for name, function in FUNCTIONS.items() if function.kernel} | set(FORMS)


def same(got: Any, expected: Any) -> bool:
    if isinstance(got, float) and isinstance(expected, float):
        if got == expected == 0:
            return math.copysign(1, got) == math.copysign(1, expected)
        return math.isclose(got, expected, rel_tol=1e-12) or (got != got and expected != expected)
    return type(got) is type(expected) and bool(got == expected)


@pytest.mark.spark
def test_every_expression_equals_spark(spark: Any) -> None:
    frame = spark.createDataFrame(SAMPLE).coalesce(1)
    texts = [to_spark_sql(e) for e in EXPRESSIONS]
    result = select_apart(spark, frame, texts)
    wrong = []
    for n, expression in enumerate(EXPRESSIONS):
        theirs, ours = result[f"c{n}"], value(expression)
        if theirs.type != expression.type:
            wrong.append(f"{texts[n]}: Spark's type is {theirs.type}, the case says {expression.type}")
        elif not all(map(same, ours, theirs.to_pylist())):
            wrong.append(f"{texts[n]}:\n  Spark {theirs.to_pylist()}\n  ours  {ours}")
    assert not wrong, "\n" + "\n".join(wrong)


def select_apart(spark: Any, frame: Any, texts: list[str]) -> pa.Table:
    """The expressions in one select, where Spark may not compute a part of one for the sake of another."""
    setting = "spark.sql.subexpressionElimination.enabled"
    spark.conf.set(setting, "false")
    try:
        return frame.selectExpr(*(f"{t} AS c{n}" for n, t in enumerate(texts))).toArrow()
    finally:
        spark.conf.unset(setting)


@pytest.mark.spark
def test_spark_refuses_what_we_refuse(spark: Any) -> None:
    frame = spark.createDataFrame(SAMPLE).coalesce(1)
    for expression, _ in FAILING:
        with pytest.raises(Exception, match=r"\[[A-Z_.]+\]"):
            frame.selectExpr(f"{to_spark_sql(expression)} AS c").collect()
