"""The options of an input: the same checks, and the same sentences, from DDL and from Python."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import InputOptions
from penstock.cql.inputs import CHECKS, _in_python
from penstock.cql.syntax.nodes import InputDefinition
from penstock.errors import CatalogError, CQLError
from penstock.schema import TIMESTAMP_TIME

COLUMNS = "k BIGINT, s STRING, at TIMESTAMP, t INT, b BOOLEAN, op STRING"
SCHEMA = cql.schema_of(COLUMNS)


def from_ddl(clauses: str, kind: str = "stream") -> InputOptions:
    (statement,) = cql.parse(f"CREATE {kind.upper()} S ({COLUMNS}) {clauses} FROM PARQUET 'd'")
    assert isinstance(statement, cql.CreateInput)
    return statement.options


@pytest.mark.parametrize(
    ("clauses", "options"),
    [
        ("TIMESTAMP BY T IN MILLISECONDS", {"timestamp": "T", "unit": "milliseconds"}),
        (
            "TIMESTAMP BY t IN second SKEW 2 MINUTES",
            {"timestamp": "t", "unit": "second", "skew": "2 minutes"},
        ),
        (
            "TIMESTAMP BY at SKEW 7 IDLE AFTER 5 SECONDS",
            {"timestamp": "at", "skew": 7, "idle_after": "5 seconds"},
        ),
        ("TIMESTAMP BY at DISORDER AUTO", {"timestamp": "at", "skew": "auto"}),
        ("TIMESTAMP BY t DISORDER AUTO UP TO 5 MIN", {"timestamp": "t", "skew": "Auto up to 5 min"}),
        ("TIMESTAMP BY at HEARTBEAT BY B", {"timestamp": "at", "heartbeat": "B"}),
        ("TIMESTAMP BY ARRIVAL IDLE AFTER 1 SECOND", {"timestamp": "arrival", "idle_after": "1 second"}),
        ("TIMESTAMP BY at ON BAD ROWS COUNT", {"timestamp": "at", "bad_rows": "count"}),
        ("TIMESTAMP BY at RATE 5 ROWS PER SECOND", {"timestamp": "at", "rate": 5}),
        ("TIMESTAMP BY at PARTITIONED BY (K, s)", {"timestamp": "at", "partitioned_by": ("K", "s")}),
        ("TIMESTAMP BY at PARTITIONED BY k", {"timestamp": "at", "partitioned_by": "k"}),
        ("TIMESTAMP BY at HEAVY k IN (7, -1)", {"timestamp": "at", "heavy": {"k": [7, -1]}}),
        (
            "TIMESTAMP BY at HEAVY S IN ('x') HEAVY b IN (TRUE)",
            {"timestamp": "at", "heavy": {"s": ["x"], "B": [True]}},
        ),
    ],
)
def test_both_declare_the_same(clauses: str, options: dict[str, Any]) -> None:
    assert from_ddl(clauses) == cql.input_options("stream", "S", SCHEMA, **options)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("TIMESTAMP BY tt", {"timestamp": "tt"}, "TIMESTAMP BY names an unknown column 'tt'"),
    ("TIMESTAMP BY s", {"timestamp": "s"}, "TIMESTAMP BY column 's' is STRING"),
    ("TIMESTAMP BY at IN SECONDS", {"timestamp": "at", "unit": "seconds"}, "IN SECONDS is for integer"),
    ("TIMESTAMP BY t IN weeks", {"timestamp": "t", "unit": "weeks"}, "unknown unit of time 'weeks'"),
    ("TIMESTAMP BY t SKEW soon", {"timestamp": "t", "skew": "soon"}, "DISORDER takes a number"),
    ("TIMESTAMP BY t SKEW 5 eons", {"timestamp": "t", "skew": "5 eons"}, "unknown unit of time 'eons'"),
    ("TIMESTAMP BY t DISORDER 500 ms", {"timestamp": "t", "skew": "500 ms"}, "500 ms is not a whole"),
    ("TIMESTAMP BY t SKEW -1", {"timestamp": "t", "skew": -1}, "DISORDER -1 is out of bounds"),
    ("TIMESTAMP BY t IDLE AFTER 0", {"timestamp": "t", "idle_after": 0}, "IDLE AFTER 0 is out of bounds"),
    ("TIMESTAMP BY t IDLE AFTER x", {"timestamp": "t", "idle_after": "x"}, "IDLE AFTER takes a number"),
    ("TIMESTAMP BY t ON BAD ROWS skip", {"timestamp": "t", "bad_rows": "skip"}, "takes ERROR or COUNT"),
    ("TIMESTAMP BY t RATE 0 ROWS PER SECOND", {"timestamp": "t", "rate": 0}, "RATE 0 is out of bounds"),
    ("TIMESTAMP BY t PARTITIONED BY q", {"timestamp": "t", "partitioned_by": "q"}, "unknown column 'q'"),
    ("TIMESTAMP BY t HEAVY q IN (1)", {"timestamp": "t", "heavy": {"q": [1]}}, "HEAVY names an unknown"),
    ("TIMESTAMP BY t HEAVY k IN ('x')", {"timestamp": "t", "heavy": {"k": ["x"]}}, "'x' is not a value of"),
    (
        "TIMESTAMP BY t HEARTBEAT BY s",
        {"timestamp": "t", "heartbeat": "s"},
        "HEARTBEAT BY column 's' is STRING",
    ),
    ("TIMESTAMP BY t DISORDER AUTO UP TO x", {"timestamp": "t", "skew": "auto up to x"}, "takes a number"),
    ("TIMESTAMP BY ARRIVAL SKEW 5", {"timestamp": "arrival", "skew": 5}, "come in order; leave DISORDER out"),
    ("TIMESTAMP BY ARRIVAL IN SECONDS", {"timestamp": "arrival", "unit": "seconds"}, "takes no unit"),
    ("SKEW 5", {"skew": 5}, "has no timestamp; add TIMESTAMP BY"),
    ("TIMESTAMP BY t CHANGE BY op", {"timestamp": "t", "change": "op"}, "has only insertions"),
]


@pytest.mark.parametrize(("clauses", "options", "message"), WRONG)
def test_both_are_rejected_each_in_its_own_words(clauses: str, options: dict[str, Any], message: str) -> None:
    assert message in rejected("stream", clauses, options)


@pytest.mark.parametrize(
    ("clauses", "options", "message"),
    [
        ("TIMESTAMP BY t", {"timestamp": "t"}, "has no change column; add CHANGE BY"),
        ("TIMESTAMP BY t CHANGE BY k", {"timestamp": "t", "change": "k"}, "CHANGE BY column 'k' is BIGINT"),
        (
            "TIMESTAMP BY t CHANGE BY o",
            {"timestamp": "t", "change": "o"},
            "CHANGE BY names an unknown column",
        ),
    ],
)
def test_relations_too(clauses: str, options: dict[str, Any], message: str) -> None:
    assert message in rejected("relation", clauses, options)


def rejected(kind: str, clauses: str, options: dict[str, Any]) -> str:
    """The sentence with which both reject an option: DDL with its position, Python with the input's name."""
    with pytest.raises(CQLError) as by_ddl:
        from_ddl(clauses, kind)
    with pytest.raises(CatalogError) as by_python:
        cql.input_options(kind, "S", SCHEMA, **options)
    where, sentence = str(by_ddl.value).split(": ", 1)
    assert where.startswith("line 1, column ")
    assert str(by_python.value) == f"{kind} 'S': {_in_python(sentence)}"
    return sentence


