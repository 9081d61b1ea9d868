"""Types and coercions: what each expression becomes, and that the engine evaluates all of it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock import cql
from penstock.cql.expressions import functions
from penstock.cql.expressions.types import sql_name
from penstock.cql.names.context import Catalog
from penstock.engine.evaluate import evaluate
from penstock.expression import Expression
from penstock.plan.logical import Aggregate, Project, ToStream


def bind(text: str, catalog: Catalog) -> Expression:
    """The bound form of an expression over E."""
    root = cql.bind(f"SELECT {text} FROM E", catalog).root
    assert isinstance(root, ToStream) and isinstance(root.input, Project)
    return root.input.columns[0][1]


@pytest.mark.parametrize(
    ("text", "bound", "type_"),
    [
        # constants
        ("1", "1", "INT"),
        ("2147483648", "2147483648", "BIGINT"),
        ("-2147483648", "-2147483648", "INT"),
        ("9223372036854775808", "9223372036854775808", "DECIMAL(19, 0)"),
        ("1.50", "1.50", "DECIMAL(3, 2)"),
        ("0.05", "0.05", "DECIMAL(2, 2)"),
        ("1e3", "1000.0", "DOUBLE"),
        ("5L", "5", "BIGINT"),
        ("'it''s'", '"it\'s"', "STRING"),
        ("TRUE", "True", "BOOLEAN"),
        ("NULL", "NULL", "NULL"),
        ("DATE '2024-01-31'", "2024-01-31", "DATE"),
        ("TIMESTAMP '2024-01-31 10:00:00'", "2024-01-31 10:00:00+00:00", "TIMESTAMP"),
        ("TIMESTAMP '2024-01-31T10:00:00+02:00'", "2024-01-31 08:00:00+00:00", "TIMESTAMP"),
        # arithmetic: the wider of two; / is DOUBLE; DECIMAL by Spark's rules
        ("i + 1", "E.i + 1", "INT"),
        ("i + l", "CAST(E.i AS int64) + E.l", "BIGINT"),
        ("i * f", "CAST(E.i AS double) * CAST(E.f AS double)", "DOUBLE"),
        ("f - x", "CAST(E.f AS double) - E.x", "DOUBLE"),
        ("f * f", "E.f * E.f", "FLOAT"),
        ("i / 2", "CAST(E.i AS double) / 2.0", "DOUBLE"),
        ("f / f", "CAST(E.f AS double) / CAST(E.f AS double)", "DOUBLE"),
        ("l % 7", "E.l % 7", "BIGINT"),
        ("-i", "NEGATIVE(E.i)", "INT"),
        ("- (3)", "-3", "INT"),
        ("d + d", "E.d + E.d", "DECIMAL(11, 2)"),
        ("d * 2", "E.d * 2", "DECIMAL(12, 2)"),
        ("d / 3", "E.d / 3", "DECIMAL(14, 6)"),
        ("d % 2", "E.d % 2", "DECIMAL(3, 2)"),
        ("d * i", "E.d * CAST(E.i AS decimal128(10, 0))", "DECIMAL(21, 2)"),
        ("d * d * d * d", "((E.d * E.d) * E.d) * E.d", "DECIMAL(38, 6)"),
        ("d + x", "CAST(E.d AS double) + E.x", "DOUBLE"),
        ("i + NULL", "E.i + NULL", "INT"),
        # comparison
        ("i = l", "CAST(E.i AS int64) = E.l", "BOOLEAN"),
        ("x > 1", "E.x > 1.0", "BOOLEAN"),
        ("x > 1.5", "E.x > 1.5", "BOOLEAN"),
        ("d >= 1", "E.d >= 1.00", "BOOLEAN"),
        ("d <> 1.125", "CAST(E.d AS decimal128(11, 3)) <> 1.125", "BOOLEAN"),
        ("l <=> NULL", "E.l <=> NULL", "BOOLEAN"),
        ("b = (i > 1)", "E.b = (E.i > 1)", "BOOLEAN"),
        ("day < '2024-02-01'", "E.day < 2024-02-01", "BOOLEAN"),
        ("at >= '2024-02-01'", "E.at >= 2024-02-01 00:00:00+00:00", "BOOLEAN"),
        ("at > day", "E.at > CAST(E.day AS timestamp[us, tz=UTC])", "BOOLEAN"),
        ("s != 'x'", "E.s <> 'x'", "BOOLEAN"),
        # predicates
        ("i BETWEEN 1 AND l", "(E.i >= 1) AND (CAST(E.i AS int64) <= E.l)", "BOOLEAN"),
        ("i NOT BETWEEN 1 AND 2", "NOT(((E.i >= 1) AND (E.i <= 2)))", "BOOLEAN"),
        ("l IN (1, 2, NULL)", "E.l IN (1, 2, NULL)", "BOOLEAN"),
        ("i NOT IN (1)", "NOT(E.i IN (1))", "BOOLEAN"),
        ("i IN (1, 3000000000)", "CAST(E.i AS int64) IN (1, 3000000000)", "BOOLEAN"),
        ("i IN (1, i + 1)", "(E.i = 1) OR (E.i = (E.i + 1))", "BOOLEAN"),
        ("day IN ('2024-01-01')", "E.day IN (2024-01-01)", "BOOLEAN"),
        ("s LIKE 'a%'", "E.s LIKE 'a%'", "BOOLEAN"),
        ("s IS NULL", "E.s IS NULL", "BOOLEAN"),
        ("s IS NOT NULL", "E.s IS NOT NULL", "BOOLEAN"),
        ("NOT b OR b AND i = 1", "NOT(E.b) OR (E.b AND (E.i = 1))", "BOOLEAN"),
        ("b IS TRUE", "E.b <=> True", "BOOLEAN"),
        # conditionals
        ("CASE WHEN b THEN 1 END", "CASE(E.b, 1, NULL)", "INT"),
        (
            "CASE i WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE s END",
            "CASE((E.i = 1), 'a', (E.i = 2), 'b', E.s)",
            "STRING",
        ),
        ("CASE WHEN b THEN i ELSE x END", "CASE(E.b, CAST(E.i AS double), E.x)", "DOUBLE"),
        (
            "CASE WHEN b THEN d ELSE 1 END",
            "CASE(E.b, CAST(E.d AS decimal128(12, 2)), 1.00)",
            "DECIMAL(12, 2)",
        ),
        ("IF(b, 1, 2.5)", "CASE(E.b, 1.0, 2.5)", "DECIMAL(11, 1)"),
        ("COALESCE(i, l, 0)", "COALESCE(CAST(E.i AS int64), E.l, 0)", "BIGINT"),
        ("nvl(i, 0)", "COALESCE(E.i, 0)", "INT"),
        ("NULLIF(i, 0)", "CASE((E.i = 0), NULL, E.i)", "INT"),
        ("GREATEST(i, 2.5, x)", "GREATEST(CAST(E.i AS double), 2.5, E.x)", "DOUBLE"),
        # casts
        ("CAST(i AS STRING)", "CAST(E.i AS string)", "STRING"),
        ("CAST(1 AS BIGINT)", "1", "BIGINT"),
        ("CAST(NULL AS DATE)", "NULL", "DATE"),
        ("CAST('2024-01-31' AS DATE)", "2024-01-31", "DATE"),
        ("CAST(s AS DECIMAL(5, 1))", "CAST(E.s AS decimal128(5, 1))", "DECIMAL(5, 1)"),
        ("s::DOUBLE", "CAST(E.s AS double)", "DOUBLE"),
        # functions
        ("ABS(d)", "ABS(E.d)", "DECIMAL(10, 2)"),
        ("ROUND(x)", "ROUND(E.x, 0)", "DOUBLE"),
        ("ROUND(d, 1)", "ROUND(E.d, 1)", "DECIMAL(10, 1)"),
        ("ROUND(d, -3)", "ROUND(E.d, -3)", "DECIMAL(9, 0)"),
        ("FLOOR(x)", "FLOOR(E.x)", "BIGINT"),
        ("CEIL(d)", "CEIL(E.d)", "DECIMAL(9, 0)"),
        ("CEILING(i)", "CAST(E.i AS int64)", "BIGINT"),
        ("s || i || 'x'", "CONCAT(CONCAT(E.s, CAST(E.i AS string)), 'x')", "STRING"),
        ("SUBSTRING(s FROM 2 FOR 3)", "SUBSTRING(E.s, 2, 3)", "STRING"),
        ("SUBSTR(s, i)", "SUBSTRING(E.s, E.i)", "STRING"),
        ("LEFT(s, 2)", "SUBSTRING(E.s, 1, 2)", "STRING"),
        ("LENGTH(TRIM(s))", "LENGTH(TRIM(E.s))", "INT"),
        ("POW(i, 2)", "POWER(CAST(E.i AS double), 2.0)", "DOUBLE"),
        ("HOUR(day)", "HOUR(CAST(E.day AS timestamp[us, tz=UTC]))", "INT"),
    ],
)
def test_bound_expression(text: str, bound: str, type_: str, catalog: Catalog) -> None:
    expression = bind(text, catalog)
    assert (str(expression), sql_name(expression.type)) == (bound, type_)


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("COUNT(*)", "BIGINT"),
        ("COUNT(s)", "BIGINT"),
        ("SUM(i)", "BIGINT"),
        ("SUM(f)", "DOUBLE"),
        ("SUM(x)", "DOUBLE"),
        ("SUM(d)", "DECIMAL(20, 2)"),
        ("AVG(i)", "DOUBLE"),
        ("AVG(d)", "DECIMAL(14, 6)"),
        ("MIN(s)", "STRING"),
        ("MAX(at)", "TIMESTAMP"),
        ("MIN(i)", "INT"),
    ],
)
def test_aggregate_types(call: str, type_: str, catalog: Catalog) -> None:
    root = cql.bind(f"SELECT {call} FROM E", catalog).root
    assert isinstance(root, Project) and isinstance(root.input, Aggregate)
    assert sql_name(root.schema.field(0).type) == type_


ROW: dict[str, tuple[Any, pa.DataType]] = {
    "i": (7, pa.int32()),
    "l": (3, pa.int64()),
    "f": (0.5, pa.float32()),
    "x": (2.25, pa.float64()),
    "d": (Decimal("12.35"), pa.decimal128(10, 2)),
    "s": (" Abc ", pa.string()),
    "b": (True, pa.bool_()),
    "day": (dt.date(2024, 2, 29), pa.date32()),
    "at": (dt.datetime(2024, 2, 29, 10, 30, 5, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC")),
}

VALUES = {
    "abs": ("ABS(-i)", 7),
    "sign": ("SIGN(-d)", -1.0),
    "sqrt": ("SQRT(x)", 1.5),
    "exp": ("EXP(0)", 1.0),
    "ln": ("LN(1)", 0.0),
    "log10": ("LOG10(1000)", pytest.approx(3.0)),
    "power": ("POWER(i, 2)", 49.0),
    "round": ("ROUND(d, 1)", Decimal("12.4")),
    "floor": ("FLOOR(-x)", -3),
    "ceil": ("CEIL(d)", Decimal(13)),
    "upper": ("UPPER(s)", " ABC "),
    "lower": ("LOWER(s)", " abc "),
    "trim": ("TRIM(s)", "Abc"),
    "ltrim": ("LTRIM(s)", "Abc "),
    "rtrim": ("RTRIM(s)", " Abc"),
    "reverse": ("REVERSE(s)", " cbA "),
    "length": ("LENGTH(s)", 5),
    "replace": ("REPLACE(s, 'b', 'xx')", " Axxc "),
    "startswith": ("STARTSWITH(s, ' A')", True),
    "endswith": ("ENDSWITH(s, 'c')", False),
    "contains": ("CONTAINS(s, 'bc')", True),
    "substring": ("SUBSTRING(s, 2, 2)", "Ab"),
    "left": ("LEFT(s, 3)", " Ab"),
    "year": ("YEAR(day)", 2024),
    "month": ("MONTH(at)", 2),
    "day": ("DAY(at)", 29),
    "hour": ("HOUR(at)", 10),
    "minute": ("MINUTE(at)", 30),
    "second": ("SECOND(day)", 0),
    "concat": ("CONCAT(i, s, 'x')", "7 Abc x"),
    "coalesce": ("COALESCE(NULL, i, l)", 7),
    "least": ("LEAST(i, l, x)", 2.25),
    "greatest": ("GREATEST(i, l)", 7),
    "nullif": ("NULLIF(i, 7)", None),
    "if": ("IF(i > l, 'more', 'less')", "more"),
    "isnull": ("ISNULL(i)", False),
    "isnotnull": ("ISNOTNULL(i)", True),
    "nvl2": ("NVL2(s, 1, 2)", 1),
    "equal_null": ("EQUAL_NULL(NULL, i)", False),
    "zeroifnull": ("ZEROIFNULL(NULLIF(i, 7))", 0),
    "nullifzero": ("NULLIFZERO(i - 7)", None),
    "isnan": ("ISNAN(x)", False),
    "nanvl": ("NANVL(DOUBLE 'NaN', x)", 2.25),
    "pmod": ("PMOD(-i, 3)", 2),
    "log": ("LOG(2, 8)", pytest.approx(3.0)),
    "atan2": ("ATAN2(0, 1)", 0.0),
    "hypot": ("HYPOT(3, 4)", 5.0),
    "pi": ("PI()", math.pi),
    "e": ("E()", math.e),
    "cbrt": ("CBRT(27)", pytest.approx(3.0)),
    "expm1": ("EXPM1(0)", 0.0),
    "log2": ("LOG2(8)", pytest.approx(3.0)),
    "log1p": ("LOG1P(0)", 0.0),
    "sin": ("SIN(0)", 0.0),
    "cos": ("COS(0)", 1.0),
    "tan": ("TAN(0)", 0.0),
    "asin": ("ASIN(1)", pytest.approx(math.pi / 2)),
    "acos": ("ACOS(1)", 0.0),
    "atan": ("ATAN(1)", pytest.approx(math.pi / 4)),
    "sinh": ("SINH(0)", 0.0),
    "cosh": ("COSH(0)", 1.0),
    "tanh": ("TANH(0)", 0.0),
    "degrees": ("DEGREES(PI())", pytest.approx(180.0)),
    "radians": ("RADIANS(180)", pytest.approx(math.pi)),
    "rint": ("RINT(2.5)", 2.0),
    "initcap": ("INITCAP('aB cd')", "Ab Cd"),
    "md5": ("MD5('Spark')", "8cde774d6f7333752ed72cacddb05126"),
    "octet_length": ("OCTET_LENGTH('héß')", 5),
    "bit_length": ("BIT_LENGTH(s)", 40),
    "ascii": ("ASCII('A')", 65),
    "rlike": ("s RLIKE 'b.'", True),
    "translate": ("TRANSLATE(s, 'Ab ', 'xy')", "xyc"),
    "regexp_replace": ("REGEXP_REPLACE(s, '([A-Z])', '$1$1')", " AAbc "),
    "regexp_extract": ("REGEXP_EXTRACT(s, '([A-Z])(.)', 2)", "b"),
    "levenshtein": ("LEVENSHTEIN('kitten', 'sitting')", 3),
    "btrim": ("TRIM(BOTH ' c' FROM s)", "Ab"),
    "substring_index": ("SUBSTRING_INDEX('a.b.c', '.', -2)", "b.c"),
    "split_part": ("SPLIT_PART('a.b.c', '.', 2)", "b"),
    "right": ("RIGHT(s, 3)", "bc "),
    "lpad": ("LPAD('ab', 5, '*-')", "*-*ab"),
    "rpad": ("RPAD('abc', 2)", "ab"),
    "repeat": ("REPEAT('ab', 2)", "abab"),
    "space": ("SPACE(2)", "  "),
    "chr": ("CHR(65)", "A"),
    "instr": ("INSTR(s, 'b')", 3),
    "locate": ("POSITION('c' IN s)", 4),
    "concat_ws": ("CONCAT_WS('-', i, NULL, 'x')", "7-x"),
    "quarter": ("QUARTER(at)", 1),
    "weekofyear": ("EXTRACT(WEEK FROM day)", 9),
    "dayofweek": ("DAYOFWEEK(day)", 5),
    "weekday": ("WEEKDAY(at)", 3),
    "dayofyear": ("DATE_PART('doy', day)", 60),
    "date_trunc": ("DATE_TRUNC('HOUR', at)", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
    "trunc": ("TRUNC(day, 'MM')", dt.date(2024, 2, 1)),
    "date_add": ("DATE_ADD(day, 1)", dt.date(2024, 3, 1)),
    "date_sub": ("day - 60", dt.date(2023, 12, 31)),
    "add_months": ("ADD_MONTHS(day, 12)", dt.date(2025, 2, 28)),
    "datediff": ("DATEDIFF(day, '2024-02-01')", 28),
    "last_day": ("LAST_DAY('2024-02-10')", dt.date(2024, 2, 29)),
    "make_date": ("MAKE_DATE(2024, 1, 31)", dt.date(2024, 1, 31)),
    "unix_date": ("UNIX_DATE(DATE '1970-01-03')", 2),
    "date_from_unix_date": ("DATE_FROM_UNIX_DATE(2)", dt.date(1970, 1, 3)),
    "unix_timestamp": ("UNIX_TIMESTAMP(at)", 1_709_202_605),
    "unix_seconds": ("UNIX_SECONDS(at)", 1_709_202_605),
    "unix_millis": ("UNIX_MILLIS(at)", 1_709_202_605_000),
    "unix_micros": ("UNIX_MICROS(at)", 1_709_202_605_000_000),
    "timestamp_seconds": ("TIMESTAMP_SECONDS(1)", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
    "timestamp_millis": ("TIMESTAMP_MILLIS(1)", dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)),
    "timestamp_micros": ("TIMESTAMP_MICROS(1)", dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)),
    "from_unixtime": ("FROM_UNIXTIME(1)", "1970-01-01 00:00:01"),
    "to_date": ("TO_DATE('2024-01-31')", dt.date(2024, 1, 31)),
    "to_timestamp": ("TO_TIMESTAMP('2024-01-31 10:00:00')", dt.datetime(2024, 1, 31, 10, tzinfo=dt.UTC)),
}

MOMENT = dt.datetime(2024, 2, 29, 10, 30, 5, tzinfo=dt.UTC)
OPERATORS = [
    ("s LIKE '_Ab%'", True),
    ("s NOT LIKE '_Ab%'", False),
    ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
    ("'axb' NOT LIKE 'a!%b' ESCAPE '!'", True),
    ("'a\\\\b' LIKE 'a\\\\!_' ESCAPE '!'", False),
    ("s ILIKE '%ABC%'", True),
    ("s NOT ILIKE '%ABC%'", False),
    ("s NOT RLIKE '^A'", True),
    ("-i DIV 2", -3),
    ("(i & 3) | (8 ^ 1)", 11),
    ("TRY_CAST(s AS INT)", None),
    ("TRY_CAST('12' AS INT)", 12),
    ("i IS DISTINCT FROM NULL", True),
    ("i IS NOT DISTINCT FROM 7", True),
    ("at + INTERVAL 5 MINUTES", MOMENT + dt.timedelta(minutes=5)),
    ("at - INTERVAL '1' DAY", MOMENT - dt.timedelta(days=1)),
    ("INTERVAL '1 hour 5 minutes' + at", MOMENT + dt.timedelta(hours=1, minutes=5)),
    ("at + INTERVAL 250 MILLISECONDS", MOMENT + dt.timedelta(milliseconds=250)),
    ("at + INTERVAL 1 YEAR", MOMENT.replace(year=2025, day=28)),
    ("at - INTERVAL 1 MONTH", MOMENT.replace(month=1)),
    ("day + INTERVAL 1 DAY", dt.date(2024, 3, 1)),
    ("day + INTERVAL 1 WEEK", dt.date(2024, 3, 7)),
    ("day - INTERVAL 1 HOUR", dt.datetime(2024, 2, 28, 23, tzinfo=dt.UTC)),
    ("day + 1", dt.date(2024, 3, 1)),
    ("at - day < INTERVAL 11 HOURS", True),
    ("INTERVAL 10 HOURS > (at - day)", False),
    ("at - day BETWEEN INTERVAL 10 HOURS AND INTERVAL 11 HOURS", True),
    ("EXTRACT(SECOND FROM at + INTERVAL 1500 MICROSECONDS)", Decimal("5.001500")),
    ("EXTRACT(YEAR FROM day)", 2024),
]


@pytest.mark.parametrize(("text", "value"), OPERATORS)
def test_the_engine_evaluates_every_operator(text: str, value: Any, catalog: Catalog) -> None:
    check_value(text, value, catalog)


@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_the_engine_evaluates_every_function(name: str, catalog: Catalog) -> None:
    check_value(*VALUES[name], catalog)


def check_value(text: str, value: Any, catalog: Catalog) -> None:
    bound = bind(text, catalog)
    result = evaluate(bound, {f"E.{n}": pa.array([v], t) for n, (v, t) in ROW.items()}, 1)
    assert result.to_pylist() == [value]
    assert result.type == bound.type


def test_every_synonym_means_a_function() -> None:
    assert set(functions.SYNONYMS.values()) <= set(functions.FUNCTIONS)
