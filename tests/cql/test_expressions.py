"""Types and coercions: what each expression becomes, and that the engine evaluates all of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock import cql
from penstock.cql.names.context import Catalog
from penstock.engine.evaluate import evaluate
from penstock.expression import Expression
from penstock.plan.logical import Aggregate, Project, ToStream
from penstock.schema import sql_name


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
        ("-8 >> 1", "SHIFTRIGHT(-8, 1)", "INT"),
        ("-8 >>> 1 + 2", "SHIFTRIGHTUNSIGNED(-8, (1 + 2))", "INT"),
        ("1 << 2 >>> 3", "SHIFTRIGHTUNSIGNED(SHIFTLEFT(1, 2), 3)", "INT"),
        ("5L", "5", "BIGINT"),
        ("'it''s'", '"it\'s"', "STRING"),
        ("TRUE", "True", "BOOLEAN"),
        ("NULL", "NULL", "NULL"),
        ("DATE '2024-01-31'", "2024-01-31", "DATE"),
        ("TIMESTAMP '2024-01-31 10:00:00'", "2024-01-31 10:00:00+00:00", "TIMESTAMP"),
        ("TIMESTAMP '2024-01-31T10:00:00+02:00'", "2024-01-31 08:00:00+00:00", "TIMESTAMP"),
        # arithmetic: the wider of two; / is DOUBLE; DECIMAL by Spark's rules
        ("i + 1", "E.i + 1", "INT"),
        ("i + l", "CAST(E.i AS BIGINT) + E.l", "BIGINT"),
        ("i * f", "CAST(E.i AS DOUBLE) * CAST(E.f AS DOUBLE)", "DOUBLE"),
        ("f - x", "CAST(E.f AS DOUBLE) - E.x", "DOUBLE"),
        ("f * f", "E.f * E.f", "FLOAT"),
        ("i / 2", "CAST(E.i AS DOUBLE) / 2.0", "DOUBLE"),
        ("f / f", "CAST(E.f AS DOUBLE) / CAST(E.f AS DOUBLE)", "DOUBLE"),
        ("l % 7", "E.l % 7", "BIGINT"),
        ("-i", "NEGATIVE(E.i)", "INT"),
        ("- (3)", "-3", "INT"),
        ("d + d", "E.d + E.d", "DECIMAL(11, 2)"),
        ("d * 2", "E.d * 2", "DECIMAL(12, 2)"),
        ("d / 3", "E.d / 3", "DECIMAL(14, 6)"),
        ("d % 2", "E.d % 2", "DECIMAL(3, 2)"),
        ("d * i", "E.d * CAST(E.i AS DECIMAL(10, 0))", "DECIMAL(21, 2)"),
        ("d * d * d * d", "((E.d * E.d) * E.d) * E.d", "DECIMAL(38, 6)"),
        ("d + x", "CAST(E.d AS DOUBLE) + E.x", "DOUBLE"),
        ("i + NULL", "E.i + NULL", "INT"),
        # comparison
        ("i = l", "CAST(E.i AS BIGINT) = E.l", "BOOLEAN"),
        ("x > 1", "E.x > 1.0", "BOOLEAN"),
        ("x > 1.5", "E.x > 1.5", "BOOLEAN"),
        ("d >= 1", "E.d >= 1.00", "BOOLEAN"),
        ("d <> 1.125", "CAST(E.d AS DECIMAL(11, 3)) <> 1.125", "BOOLEAN"),
        ("l <=> NULL", "E.l <=> NULL", "BOOLEAN"),
        ("b = (i > 1)", "E.b = (E.i > 1)", "BOOLEAN"),
        ("day < '2024-02-01'", "E.day < 2024-02-01", "BOOLEAN"),
        ("at >= '2024-02-01'", "E.at >= 2024-02-01 00:00:00+00:00", "BOOLEAN"),
        ("at > day", "E.at > CAST(E.day AS TIMESTAMP)", "BOOLEAN"),
        ("s != 'x'", "E.s <> 'x'", "BOOLEAN"),
        # predicates
        ("i BETWEEN 1 AND l", "(E.i >= 1) AND (CAST(E.i AS BIGINT) <= E.l)", "BOOLEAN"),
        ("i NOT BETWEEN 1 AND 2", "NOT(((E.i >= 1) AND (E.i <= 2)))", "BOOLEAN"),
        ("l IN (1, 2, NULL)", "E.l IN (1, 2, NULL)", "BOOLEAN"),
        ("i NOT IN (1)", "NOT(E.i IN (1))", "BOOLEAN"),
        ("i IN (1, 3000000000)", "CAST(E.i AS BIGINT) IN (1, 3000000000)", "BOOLEAN"),
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
        ("CASE WHEN b THEN i ELSE x END", "CASE(E.b, CAST(E.i AS DOUBLE), E.x)", "DOUBLE"),
        (
            "CASE WHEN b THEN d ELSE 1 END",
            "CASE(E.b, CAST(E.d AS DECIMAL(12, 2)), 1.00)",
            "DECIMAL(12, 2)",
        ),
        ("IF(b, 1, 2.5)", "CASE(E.b, 1.0, 2.5)", "DECIMAL(11, 1)"),
        ("COALESCE(i, l, 0)", "COALESCE(CAST(E.i AS BIGINT), E.l, 0)", "BIGINT"),
        ("nvl(i, 0)", "COALESCE(E.i, 0)", "INT"),
        ("NULLIF(i, 0)", "CASE((E.i = 0), NULL, E.i)", "INT"),
        ("GREATEST(i, 2.5, x)", "GREATEST(CAST(E.i AS DOUBLE), 2.5, E.x)", "DOUBLE"),
        # casts
        ("CAST(i AS STRING)", "CAST(E.i AS STRING)", "STRING"),
        ("CAST(1 AS BIGINT)", "1", "BIGINT"),
        ("CAST(NULL AS DATE)", "NULL", "DATE"),
        ("CAST('2024-01-31' AS DATE)", "2024-01-31", "DATE"),
        ("CAST(s AS DECIMAL(5, 1))", "CAST(E.s AS DECIMAL(5, 1))", "DECIMAL(5, 1)"),
        ("s::DOUBLE", "CAST(E.s AS DOUBLE)", "DOUBLE"),
        # functions
        ("ABS(d)", "ABS(E.d)", "DECIMAL(10, 2)"),
        ("ROUND(x)", "ROUND(E.x, 0)", "DOUBLE"),
        ("ROUND(d, 1)", "ROUND(E.d, 1)", "DECIMAL(10, 1)"),
        ("ROUND(d, -3)", "ROUND(E.d, -3)", "DECIMAL(9, 0)"),
        ("FLOOR(x)", "FLOOR(E.x)", "BIGINT"),
        ("CEIL(d)", "CEIL(E.d)", "DECIMAL(9, 0)"),
        ("CEILING(i)", "CAST(E.i AS BIGINT)", "BIGINT"),
        ("s || i || 'x'", "CONCAT(E.s, CAST(E.i AS STRING), 'x')", "STRING"),
        ("SUBSTRING(s FROM 2 FOR 3)", "SUBSTRING(E.s, 2, 3)", "STRING"),
        ("SUBSTR(s, i)", "SUBSTRING(E.s, E.i)", "STRING"),
        ("LEFT(s, 2)", "SUBSTRING(E.s, 1, 2)", "STRING"),
        ("LENGTH(TRIM(s))", "LENGTH(TRIM(E.s))", "INT"),
        ("POW(i, 2)", "POWER(CAST(E.i AS DOUBLE), 2.0)", "DOUBLE"),
        ("HOUR(day)", "HOUR(CAST(E.day AS TIMESTAMP))", "INT"),
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
    ("TRIM(BOTH ' c' FROM s)", "Ab"),
    ("POSITION('c' IN s)", 4),
    ("s || i", " Abc 7"),
    ("EXTRACT(WEEK FROM day)", 9),
    ("DATE_PART('doy', day)", 60),
    ("SECOND(day)", 0),
    ("CEIL(d)", Decimal(13)),
    ("LEAST(i, l, x)", 2.25),
    ("YEAR(NULL)", None),
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
    ("TIMESTAMPDIFF(HOUR, day, at)", 10),
    ("TIMESTAMPDIFF(MINUTE, at, day)", -630),
    ("DATEDIFF(MONTH, at, at + INTERVAL 1 MONTH)", 1),
    ("DATE_DIFF(YEAR, at, TIMESTAMP '2020-02-29 10:30:05')", -4),
    ("TIMESTAMPDIFF(YEAR, at, TIMESTAMP '2025-02-28 23:00:00')", 0),
    ("TIMESTAMPDIFF(QUARTER, NULL, at)", None),
    ("TIMESTAMPADD(MONTH, 12, at)", MOMENT.replace(year=2025, day=28)),
    ("DATEADD(DAYS, -i, at)", MOMENT - dt.timedelta(days=7)),
    ("at AT TIME ZONE 'America/New_York'", MOMENT.replace(hour=5, tzinfo=None)),
    ("(at AT TIME ZONE 'Asia/Tokyo') AT TIME ZONE 'Asia/Tokyo'", MOMENT),
    ("HOUR(TO_UTC_TIMESTAMP('2024-03-31 02:30:00', 'Europe/Berlin'))", 1),  # clocks never showed it
    ("HOUR(TO_UTC_TIMESTAMP('2024-10-27 02:30:00', 'Europe/Berlin'))", 0),  # they showed it twice
    ("MAKE_TIMESTAMP(2024, 2, 29, 10, 29, 60)", MOMENT.replace(second=0)),
]


@pytest.mark.parametrize(("text", "value"), OPERATORS)
def test_the_engine_evaluates_every_operator(text: str, value: Any, catalog: Catalog) -> None:
    check_value(text, value, catalog)


def check_value(text: str, value: Any, catalog: Catalog) -> None:
    bound = bind(text, catalog)
    result = evaluate(bound, {f"E.{n}": pa.array([v], t) for n, (v, t) in ROW.items()}, 1)
    assert result.to_pylist() == [value]
    assert result.type == bound.type
