"""How windows and relation-to-stream operators may be written; what they mean is in test_bind."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.cql.syntax.dialect import CQL
from penstock.cql.syntax.nodes import RelationToStream, StreamWindow


def parse(text: str) -> exp.Expr:
    (node,) = CQL().parse(text)
    assert node is not None
    return node


def window(item: str) -> tuple[str, str | None]:
    table = parse(f"SELECT * FROM {item}").args["from_"].this
    node = table.args.get("window")
    assert isinstance(node, StreamWindow)
    return node.args["text"], table.alias or None


@pytest.mark.parametrize(
    ("item", "text", "alias"),
    [
        ("S [ROWS 2]", "[ROWS 2]", None),
        ("S [rows unbounded]", "[rows unbounded]", None),
        ("S[Range 10 Minutes]", "[Range 10 Minutes]", None),
        ("S [ RANGE  UNBOUNDED ]", "[ RANGE UNBOUNDED ]", None),
        ("S [RANGE 5]", "[RANGE 5]", None),
        ("S [Now]", "[Now]", None),
        ("S [PARTITION BY a, b ROWS 3]", "[PARTITION BY a, b ROWS 3]", None),
        ("S [ROWS 2] AS x", "[ROWS 2]", "x"),
        ("S [ROWS 2] x", "[ROWS 2]", "x"),
        ("S AS x [ROWS 2]", "[ROWS 2]", "x"),
        ("S x [ROWS 2]", "[ROWS 2]", "x"),
        ("`S` [NOW] AS `an x`", "[NOW]", "an x"),
        ("(SELECT ISTREAM(*) FROM S) [ROWS 2] AS x", "[ROWS 2]", "x"),
    ],
)
def test_windows(item: str, text: str, alias: str | None) -> None:
    assert window(item) == (text, alias)


def test_windows_of_every_item() -> None:
    query = parse("SELECT * FROM A [NOW], B [ROWS 1] b JOIN C [ROWS 2] AS c ON TRUE CROSS JOIN D d [ROWS 3]")
    items = [query.args["from_"].this, *(j.this for j in query.args["joins"])]
    assert [i.args["window"].args["text"] for i in items] == ["[NOW]", "[ROWS 1]", "[ROWS 2]", "[ROWS 3]"]
    assert [j.kind for j in query.args["joins"]] == ["", "", "CROSS"]


@pytest.mark.parametrize("kind", ["ISTREAM", "Dstream", "rstream"])
def test_operator_around_the_list(kind: str) -> None:
    query = parse(f"SELECT {kind}(a, b AS c, *, S.*, MAX(d)) FROM S")
    (operator,) = query.expressions
    assert isinstance(operator, RelationToStream)
    assert operator.args["kind"] == kind.lower()
    assert [e.sql() for e in operator.expressions] == ["a", "b AS c", "*", "S.*", "MAX(d)"]


def test_operator_around_the_query() -> None:
    operator = parse("RSTREAM(SELECT * FROM S [ROWS 2] WHERE a > 1) EVERY 1 SECOND")
    assert isinstance(operator, RelationToStream)
    assert isinstance(operator.this, exp.Select)
    assert operator.args["every"] is not None


def test_brackets_elsewhere_stay_sql() -> None:
    query = parse("SELECT a[0] FROM S")
    assert isinstance(query.expressions[0], exp.Bracket)


def test_names_of_operators_are_no_keywords() -> None:
    query = parse("SELECT istream, S.now, rows FROM S")
    assert [e.name for e in query.expressions] == ["istream", "now", "rows"]
