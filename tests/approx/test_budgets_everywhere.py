"""WITHIN belongs to the join it stands at: in views, derived streams and subqueries, beside tables and IN."""

from __future__ import annotations

from collections import Counter
from typing import Any

import local_host
import pytest
from local_host import Manner
from longer import LONG, sized
from strategies import Case

import penstock
from penstock.cql.query import bind, define_view
from penstock.cql.statements import CreateView, parse
from penstock.evaluation import plan_of, read_inputs
from penstock.plan import logical
from penstock.plan.explain import explain
from penstock.schema import TimeDomain

pytestmark = pytest.mark.slow  # many runs; the random queries of make test-fast have budgets too

ROWS: dict[str, list[Any]] = {
    n: [(t // 2, {"k": t * step % 17, n.lower(): t, "g": t % 2}) for t in range(sized(60, 120))]
    for n, step in (("A", 5), ("B", 3), ("C", 7))
}
ROWS["T"] = [{"k": k, "name": f"n{k}"} for k in range(6)]
SCHEMAS = {n: f"k BIGINT, {n.lower()} BIGINT, g BIGINT" for n in "ABC"} | {"T": "k BIGINT, name STRING"}
JOIN = "FROM A [RANGE 9], B [NOW] WHERE A.k = B.k"
PAIRS = f"SELECT ISTREAM(A.a, B.b) {JOIN}"
SMALL, LARGE = "WITHIN MEMORY 8 ROWS MAXIMIZE RESULTS", "WITHIN MEMORY 5000 ROWS MAXIMIZE RESULTS"

PLACES = {
    "query": "{pairs} {within}",
    "parentheses": "({pairs} {within})",
    "view": "CREATE VIEW V AS {pairs} {within}; SELECT RSTREAM(a, b) FROM V [NOW]",
    "derived stream": "CREATE STREAM V AS {pairs} {within}; SELECT RSTREAM(a, b) FROM V [NOW]",
    "view of a relation": "CREATE VIEW V AS SELECT A.a, B.b {join} {within}; SELECT ISTREAM(a, b) FROM V",
    "outside of a view": "CREATE VIEW V AS SELECT A.a, B.b {join}; SELECT ISTREAM(a, b) FROM V {within}",
    "FROM": "SELECT RSTREAM(x.a, x.b) FROM ({pairs} {within}) [NOW] AS x",
    "outside of FROM": "SELECT RSTREAM(x.a, x.b) FROM ({pairs}) [NOW] AS x {within}",
    "WITH": "WITH x AS ({pairs} {within}) SELECT RSTREAM(a, b) FROM x [NOW]",
    "IN": "SELECT RSTREAM(B.b) FROM B [NOW] WHERE (k, b) IN (SELECT B.k, B.b {join} {within})",
    "EXISTS": "SELECT RSTREAM(y.b) FROM B [NOW] AS y WHERE EXISTS (SELECT 1 {join} AND B.b = y.b {within})",
    "scalar": "SELECT RSTREAM(y.b, (SELECT COUNT(*) {join} {within}) AS n) FROM B [NOW] AS y",
    "EVERY": "RSTREAM(SELECT A.a, B.b {join} {within}) EVERY 3 SECONDS",
    "before EVERY": "RSTREAM(SELECT A.a, B.b {join}) EVERY 3 SECONDS {within}",
    "in the list": "SELECT RSTREAM(A.a, B.b) EVERY 3 {join} {within}",
    "first of a union": "SELECT A.a {join} {within} UNION ALL SELECT c FROM C [NOW]",
    "side of a union": "SELECT c FROM C [NOW] UNION ALL (SELECT A.a {join} {within})",
    "beside a table": "SELECT ISTREAM(A.a, B.b, T.name) FROM A [RANGE 9], B [NOW], T "
    "WHERE A.k = B.k AND T.k = B.k {within}",
    "through a table": "SELECT ISTREAM(A.a, B.b, T.name) FROM A [RANGE 9], B [NOW], T "
    "WHERE A.k = T.k AND T.k = B.k {within}",
    "beside IN": "SELECT ISTREAM(A.a, B.b) {join} AND A.k IN (SELECT k FROM C [RANGE 3]) {within}",
    "beside IN of a table": "SELECT ISTREAM(A.a, B.b) {join} AND A.k IN (SELECT k FROM T) {within}",
    "semijoin": "SELECT ISTREAM(A.a, B.b) FROM A [RANGE 9] JOIN B [NOW] ON A.k = B.k "
    "LEFT SEMI JOIN T ON B.k = T.k {within}",
    "slide": "SELECT A.a, B.b FROM A [RANGE 9 SLIDE 2], B [RANGE 3] WHERE A.k = B.k {within}",
    "three streams": "SELECT ISTREAM(A.a, B.b, C.c) FROM A [RANGE 5], B [RANGE 5], C [NOW] "
    "WHERE A.k = B.k AND B.k = C.k {within}",
}


def run(place: str, within: str, **how: Any) -> list[Any]:
    text = PLACES[place].format(pairs=PAIRS, join=JOIN, within=within)
    return penstock.evaluate(text, ROWS, schemas=SCHEMAS, until=sized(40, 70), **how)


def bag(changes: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter((t, sign, tuple(row.values())) for t, sign, row in changes)


@pytest.mark.parametrize("place", PLACES)
def test_a_budget_is_kept_wherever_it_stands(place: str) -> None:
    exact = bag(run(place, ""))
    assert bag(run(place, LARGE, partitions=3)) == exact
    if LONG:
        assert bag(run(place, LARGE)) == exact
    some = bag(run(place, SMALL))
    if place == "scalar":
        assert sum(row[1] for _, _, row in some) < sum(row[1] for _, _, row in exact)
    elif place != "slide":
        assert sum(some.values()) < sum(exact.values())
    if place in ("query", "view", "FROM", "beside a table", "three streams"):
        assert not some - exact


def test_a_budget_is_for_the_join_that_it_stands_at() -> None:
    """A query that joins a view with a stream has the budget for that join; the view has its own or none."""
    view = "CREATE VIEW V AS SELECT A.k, A.a, B.b FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k"
    outer = "SELECT V.a, C.c FROM V, C [NOW] WHERE V.k = C.k"
    finite = read_inputs(ROWS, SCHEMAS, TimeDomain("integer", "seconds"))

    def budgets(text: str) -> list[tuple[int, int | None]]:
        """The streams below each budgeted join, and its rows."""
        script = text.split("; ")
        catalog = finite.catalog()
        for statement in script[:-1]:
            name = statement.split()[2]
            (parsed,) = parse(statement)
            assert isinstance(parsed, CreateView)
            catalog[name] = define_view(parsed, catalog)
        root = bind(script[-1], catalog).root
        found = [n for n in logical.walk(root) if isinstance(n, logical.Budgeted)]
        return [(len(logical.leaves(n)), n.within.rows) for n in found]

    assert budgets(f"{view}; {outer} WITHIN MEMORY 9 ROWS") == [(3, 9)]
    assert budgets(f"{view} WITHIN MEMORY 7 ROWS; {outer}") == [(2, 7)]
    assert budgets(f"{view} WITHIN MEMORY 7 ROWS; {outer} WITHIN MEMORY 9 ROWS") == [(3, 9), (2, 7)]


@pytest.mark.parametrize("windows", ["[PARTITION BY k ROWS 2]", "[ROWS 4 SLIDE 2]", "[RANGE 4 SLIDE 3]"])
def test_probes_are_limited_over_every_window(windows: str) -> None:
    text = f"SELECT ISTREAM(A.a, B.b) FROM A {windows}, B [RANGE 3] WHERE A.k = B.k"
    exact = bag(penstock.evaluate(text, ROWS))
    assert bag(penstock.evaluate(f"{text} WITHIN RATE 1000 PER SECOND", ROWS)) == exact
    some = bag(penstock.evaluate(f"{text} WITHIN RATE 1 PER SECOND", ROWS))
    assert 0 < sum(some.values()) < sum(exact.values())


@pytest.mark.share(2)
@pytest.mark.parametrize("place", ["FROM", "beside a table", "three streams", "slide"])
@pytest.mark.parametrize("within", [SMALL, LARGE, "WITHIN MEMORY 8 ROWS"])
def test_steps_and_rebuilding_change_nothing(place: str, within: str) -> None:
    text = PLACES[place].format(pairs=PAIRS, join=JOIN, within=within)
    used = {n: r for n, r in ROWS.items() if f" {n}" in text}
    case = Case(text, used, {n: SCHEMAS[n] for n in used}, 70)
    cuts = (0.2, 0.5, 0.8)
    whole = bag(local_host.run(case, Manner(cuts=cuts)))
    if "MAXIMIZE" in within:
        assert bag(local_host.run(case)) == whole
    for how in ("rebuild", "snapshot", "snapshot rebuild"):
        assert bag(local_host.run(case, Manner(cuts=cuts, before=("", how, "rebuild", how)))) == whole


def test_explain_says_how_three_streams_share_a_budget() -> None:
    finite = read_inputs(ROWS, SCHEMAS, TimeDomain("integer", "seconds"))
    text = PLACES["three streams"].format(within="WITHIN MEMORY 90 ROWS MAXIMIZE RESULTS")
    shown = explain(plan_of(text, finite.catalog(), [], 1), costs=False)
    assert "WITHIN is divided equally among 2 joins of two inputs each, which is a heuristic" in shown
    assert shown.count("within memory 45 rows maximize results") == 2
