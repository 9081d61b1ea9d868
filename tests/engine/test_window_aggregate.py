"""Groups whose keys say when their rows enter and leave: computed once per window, and nothing is kept."""

from __future__ import annotations

from random import Random

import pytest
from checking import check, check_manner
from local_host import Manner, plan_of
from strategies import Case

from penstock.engine.engine import Engine

WINDOWS = ("TUMBLE 4", "TUMBLE 5", "HOP 6 EVERY 2", "HOP 4 EVERY 3", "SESSION 3 PARTITION BY k")
SCHEMA = "k BIGINT, v DOUBLE, s STRING"
INNER = "SELECT k, window_end AS w, AVG(v) AS a, COUNT(*) AS n FROM R [{w}] GROUP BY k, window_end"
QUERIES = (
    "SELECT k, window_end, COUNT(*) AS n, SUM(v) AS s, MIN(s) AS m FROM R [{w}] GROUP BY k, window_end",
    "SELECT window_start, COUNT(DISTINCT k) AS n, MAX(v) AS m FROM R [{w}] GROUP BY window_start, window_end",
    f"SELECT w, SUM(n) AS cars, AVG(a) AS speed FROM ({INNER}) AS each GROUP BY w HAVING COUNT(*) > 1",
    f"SELECT ISTREAM(w, MAX(n) AS most) FROM ({INNER}) AS each GROUP BY w",
    f"DSTREAM({INNER})",
    f"SELECT g.k, g.w, g.n, T.v FROM ({INNER}) AS g, T [RANGE 3] WHERE g.k = T.k",
    f"SELECT g.k, g.w, T.v FROM ({INNER}) AS g LEFT JOIN T [ROWS 3] ON g.k = T.k",
    f"({INNER}) UNION ALL SELECT k, 0, v, 1 FROM T [RANGE 4]",
    f"SELECT DISTINCT n, w FROM ({INNER}) AS each WHERE a > 1",
)
MANNERS = (
    Manner(1, (0.3, 0.6)),
    Manner(3, (0.2, 0.5, 0.9), ("", "rebuild", "snapshot, rebuild")),
    Manner(
        2,
        (0.4, 0.41, 0.8),
        ("snapshot", "", "whole snapshot, rebuild"),
        settings=((1, "slice_rows", 2), (1, "scheduler", "chain")),
    ),
)


def case(query: str, window: str, seed: int) -> Case:
    die = Random(seed)

    def rows() -> list[tuple[int, dict[str, object]]]:
        stamps = sorted(die.randrange(1, 40) for _ in range(30))
        values = [None, 0.5, 1.0, 2.25, 7.0]
        return [
            (t, {"k": die.choice([1, 2, 3, None]), "v": die.choice(values), "s": die.choice("abc")})
            for t in stamps
        ]

    return Case(query.format(w=window), {n: rows() for n in "RT"}, dict.fromkeys("RT", SCHEMA), 50, "seconds")


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(len(MANNERS)))
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.some(12)
def test_results_are_those_of_the_definition(query: str, window: str, seed: int) -> None:
    one = case(query, window, seed)
    check(one, partitions=1 + seed)
    check_manner(one, MANNERS[seed])


def test_nothing_is_kept_of_a_window_that_is_over() -> None:
    one = case(QUERIES[2], "TUMBLE 4", 1)
    running = Engine(plan_of(one, Manner()).stages[0].stage)
    names = [e.node.name for e in running.entities]
    assert names.count("window-aggregate") == 2 and "aggregate" not in names
    assert all(e.operator.rows() == 0 for e in running.entities if e.node.name == "window-aggregate")


def test_groups_by_other_keys_change_with_their_rows() -> None:
    running = Engine(
        plan_of(case("SELECT k, COUNT(*) AS n FROM R [{w}] GROUP BY k", "TUMBLE 4", 1), Manner())
        .stages[0]
        .stage
    )
    assert "window-aggregate" not in [e.node.name for e in running.entities]
