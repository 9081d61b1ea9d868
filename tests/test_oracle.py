"""The oracle itself, on examples worked out by hand."""

from __future__ import annotations

import doctest
from typing import Any

import oracle
import oracle_text
import oracle_windows
import pytest
from hypothesis import given, reject
from strategies import Case, cases

FOUR = [(1, {"A": 1}), (2, {"A": 2}), (3, {"A": 3}), (4, {"A": 4})]


def changes(cql: str, until: int | None = None, **inputs: Any) -> str:
    """The result as text: ``+1@1`` is the row 1 that enters at 1."""
    result = sorted(oracle.evaluate(cql, inputs, until=until), key=lambda c: (c[0], c[1], str(c[2])))
    return " ".join(f"{op}{'/'.join(map(str, row.values()))}@{ts}" for ts, op, row in result)


def stream(*values: Any) -> list[tuple[int, dict[str, Any]]]:
    """Values at the instants 1, 2, ...; a tuple is (timestamp, columns A, B, ...)."""
    return [(v[0], dict(zip("ABC", v[1:], strict=False))) for v in values]


def test_rows() -> None:
    assert changes("SELECT * FROM S [ROWS 2]", S=FOUR) == "+1@1 +2@2 +3@3 -1@3 +4@4 -2@4"


def test_range_holds_both_ends() -> None:
    got = changes("SELECT * FROM S [RANGE 2 SECONDS]", until=10, S=FOUR)
    assert got == "+1@1 +2@2 +3@3 +4@4 -1@4 -2@5 -3@6 -4@7"
    assert changes("SELECT * FROM S [RANGE 2]", until=10, S=FOUR) == got
    assert changes("SELECT * FROM S [RANGE 2 SECONDS]", S=FOUR) == "+1@1 +2@2 +3@3 +4@4 -1@4"


def test_now() -> None:
    assert changes("SELECT * FROM S [NOW]", until=9, S=FOUR) == "+1@1 +2@2 -1@2 +3@3 -2@3 +4@4 -3@4 -4@5"


def test_no_window_only_grows() -> None:
    expected = "+1@1 +2@2 +3@3 +4@4"
    for text in ("S", "S [ROWS UNBOUNDED]", "S [RANGE UNBOUNDED]"):
        assert changes(f"SELECT * FROM {text}", until=20, S=FOUR) == expected


def test_partitioned_rows() -> None:
    rows = stream((1, 1, 10), (2, 2, 20), (3, 1, 11), (3, 1, 12), (4, None, 30), (5, None, 31))
    got = changes("SELECT B FROM S [PARTITION BY A ROWS 1]", S=rows)
    assert got == "+10@1 +20@2 +12@3 -10@3 +30@4 +31@5 -30@5"


def test_ties_are_in_arrival_order_and_an_instant_is_one_step() -> None:
    rows = stream((1, 1), (1, 2), (1, 3), (2, 4))
    assert changes("SELECT * FROM S [ROWS 2]", S=rows) == "+2@1 +3@1 +4@2 -2@2"


def test_groups_change_by_old_and_new() -> None:
    rows = stream((1, 1, 10), (2, 2, 5), (3, 1, 7))
    got = changes("SELECT A, SUM(B) FROM S GROUP BY A", S=rows)
    assert got == "+1/10@1 +2/5@2 +1/17@3 -1/10@3"


def test_an_aggregate_without_groups_always_has_one_row() -> None:
    rows = stream((3, 1), (4, 2))
    got = changes("SELECT COUNT(*), SUM(A) FROM S [NOW] WHERE A > 1", until=6, S=rows)
    assert got == "+0/None@3 +1/2@4 -0/None@4 +0/None@5 -1/2@5"


def test_so_it_has_if_it_is_distinct() -> None:
    rows = stream((3, 1), (4, 2))
    assert changes("SELECT DISTINCT SUM(A) FROM S [NOW] WHERE A > 1", S=rows) == "+None@3 +2@4 -None@4"


def test_moments_of_distinct_values_are_not_of_distinct_powers() -> None:
    """Of -1, 0, 1, 3: the third moment 45/32, the second 35/16."""
    inputs = {"S": [(1, {"A": a}) for a in (-1, 1, 0, 1, 3, -1)]}
    ((_, _, row),) = oracle.evaluate("SELECT SKEWNESS(DISTINCT A) AS s FROM S", inputs)
    assert row["s"] == pytest.approx(45 / 32 / (35 / 16) ** 1.5)


def test_istream_and_dstream_are_bag_differences() -> None:
    rows = stream((1, 7), (2, 7), (3, 8))
    assert changes("SELECT ISTREAM(A) FROM S [ROWS 1]", S=rows) == "+7@1 +8@3"
    assert changes("ISTREAM(SELECT A FROM S [ROWS 1])", S=rows) == "+7@1 +8@3"
    assert changes("SELECT DSTREAM(A) FROM S [ROWS 1]", S=rows) == "+7@3"
    assert changes("DSTREAM(SELECT A FROM S [NOW])", until=9, S=rows) == "+7@3 +8@4"


