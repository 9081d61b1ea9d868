"""RSTREAM over TIMESTAMP time: where rows go, and that every partition outputs at the instants of all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checking import check_manner, expect
from exchange_data import CATALOG, SCHEMA, data
from local_host import Manner
from strategies import Case

from penstock.cql import bind
from penstock.plan import compile, explain
from penstock.schema import TIMESTAMP_TIME

TIMED = {
    name: replace(d, options=replace(d.options, time=TIMESTAMP_TIME)) if hasattr(d, "options") else d
    for name, d in CATALOG.items()
}

AT_ONCE = {
    "SELECT RSTREAM(R.a, S.b) FROM R [RANGE 5], S [NOW] WHERE R.a = S.a AND S.b > 1": "by hash of S.a",
    "SELECT RSTREAM(R.a, S.b) FROM R [RANGE 5], S [NOW], T [RANGE 3] WHERE R.a = S.a AND S.a = T.a":
        "by hash of S.a",
    "SELECT RSTREAM(a, b) FROM R [NOW] WHERE b > 1": "by",
}  # fmt: skip
WITHOUT_PLACES = {
    "SELECT RSTREAM(a, COUNT(*) AS n) FROM R [NOW] GROUP BY a": "by hash of R.a",
    "SELECT RSTREAM(COUNT(*) AS n, b % 2 AS odd) FROM R [NOW] GROUP BY b % 2": "by row",
    "SELECT RSTREAM(R.a, S.b) FROM R [ROWS 4], S [NOW] WHERE R.a = S.a": "by hash of S.a",
    "SELECT RSTREAM(S.a, R.b) FROM S [NOW] LEFT JOIN R [RANGE 4] ON R.a = S.a": "by hash of S.a",
    "SELECT RSTREAM(a) FROM S [NOW] WHERE a NOT IN (SELECT a FROM R [RANGE 2])": "by",
    "RSTREAM(SELECT DISTINCT a FROM R [NOW] UNION SELECT b FROM S [NOW])": "by",
    "SELECT RSTREAM(a, COUNT(*) AS n) EVERY 3 FROM R [RANGE 5] GROUP BY a": "by hash of R.a",
}
TWO_STAGES = {
    "SELECT RSTREAM(COUNT(*) AS n, SUM(b) AS s) FROM R [RANGE 5]": "by row",
    "SELECT RSTREAM(COUNT(*) AS n) FROM R [RANGE 3] WHERE b > 1": "by row",
    "SELECT RSTREAM(MAX(R.b) AS m) FROM R [RANGE 3], S [RANGE 4] WHERE R.a = S.a": "by hash of S.a",
    "SELECT RSTREAM(a, b) FROM R [RANGE 4] ORDER BY b DESC NULLS LAST, a NULLS FIRST LIMIT 2": "to 6",
}
WITH_PLACES = {
    "SELECT RSTREAM(R.a, S.b) FROM R [RANGE 3], S [RANGE 3] WHERE R.a = S.a": "by hash of S.a, places",
    "SELECT RSTREAM(a, COUNT(*) AS n) FROM R [RANGE 5] WHERE b > 1 GROUP BY a": "by hash of R.a, places",
    "SELECT RSTREAM(a, b) FROM R [PARTITION BY a ROWS 2]": "places",
    "SELECT RSTREAM(a, b) FROM R [ROWS 3]": "places",
    "SELECT RSTREAM(Q.a, S.b) FROM Q, S [RANGE 2] WHERE Q.a = S.a": "by hash of S.a, places",
    "SELECT RSTREAM(a, b) FROM R [RANGE 4 SLIDE 3]": "places",
    "SELECT x.a FROM (SELECT RSTREAM(a, b) FROM R [RANGE 2]) [RANGE 3] AS x WHERE x.b > 1": "places",
    "SELECT RSTREAM(x.a) FROM (SELECT DSTREAM(a, b) FROM R [RANGE 2]) [NOW] AS x": "places",
}


def lines(query: str) -> list[str]:
    return explain(compile(bind(query, TIMED), 6), costs=False).splitlines()


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("query", [*AT_ONCE, *WITHOUT_PLACES, *WITH_PLACES, *TWO_STAGES])
@pytest.mark.parametrize("partitions", (1, 3, 6))
def test_the_answer_is_the_oracles(query: str, partitions: int) -> None:
    case = Case(query, data(2), dict.fromkeys([*"RSTUQX"], SCHEMA), 20, "timestamps")
    expected = expect(case)
    assert expected
    for before in ("", "rebuild", "snapshot, rebuild"):
        check_manner(case, Manner(partitions, (0.3, 0.6), (before,) * 4), expected)


@pytest.mark.parametrize(
    ("query", "route"), [*AT_ONCE.items(), *WITHOUT_PLACES.items(), *WITH_PLACES.items()]
)
def test_rows_are_spread(query: str, route: str) -> None:
    spread = [line for line in lines(query) if line.startswith("spark")]
    assert all("to 6 partitions" in line or "broadcast" in line for line in spread)
    assert any(route in line for line in spread)
    assert any("places" in line for line in spread) is (query in WITH_PLACES or "ROWS" in query)


@pytest.mark.parametrize("query", AT_ONCE)
def test_what_is_there_for_an_instant_is_output_at_once(query: str) -> None:
    assert any(line.strip() == "r-stream at once" for line in lines(query))
    assert not compile(bind(query, TIMED), 6).stages[0].stage.waits


@pytest.mark.parametrize(("query", "route"), TWO_STAGES.items())
def test_a_second_stage_gets_the_instants_of_the_first(query: str, route: str) -> None:
    found = lines(query)
    assert any(route in line and "places" not in line for line in found if line.startswith("spark"))
    assert any("instants with input, for the next stage" in line for line in found)
    assert any(line.startswith("stage 2  on 1 partition") for line in found)
