"""Names of result columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import Input
from penstock.cql.clauses.from_clause import Catalog
from penstock.cql.names.results import unique
from penstock.errors import UnsupportedError


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("a, S.b, A AS x, C y", ["A", "B", "x", "y"]),
        ("A + 1, (A + B) * 2, -A", ["(A + 1)", "((A + B) * 2)", "-A"]),
        ("UPPER(CAST(A AS STRING))", ["upper(CAST(A AS STRING))"]),
        ("CASE WHEN S.A > 1 THEN 1 ELSE B END", ["CASE WHEN (A > 1) THEN 1 ELSE B END"]),
        ("1, 'x', NULL, TRUE", ["1", "'x'", "NULL", "TRUE"]),
        ("*", ["A", "B", "C", "t"]),
        ("S.*, A", ["A", "B", "C", "t", "A_1"]),
        ("A, B AS a, C AS A", ["A", "a_1", "A_2"]),
        ("COUNT(*), COUNT(S.A), MAX(A + B)", ["count(*)", "count(A)", "max((A + B))"]),
    ],
)
def test_names(items: str, names: list[str], catalog: Catalog) -> None:
    assert cql.bind(f"SELECT {items} FROM S [NOW]", catalog).root.schema.names == names


def test_names_of_a_join(catalog: Catalog) -> None:
    query = "SELECT * FROM R1 [NOW] x, S1 [NOW] y, R1 [NOW] z WHERE x.A = y.A AND y.A = z.A"
    assert cql.bind(query, catalog).root.schema.names == ["A", "t", "A_1", "B", "t_1", "A_2", "t_2"]


def test_a_suffix_may_be_taken_too() -> None:
    assert unique(["A", "A_1", "A", "A"]) == ["A", "A_1", "A_2", "A_3"]


@pytest.mark.parametrize("items", ("point", "S.point", "*", "COUNT(tags)"))
def test_a_nested_column_is_refused_where_it_is_read(items: str) -> None:
    nested = {"point": pa.struct([("x", pa.int32())]), "tags": pa.map_(pa.string(), pa.string())}
    stream = Input("S", pa.schema([("a", pa.int32()), *nested.items()]))
    assert cql.bind("SELECT a FROM S", {"S": stream})
    with pytest.raises(UnsupportedError, match=r"the nested column '\w+' is not supported; select its parts"):
        cql.bind(f"SELECT {items} FROM S", {"S": stream})
