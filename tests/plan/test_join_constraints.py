"""Which constraints a join exploits, and what explain says of them."""

from __future__ import annotations

import pytest

import penstock
from penstock.errors import CatalogError
from penstock.evaluation import plan_of, read_inputs
from penstock.plan.explain import explain
from penstock.schema import TimeDomain

ROWS = {
    "A": [(1, {"k": 1, "v": 1})],
    "B": [(1, {"k": 1, "v": 1})],
    "C": [(1, {"k": 1, "v": 1})],
    "D": [{"k": 1}],
}
KEYS = {"A": "PRIMARY KEY (k) REFERENCES B (k) WITHIN 5 SECONDS", "B": "PRIMARY KEY (k) REFERENCES A (k)"}


def explained(query: str, constraints: dict[str, str], partitions: int = 1) -> str:
    finite = read_inputs(ROWS, {}, TimeDomain("integer", "seconds"), constraints)
    return explain(plan_of(query, finite.catalog(), [], partitions), costs=False)


def test_a_join_without_windows_is_bounded() -> None:
    query = "SELECT A.v FROM A, B WHERE A.k = B.k"
    assert "grows without end" in explained(query, {})
    text = explained(query, KEYS)
    assert "grows without end" not in text
    assert "[join graph A -> B: a directed tree with root A]" in text
    assert "A once no match can come or all their results are found; B once no match can come or all" in text
    assert "constraints" not in explained(f"SET penstock.constraints = 'off'; {query}", KEYS)


def test_keys_of_queries_close_nothing() -> None:
    query = (
        "SELECT A.v FROM A [PARTITION BY k ROWS 1], (SELECT DISTINCT k FROM B [RANGE 9]) b WHERE A.k = b.k"
    )
    assert "join graph" not in explained(query, {})
    text = explained(query, {"A": "ORDERED BY (k)"})
    assert "A has one row per k at any instant; b has one row per k at any instant" in text
    assert "rows are dropped: A at their end; b once no match can come" in text


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "SELECT A.v FROM A, B, C WHERE A.k = B.k AND B.v = C.v AND A.v = C.k",
            "cyclic: rows are dropped along",
        ),
        ("SELECT A.v FROM A, B, C WHERE A.k = B.k AND B.v = C.v", "B - C: not all joins are many-one"),
        ("SELECT A.v FROM A, B, C WHERE A.k = B.k AND B.v < C.v", "equalities do not link all inputs"),
        (
            "SELECT A.v FROM A, B, D WHERE A.k = B.k AND B.k = D.k",
            "not used: a join with tables keeps all rows",
        ),
        (
            "SELECT A.v FROM A, B WHERE A.v = B.v",
            "not used: PRIMARY KEY of A: not all of its columns are joined",
        ),
    ],
)
def test_what_else_applies_is_said(query: str, says: str) -> None:
    assert says in explained(query, KEYS)


def test_clusters_by_rows_need_the_split_by_their_column() -> None:
    query = "SELECT A.v FROM A, B, C WHERE A.k = B.k AND A.v = C.v"
    text = explained(query, {"A": "CLUSTERED BY (k) WITHIN 5 ROWS"}, partitions=4)
    assert "not used: A is clustered by k within 5 rows: the stream is not split by that column alone" in text
    alone = explained("SELECT A.v FROM A, B WHERE A.k = B.k", {"A": "CLUSTERED BY (k) WITHIN 5 ROWS"}, 4)
    assert "not used" not in alone and "places of all rows to all" in alone


def test_an_unknown_column_of_the_target() -> None:
    with pytest.raises(CatalogError, match="REFERENCES names column 'x', which 'B' does not have"):
        explained("SELECT A.v FROM A, B WHERE A.k = B.k", {"A": "FOREIGN KEY (k) REFERENCES B (x)"})


def test_a_reference_to_a_column_of_another_type() -> None:
    rows = {name: [(1, {"k": 1, "s": "1"})] for name in "AB"}
    declared = {"A": "FOREIGN KEY (k) REFERENCES B (s)"}
    with pytest.raises(CatalogError, match="relates 'k', which is .*, to 's' of 'B', which is STRING"):
        penstock.evaluate("SELECT A.k FROM A, B WHERE A.k = B.k", rows, constraints=declared)


def test_a_false_constraint_only_loses_results() -> None:
    rows = {"A": [(t, {"k": t}) for t in range(9)], "B": [(t + t % 4, {"k": t}) for t in range(9)]}
    query = "SELECT A.k FROM A, B WHERE A.k = B.k"
    every = penstock.evaluate(query, rows, batches=9)
    some = penstock.evaluate(query, rows, batches=9, constraints={"A": "REFERENCES B (k)"})
    assert {tuple(r[2].values()) for r in some} <= {tuple(r[2].values()) for r in every}
