"""Every mistake gets its own sentence: ``wrong_queries.txt`` has queries and their exact messages.

``PENSTOCK_REWRITE=1 pytest tests/cql/test_wrong_queries.py`` rewrites them after an intended change: read the
diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock import cql
from penstock.cql.names.context import Catalog
from penstock.cql.syntax.errors import place
from penstock.errors import CQLError, UnsupportedError

FILE = Path(__file__).with_name("wrong_queries.txt")
BLOCKS = FILE.read_text().strip().split("\n\n")
CASES = [tuple(block.rsplit("\n", 1)) for block in BLOCKS if not block.startswith("#")]


def run(text: str, catalog: Catalog) -> None:
    """What a host does with a text, as far as it can go wrong here."""
    for statement in cql.parse(text):
        if isinstance(statement, cql.CreateView):
            cql.define_view(statement, catalog)
        else:
            assert isinstance(statement, cql.SelectStatement)
            cql.bind(statement, catalog)


def message(text: str, catalog: Catalog) -> str:
    with pytest.raises(CQLError) as caught:
        run(text, catalog)
    kind = "unsupported" if isinstance(caught.value, UnsupportedError) else "error"
    return f"{kind}: {caught.value}"


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_wrong_query(text: str, expected: str, catalog: Catalog) -> None:
    found = message(text, catalog)
    if os.environ.get("PENSTOCK_REWRITE") and found != expected:
        FILE.write_text(FILE.read_text().replace(f"{text}\n{expected}\n", f"{text}\n{found}\n"))
    else:
        assert found == expected


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_place_is_in_the_text(text: str, expected: str) -> None:
    line, column = (int(word.strip(",:")) for word in expected.split()[2:5:2])
    assert text.split("\n")[line - 1][column - 1 :].strip()


def test_bind_wants_one_query(catalog: Catalog) -> None:
    with pytest.raises(CQLError, match="^one query is expected here, not 2 statements$"):
        cql.bind("SELECT A FROM S; SELECT B FROM S", catalog)
    with pytest.raises(CQLError, match="^a query is expected here, not INSERT, CREATE, DROP or SET$"):
        cql.bind("DROP STREAM S", catalog)


def test_a_place_is_found_around_a_node_without_one() -> None:
    (statement,) = cql.parse("SELECT A\nFROM S WHERE B = NULL")
    assert isinstance(statement, cql.SelectStatement)
    null = statement.expression.args["where"].this.expression
    assert place(null) == (2, 14)


def test_no_terminal_escapes() -> None:
    with pytest.raises(CQLError) as caught:
        cql.parse("SELECT A FROM S WHERE (")
    assert str(caught.value).isprintable()