def test_time_of_arrival() -> None:
    assert from_ddl("TIMESTAMP BY arrival") == InputOptions(TIMESTAMP_TIME, arrival=True)
    with pytest.raises(CQLError, match="unknown column 'arrival'"):
        from_ddl("TIMESTAMP BY `arrival`")
    own = pa.schema([("arrival", pa.int64())])
    assert cql.input_options("stream", "S", own, timestamp="arrival") == InputOptions(timestamp="arrival")


def test_adapted_bounds_have_a_limit() -> None:
    auto = from_ddl("TIMESTAMP BY at DISORDER AUTO")
    assert (auto.adaptive, auto.skew) == (True, 600_000_000)
    assert from_ddl("TIMESTAMP BY t DISORDER AUTO UP TO 2 MINUTES").skew == 120


def test_a_length_is_not_a_clause() -> None:
    for text in ("5 RATE 3 ROWS PER SECOND", "5; DROP TABLE T", "5 FROM RATE"):
        with pytest.raises(CatalogError, match="is not a length of time"):
            cql.input_options("stream", "S", SCHEMA, timestamp="t", skew=text)


def test_python_is_answered_in_python() -> None:
    wrong = [
        ({"timestamp": "x"}, "timestamp names an unknown column 'x'"),
        ({"timestamp": "t", "skew": -1}, "disorder -1 is out of bounds"),
        ({"timestamp": "t", "bad_rows": "skip"}, "bad_rows takes 'error' or 'count'"),
        ({"timestamp": "t", "idle_after": 0}, "idle_after 0 is out of bounds"),
        ({}, "'S' has no timestamp; give timestamp with the column that holds the time"),
    ]
    for options, message in wrong:
        with pytest.raises(CatalogError, match=message):
            cql.input_options("stream", "S", SCHEMA, **options)


def test_a_relation_has_columns_of_its_own() -> None:
    log = pa.schema([("t", pa.int64()), ("op", pa.string())])
    with pytest.raises(CatalogError, match="has no column but its time and its changes"):
        cql.input_options("relation", "R", log, timestamp="t", change="op")


def test_every_option_is_checked_and_can_be_parsed() -> None:
    options = {f.name for f in fields(InputOptions)}
    assert set(CHECKS) | {"time", "timestamp", "arrival", "constraints"} == options
    assert options <= set(InputDefinition.arg_types)
