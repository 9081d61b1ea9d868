"""Long chains work whatever their length; what is nested too deeply is refused in words."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from longer import sized

import penstock
from penstock.errors import CQLError
from penstock.functions import types

S = [(1, {"a": 1, "s": "x"}), (2, {"a": 2, "s": "y"}), (4, {"a": 3, "s": "z"})]
MANY = 1_500


def rows(query: str, **more: Any) -> list[Any]:
    return [tuple(row.values()) for _, _, row in penstock.evaluate(query, {"S": S}, **more)]


def test_thousands_of_or_terms() -> None:
    terms = " OR ".join(f"a = {n} AND s = 'x'" for n in range(MANY))
    assert rows(f"SELECT a FROM S WHERE {terms}") == [(1,)]
    assert rows(f"SELECT {terms} AS found FROM S") == [(True,), (False,), (False,)]


def test_a_long_in_list_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work follows the length of the list: each item is not compared with each other one."""
    asked, temporal = [], types.is_temporal
    monkeypatch.setattr(types, "is_temporal", lambda type_: asked.append(1) or temporal(type_))
    items = ", ".join(map(str, range(2, 3_000)))
    assert rows(f"SELECT a FROM S WHERE a IN ({items})") == [(2,), (3,)]
    assert len(asked) < 10_000


class TooMuch(Exception):
    """More calls than the work is worth."""


def calls(work: Callable[[], Any], most: float = math.inf) -> int:
    """How many functions of Python are called; one call more than the most ends the work."""
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event == "call"
        if made > most:
            raise TooMuch

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


def test_twenty_outer_joins_start() -> None:
    """Each reads the one before in two ways: the work follows the operators, not the paths through them."""

    def chain(length: int) -> None:
        joins = " ".join(f"LEFT JOIN S [NOW] AS s{n} ON s{n}.a = s{n - 1}.a" for n in range(1, length + 1))
        query = f"SELECT RSTREAM(s0.a, s{length}.s) FROM S [NOW] AS s0 {joins}"
        assert rows(query) == [(1, "x"), (2, "y"), (3, "z")]

    chain(2)  # kernels that are not compiled yet are now
    few = calls(lambda: chain(5))
    calls(lambda: chain(20), most=8 * few)


def test_grouping_sets_of_many_keys() -> None:
    wide = {"W": [(1, {f"c{n}": n for n in range(64)})]}
    keys = [f"c{n}" for n in range(64)]
    query = "SELECT COUNT(*) AS n FROM W GROUP BY GROUPING SETS (({}), (c0))"
    found = penstock.evaluate(query.format(", ".join(keys[:63])), wide)
    assert [row for _, _, row in found] == [{"n": 1}] * 2
    with pytest.raises(CQLError, match="the sets of GROUP BY have 64 keys; at most 63"):
        penstock.evaluate(query.format(", ".join(keys)), wide)


@pytest.mark.slow
def test_thousands_of_and_terms() -> None:
    terms = " AND ".join(f"(a <> {n} OR s = 'y')" for n in range(2, sized(1_000, MANY)))
    assert rows(f"SELECT a FROM S WHERE {terms}") == [(1,), (2,)]


