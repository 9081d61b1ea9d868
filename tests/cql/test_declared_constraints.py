"""Constraints in DDL and in Python: what is accepted, and what is rejected with which words."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import Catalog, Input, InputOptions, TableDef
from penstock.constraint import Within
from penstock.errors import CatalogError, CQLError
from penstock.schema import TimeDomain

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string()), ("ts", pa.int64())])


def declared(text: str, kind: str = "stream") -> str:
    return str(cql.constraints_of(text, "S", SCHEMA, TimeDomain("integer", "seconds"), kind))


@pytest.mark.parametrize(
    "text",
    [
        "PRIMARY KEY (a)",
        "PRIMARY KEY (a, b)",
        "FOREIGN KEY (a) REFERENCES T (k) WITHIN 500 rows",
        "FOREIGN KEY (a, b) REFERENCES T (k, l) WITHIN 0 SECONDS",
        "CLUSTERED BY (s) WITHIN 3 rows",
        "ORDERED BY (b) WITHIN 1 row CLUSTERED BY (a) WITHIN 0 rows",
    ],
)
def test_clauses(text: str) -> None:
    assert sorted(declared(text).split()) == sorted(text.split())


def test_times_names_and_defaults() -> None:
    reference = "FOREIGN KEY (a) REFERENCES T (A) WITHIN 2 MINUTES"
    assert declared("REFERENCES T (A) WITHIN 120 SECONDS") == reference
    assert declared("ORDERED BY (B)") == "ORDERED BY (b) WITHIN 0 SECONDS"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PRIMARY KEY (z)", "PRIMARY KEY names an unknown column 'z'"),
        ("PRIMARY KEY (a) PRIMARY KEY (b)", "PRIMARY KEY stands twice"),
        ("REFERENCES T", "REFERENCES takes a stream and its columns"),
        ("FOREIGN KEY (a, b) REFERENCES T (k)", "names 1 columns of 'T' for 2"),
        ("FOREIGN KEY (a)", "a reference is written as FOREIGN KEY"),
        ("ORDERED BY (a, b)", "take one column in parentheses"),
        ("ORDERED BY (s)", "ORDERED BY column 's' is STRING; it must be an integer, a DATE or a TIMESTAMP"),
        ("CLUSTERED BY (a) WITHIN x ROWS", "WITHIN takes a number"),
        ("CLUSTERED BY (a) WITHIN 1.5 ROWS", "1.5 ROWS is not a number of rows"),
        ("CLUSTERED BY (a) WITHIN -5 ROWS", "-5 ROWS is not a number of rows"),
        ("CLUSTERD BY (a) WITHIN 5 ROWS", "unknown clause CLUSTERD BY; did you mean CLUSTERED BY?"),
        (
            "CLUSTERED BY (a) WITHIN 5",
            "CLUSTERED BY ... WITHIN 5 has no unit; write 5 ROWS, or a length of time",
        ),
        ("HEAVY a IN (1)", "constraints of 'S' are clauses such as PRIMARY KEY"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises((CQLError, CatalogError), match=message):
        declared(text)


def test_a_relation_has_a_key_only() -> None:
    assert declared("PRIMARY KEY (a)", "relation") == "PRIMARY KEY (a)"
    with pytest.raises(CatalogError, match="about the order in which rows arrive; declare it of a stream"):
        declared("ORDERED BY (a)", "relation")


def test_from_python() -> None:
    options = cql.input_options(
        "stream", "S", SCHEMA, timestamp="ts", primary_key="a", ordered_by="b",
        references={"a": ("B", "pid", "2 seconds"), ("a", "b"): ("C", ("x", "y"), "5 rows")},
        clustered_by={"a": "7 rows"},
    )  # fmt: skip
    found = options.constraints
    assert found.primary_key == ("a",)
    assert [r.within for r in found.references] == [Within(2), Within(5, by_rows=True)]
    assert [(a.kind, a.within) for a in found.arrivals] == [
        ("clustered", Within(7, by_rows=True)),
        ("ordered", Within()),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"references": {"a": "B"}}, "references maps columns to"),
        (
            {"ordered_by": {"a": "soon"}},
            "ordered_by: 'soon' is neither a number of rows nor a length of time",
        ),
        ({"ordered_by": {"a": 5}}, "ordered_by ... WITHIN 5 has no unit; write 5 ROWS, or a length"),
        ({"primary_key": "q"}, "primary_key names an unknown column 'q'"),
    ],
)
def test_mistakes_in_python(given: dict, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        cql.input_options("stream", "S", SCHEMA, timestamp="ts", **given)


def test_a_reference_to_what_does_not_exist_is_told_by_the_query() -> None:
    time, catalog = TimeDomain("integer", "seconds"), Catalog()
    for name, target in (("Orders", "Payment"), ("Payments", "orders")):
        obeyed = cql.constraints_of(f"REFERENCES {target} (a) WITHIN 5 ROWS", name, SCHEMA, time, "stream")
        catalog.add(Input(name, SCHEMA, InputOptions(time, constraints=obeyed)))
    (told,) = cql.bind("SELECT Orders.a FROM Orders, Payments WHERE Orders.a = Payments.a", catalog).warnings
    assert told == (
        "stream 'Orders' REFERENCES 'Payment', which does not exist, so the constraint is not used; "
        "did you mean 'Payments'?"
    )
    catalog.add(TableDef("Payment", SCHEMA))
    (told,) = cql.bind("SELECT a FROM Orders", catalog).warnings
    assert "which is a table, so the constraint is not used" in told
    assert not cql.bind("SELECT a FROM Payments", catalog).warnings


def test_a_constraint_before_a_mistake_is_not_taken_for_a_join() -> None:
    declared = "REFERENCES U (a) WITHIN 3 ROWS PRIMARY KEY (a) PRIMARY KEY (b)"
    with pytest.raises(CQLError, match="PRIMARY KEY stands twice; write PRIMARY KEY"):
        cql.parse(f"CREATE STREAM S (a INT, b INT, t INT) TIMESTAMP BY t {declared} FROM PARQUET 's'")
