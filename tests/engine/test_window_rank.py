"""Ranks within groups whose columns say when rows enter and leave: computed once, and nothing is kept."""

from __future__ import annotations

import pytest
from checking import check, check_manner
from local_host import Manner, plan_of, run
from test_window_aggregate import MANNERS, WINDOWS, case

from penstock.engine.engine import Engine
from penstock.plan.logical.rank import Rank

RANKED = "SELECT {what} FROM R [{{w}}] QUALIFY {by} OVER (PARTITION BY {groups} ORDER BY {order}) {limit}"
COUNTED = "SELECT k, window_end AS w, COUNT(*) AS n FROM R [{w}] GROUP BY k, window_end"


def ranked(
    by: str, order: str, limit: str, what: str = "k, v, s, window_end", groups: str = "window_end"
) -> str:
    return RANKED.format(what=what, by=by, groups=groups, order=order, limit=limit)


QUERIES = (
    ranked("RANK()", "v DESC", "= 1"),
    ranked("ROW_NUMBER()", "v, s, k", "<= 2"),
    ranked("ROW_NUMBER()", "s DESC, v DESC NULLS FIRST, k", "BETWEEN 2 AND 4", groups="k, window_end"),
    ranked("DENSE_RANK()", "k NULLS FIRST, s", "<= 2"),
    ranked("DENSE_RANK()", "v DESC", "= 2", "ISTREAM(k, window_start, v)", "window_start, window_end"),
    "SELECT k, v, window_end, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY v, k, s) AS n FROM R [{w}]",
    "SELECT *, RANK() OVER (PARTITION BY window_end, s ORDER BY v DESC) AS n FROM R [{w}] QUALIFY n <= 3",
    f"SELECT ISTREAM(k, n, w) FROM ({COUNTED}) AS c QUALIFY RANK() OVER (PARTITION BY w ORDER BY n DESC) = 1",
    f"SELECT w, SUM(n) FROM (SELECT n, w FROM ({COUNTED}) AS c "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY w ORDER BY n, k) <= 2) AS few GROUP BY w",
    "SELECT f.k, f.v, T.s FROM (SELECT k, v, window_end FROM R [{w}] "
    "QUALIFY RANK() OVER (PARTITION BY window_end ORDER BY v) <= 2) AS f, T [RANGE 3] WHERE f.k = T.k",
)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(len(MANNERS)))
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.some(12)
def test_results_are_those_of_the_definition(query: str, window: str, seed: int) -> None:
    one = case(query, window, seed)
    check(one, partitions=1 + seed)
    check_manner(one, MANNERS[seed])


TIES = (
    "SELECT k, v, s, window_end FROM R [{w}] "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY v DESC) <= 3",
    "SELECT s, k, window_end, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY s) AS n FROM R [{w}] "
    "QUALIFY n > 1 AND n < 5",
)


@pytest.mark.parametrize("query", TIES)
def test_ties_are_in_the_order_of_rank(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for window in WINDOWS:
        one = case(query, window, 4)
        found = sorted(run(one, Manner()), key=repr)
        with monkeypatch.context() as patch:
            patch.setattr(Rank, "_of_windows", False)
            assert found and found == sorted(run(one, Manner()), key=repr)


def operators(query: str) -> dict[str, int]:
    """The operators of a query's engine and the rows that they keep after the first rows of a run."""
    one = case(query, "TUMBLE 4", 1)
    running = Engine(plan_of(one, Manner()).stages[0].stage)
    return {e.node.name: e.operator.rows() for e in running.entities}


@pytest.mark.parametrize("query", QUERIES)
def test_it_takes_the_place_of_rank(query: str) -> None:
    assert "window-rank" in operators(query) and "rank" not in operators(query)


def test_groups_by_other_columns_change_with_their_rows() -> None:
    query = "SELECT k, v FROM R [{w}] QUALIFY RANK() OVER (PARTITION BY k ORDER BY v) = 1"
    assert "rank" in operators(query) and "window-rank" not in operators(query)