@pytest.mark.share(2)
@pytest.mark.parametrize("word", ["UNION ALL", "UNION"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_hundreds_of_unions(word: str, partitions: int) -> None:
    query = f" {word} ".join(f"SELECT a + {n} * 10 AS n FROM S [ROWS 1]" for n in range(300))
    found = penstock.evaluate(query, {"S": S[:1]}, partitions=partitions)
    assert sorted(row["n"] for _, _, row in found) == [1 + n * 10 for n in range(300)]


def test_many_texts_in_a_row() -> None:
    assert rows(f"SELECT {' || '.join(['s'] * 1_000)} AS s FROM S")[0] == ("x" * 1_000,)


@pytest.mark.parametrize("levels", [90, 101, 1_000, 20_000])
@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [
        ("(", "a", ")"),
        ("ABS(", "a", ")"),
        ("NOT ", "a = 1", ""),
        ("CASE WHEN a = 7 THEN 1 DIV a ELSE ", "a", " END"),
        ("", "a", " + 0"),
        ("- ", "a", ""),
    ],
)
@pytest.mark.some(8)
def test_nesting(opening: str, inside: str, closing: str, levels: int) -> None:
    query = f"SELECT {opening * levels}{inside}{closing * levels} AS n FROM S"
    if levels == 90:
        assert len(rows(query)) == len(S)
        return
    with pytest.raises(CQLError, match="nested more than 100 levels deep; shorten it"):
        rows(query)


def test_subqueries_and_views_below_each_other() -> None:
    query = "SELECT a FROM " + "(SELECT a FROM " * 90 + "S [ROWS 1]" + " WHERE a > 0) AS x" * 90
    assert len(rows(query)) == 5
    views = [f"CREATE VIEW v{n + 1} AS SELECT a, COUNT(*) AS c FROM v{n} GROUP BY a;" for n in range(60)]
    script = "CREATE VIEW v0 AS SELECT a FROM S [ROWS 1];" + "".join(views)
    with pytest.raises(CQLError, match="views are nested more than 50 deep"):
        rows(f"{script} SELECT a FROM v60")


@pytest.mark.parametrize("partitions", [1, 2])
def test_chains_of_with_and_of_groups(partitions: int) -> None:
    """However short each part is, the plan of all of them may be too deep."""
    parts = [
        f"t{n} AS (SELECT a + 1 AS a FROM {f't{n - 1}' if n else 'S'} WHERE a > {n})" for n in range(300)
    ]
    chain = "WITH {} SELECT a FROM t{}"
    assert rows(chain.format(", ".join(parts[:95]), 94), partitions=partitions) == [(96,), (97,), (98,)]
    groups = (
        "SELECT a FROM "
        + "(SELECT a, COUNT(*) AS n FROM " * 90
        + "S"
        + " GROUP BY a HAVING COUNT(*) > 0)" * 90
    )
    for text in (chain.format(", ".join(parts), 299), groups):
        with pytest.raises(CQLError, match="operators deep, over 200; shorten it"):
            rows(text, partitions=partitions)


def test_an_error_in_a_long_chain_is_found() -> None:
    query = " UNION ALL ".join([*["SELECT a FROM S"] * 200, "SELECT s FROM S", "SELECT a, a FROM S"])
    with pytest.raises(CQLError, match="column 'a' of UNION is BIGINT and STRING"):
        rows(query)


@pytest.mark.parametrize(
    "body", ["SELECT a FROM {0} UNION ALL SELECT a FROM {0}", "SELECT x.a FROM {0} x JOIN {0} y USING (a)"]
)
@pytest.mark.parametrize("common", [False, True])
def test_views_that_double_are_refused_at_once(body: str, common: bool) -> None:
    names = ["S", *(f"v{n}" for n in range(45))]
    pairs = list(zip(names, names[1:], strict=False))
    if common:
        query = f"WITH {', '.join(f'{new} AS ({body.format(old)})' for old, new in pairs)} SELECT a FROM v44"
    else:
        query = (
            "".join(f"CREATE VIEW {new} AS {body.format(old)}; " for old, new in pairs) + "SELECT a FROM v44"
        )
    with pytest.raises(CQLError, match="the query reads 512 streams and tables, .* over 400; use views once"):
        penstock.evaluate(query, {"S": [(1, {"a": 1})]})


def test_a_view_that_is_used_twice_is_bound_once() -> None:
    views = "CREATE VIEW v AS SELECT b.a FROM (SELECT a FROM S [RANGE 2] WHERE a > 0) AS b; "
    query = (
        views
        + "SELECT x.a, y.a AS b FROM v AS x, v AS y, (SELECT a FROM v) AS z WHERE x.a = y.a AND y.a = z.a"
    )
    found = penstock.evaluate(query, {"S": [(1, {"a": 1}), (2, {"a": 2}), (2, {"a": 0})]}, until=2)
    assert found == [(1, "+", {"a": 1, "b": 1}), (2, "+", {"a": 2, "b": 2})]