def test_rstream_speaks_at_every_tick() -> None:
    rows = stream((1, 7), (4, 8))
    assert changes("SELECT RSTREAM(*) FROM S [RANGE 1]", until=6, S=rows) == "+7@1 +7@2 +8@4 +8@5"
    assert changes("RSTREAM(SELECT COUNT(*) FROM S [NOW])", until=5, S=rows) == "+1@1 +0@2 +0@3 +1@4 +0@5"
    assert changes("RSTREAM(SELECT * FROM S) EVERY 2 SECONDS", until=5, S=rows) == "+7@2 +7@4 +8@4"
    assert changes("SELECT RSTREAM(A) EVERY 2 SECONDS FROM S", until=5, S=rows) == "+7@2 +7@4 +8@4"


def test_joins_and_self_joins_have_their_own_windows() -> None:
    rows = stream((1, 1), (2, 1), (3, 1))
    got = changes("SELECT x.A AS u, y.A AS v FROM S [ROWS 1] AS x, S [ROWS 2] y WHERE x.A = y.A", S=rows)
    assert got == "+1/1@1 +1/1@2"
    other = stream((2, 1, "q"))
    got = changes("SELECT T.B FROM S [NOW] JOIN T [RANGE 1] ON S.A = T.A", until=5, S=rows, T=other)
    assert got == "+q@2 -q@4"


def test_tables_and_relations() -> None:
    rows, table = stream((1, 1), (2, 2)), [{"A": 1, "B": "one"}]
    assert (
        changes("SELECT S.A, T.B FROM S [NOW], T WHERE S.A = T.A", until=4, S=rows, T=table)
        == "+1/one@1 -1/one@2"
    )
    relation = [(1, "+", {"A": 1}), (1, "+", {"A": 1}), (3, "-", {"A": 1})]
    assert changes("SELECT A FROM R", R=relation) == "+1@1 +1@1 -1@3"


def test_units_and_quoting() -> None:
    window = oracle_windows.read_window("RANGE 1 MINUTE 30 SECONDS", "milliseconds")
    assert (window.kind, window.size) == ("range", 90_000)
    query = oracle_text.take_apart("SELECT a.x, '[NOW] FROM b, c' FROM `S` [NOW] a, T WHERE f(a, T.b) >= 1.5")
    assert [(i.source, i.window) for i in query.items] == [("S", "NOW"), ("T", "")]
    assert query.sql == "SELECT a.x , '[NOW] FROM b, c' FROM {0} AS a , {1} AS T WHERE f ( a , T.b ) >= 1.5"


def test_is_distinct_from_is_no_from_clause() -> None:
    query = oracle_text.take_apart(
        "SELECT a.k FROM S [NOW] AS a JOIN T AS b ON a.k IS DISTINCT FROM b.k, U [NOW] AS c "
        "WHERE c.k IS NOT DISTINCT FROM 1 AND (a.k, b.k) IN ((1, NULL), (2, 'x'))"
    )
    assert [item.source for item in query.items] == ["S", "T", "U"]
    assert "IN" not in query.sql.split() and query.sql.count("IS NOT DISTINCT FROM") == 5


def test_what_duckdb_says_otherwise() -> None:
    said = {
        "s NOT LIKE ALL ('a%', 'b')": "( s NOT LIKE 'a%' AND s NOT LIKE 'b' )",
        "COLLECT_LIST(a ORDER BY b DESC)": "LIST ( ( a ) ORDER BY b DESC NULLS LAST , ( a ) )",
        "own_sum(DISTINCT a)": "SUM ( DISTINCT ( a ) )",
        "m AT TIME ZONE 'Asia/Kolkata' /* of a clock */": "AT TIME ZONE 'Asia/Kolkata' AT TIME ZONE 'UTC'",
    }
    for cql, sql in said.items():
        assert sql in oracle_text.take_apart(f"SELECT {cql} AS x FROM S").sql, cql


def test_differences_are_shown() -> None:
    oracle.assert_same([(1, "+", {"a": 0.1 + 0.2})], [(1, "+", {"a": 0.3})])
    with pytest.raises(AssertionError, match=r"(?s)query.*1  missing     \+ .*1.*unexpected  - "):
        oracle.assert_same([(1, "-", {"a": 1})], [(1, "+", {"a": 1})], "query")
    with pytest.raises(AssertionError, match="unexpected"):
        oracle.assert_same([(1, "+", {"a": True})], [(1, "+", {"a": 1})])


def test_docstrings() -> None:
    assert doctest.testmod(oracle).failed == 0


def test_a_window_that_depends_on_the_order_of_a_derived_streams_ties_is_refused() -> None:
    """Sorted or reversed the 3 rows before the fifth are the same ones, in other orders they are not."""
    inner = "ISTREAM(SELECT S.a FROM S)"
    at_once = {"S": [(0, {"a": a}) for a in (0, 0, 1, 1, 1, 1, 1, 1)]}
    with pytest.raises(oracle.Undetermined):
        oracle.evaluate(f"SELECT * FROM ({inner}) [ROWS 3 SLIDE 5] AS d", at_once)
    in_turn = {"S": [(t, row) for t, (_, row) in enumerate(at_once["S"])]}
    assert oracle.evaluate(f"SELECT * FROM ({inner}) [ROWS 3 SLIDE 5] AS d", in_turn)


@given(cases())
def test_all_instants_at_once_is_each_instant_alone(case: Case) -> None:
    try:
        at_once = oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until)
    except oracle.Undetermined:
        reject()
    one_by_one = oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until, at_once=False)
    oracle.assert_same(at_once, one_by_one, case)
