"""What two queries have in common that were written differently: the same meaning, and the same result."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from checking import Skip
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from strategies import Case, Choices, draw_case

from penstock import cql, evaluation
from penstock.catalog import Input, InputOptions, TableDef
from penstock.errors import PenstockError
from penstock.plan import compile
from penstock.plan.meaning import meaning
from penstock.schema import TimeDomain

ROW = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
CATALOG: dict[str, Any] = {n: Input(n, ROW, InputOptions(timestamp="t")) for n in ("S", "T")}
CATALOG["U"] = TableDef("U", pa.schema([("k", pa.int64()), ("w", pa.int64())]))
JOINED = "SELECT S.k, T.v FROM S [RANGE 60], T [RANGE 9] WHERE S.k = T.k AND S.v > 1"
COUNTS = "SELECT k, COUNT(*) AS n, SUM(v) AS t FROM S [ROWS 9] GROUP BY k"


def places(query: str, other: str) -> list[int] | None:
    first, second = (meaning(cql.bind(text, CATALOG)) for text in (query, other))
    return first.places_in(second)


@pytest.mark.parametrize(
    ("query", "other", "order"),
    [
        (
            JOINED,
            "select b.v AS y, a.k from S [range 1 MINUTE] a, T [range 9] b where 1 < a.v AND b.k = a.k",
            "10",
        ),
        (
            JOINED,
            "SELECT S.k, T.v FROM S [RANGE 60] JOIN T [RANGE 9] ON S.k = T.k WHERE TRUE AND S.v > 1",
            "01",
        ),
        (COUNTS, "SELECT SUM(v), COUNT(*), k AS key FROM S [ROWS 9] GROUP BY k", "210"),
        ("SELECT DISTINCT k, v FROM S [ROWS 5]", "SELECT DISTINCT v, k FROM S [ROWS 5]", "10"),
        ("SELECT ISTREAM(k, v) FROM S [ROWS 5]", "SELECT ISTREAM(v, k) FROM S [ROWS 5]", "10"),
        ("SELECT k, k, v FROM S [ROWS 5]", "SELECT k, v, k FROM S [ROWS 5]", "021"),
        ("SELECT k FROM S [NOW] WHERE v IN (1, 2, 1)", "SELECT k FROM S [RANGE 0] WHERE v IN (2, 1)", "0"),
        ("SELECT k FROM S [NOW] WHERE v > 1 OR k <= 2", "SELECT k FROM S [NOW] WHERE 2 >= k OR 1 < v", "0"),
        (
            "SELECT k FROM S [PARTITION BY k, v ROWS 2] WHERE v BETWEEN 1 AND 3",
            "SELECT k FROM S [PARTITION BY v, k ROWS 2] WHERE v <= 3 AND 1 <= v AND v >= 1",
            "0",
        ),
        (
            "SELECT x.n FROM (SELECT k, COUNT(*) AS n FROM S [ROWS 5] GROUP BY k) x WHERE x.n > 1",
            "SELECT y.m FROM (SELECT COUNT(*) AS m, k FROM S [ROWS 5] GROUP BY k) y WHERE 1 < y.m",
            "0",
        ),
    ],
)
def test_spellings_of_one_meaning(query: str, other: str, order: str) -> None:
    assert places(query, other) == [int(digit) for digit in order]
    assert places(query, query) == list(range(len(order)))


SUBQUERIES = ", ".join(f"(SELECT k, COUNT(*) AS n FROM {s} [ROWS 5] GROUP BY k) {s}" for s in "ST")


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        (f"SELECT S.n FROM {SUBQUERIES} WHERE S.k = T.k", "SELECT S.n", "SELECT T.n"),
        ("SELECT k, v FROM S [ROWS 5] UNION SELECT k, v FROM T [ROWS 5]", "k, v FROM S", "v, k FROM S"),
        ("SELECT a.k FROM S [ROWS 5] a, S [ROWS 6] b WHERE a.k = b.v", "SELECT a.k", "SELECT b.k"),
        ("SELECT k FROM S [ROWS 5] WHERE v > 3", "v > 3", "v >= 3"),
        ("SELECT k FROM S [ROWS 5] WHERE v > 3", "v > 3", "v < 3"),
        ("SELECT k FROM S [ROWS 5] WHERE k - v > 3", "k - v", "v - k"),
        ("SELECT k FROM S [ROWS 5] ORDER BY k, v LIMIT 3", "k, v", "v, k"),
        ("SELECT k, s FROM S [ROWS 5] ORDER BY v LIMIT 3", "k, s", "s, k"),
        ("SELECT k FROM S [ROWS 5] WHERE v > 3 AND k > 1", "AND", "OR"),
        ("SELECT k, STRING_AGG(s, 'S.x') AS t FROM S [ROWS 5] GROUP BY k", "'S.x'", "'T.x'"),
        ("SELECT COUNT(k) FROM S [ROWS 5]", "COUNT(k)", "COUNT(DISTINCT k)"),
        ("SELECT COUNT(*) FROM S [TUMBLE 5 SECONDS]", "TUMBLE 5", "TUMBLE 6"),
        ("SELECT S.k FROM S [ROWS 5] LEFT JOIN T [ROWS 5] ON S.k = T.k", "LEFT", "RIGHT"),
        ("SELECT k FROM S [ROWS 5] WHERE k IN (SELECT k FROM U)", "IN", "NOT IN"),
        ("SELECT ISTREAM(k, v) FROM S [ROWS 5]", "k, v", "k"),
        ("SELECT k FROM S [ROWS 5]", "SELECT k FROM S [ROWS 5]", "SELECT DISTINCT k FROM S [ROWS 5]"),
    ],
)
def test_meanings_that_differ(query: str, old: str, new: str) -> None:
    assert old in query and places(query, query.replace(old, new)) is None


TURNED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.And: exp.And
}  # fmt: skip


def rewritten(query: Any, random: Random) -> Any:
    """The same query in other words."""
    changed = query.copy()
    for node in list(changed.walk(bfs=False)):
        if type(node) in TURNED and random.random() < 0.6:
            left, right = node.args["this"], node.args["expression"]
            turned = TURNED[type(node)](this=right.copy(), expression=left.copy())
            node.replace(turned)
    for where in changed.find_all(exp.Where):
        if random.random() < 0.5:
            where.set("this", exp.And(this=exp.true(), expression=exp.paren(where.this.copy())))
    top = changed
    # The ties of ORDER BY go by the order of the columns.
    if type(top) is exp.Select and not top.find(exp.Star, exp.Window, exp.Order):
        items = list(top.expressions)
        random.shuffle(items)
        top.set("expressions", items)
    return changed


def coarser(query: Any, random: Random) -> Any:
    """A query that is nearly the same: one comparison is another one."""
    changed = query.copy()
    found = [n for n in changed.walk() if type(n) in (exp.GT, exp.LT, exp.GTE, exp.LTE)]
    if not found:
        raise Skip("nothing to change")
    node, other = random.choice(found), random.choice((exp.GT, exp.LT, exp.GTE, exp.LTE, exp.NEQ))
    node.replace(other(this=node.this.copy(), expression=node.expression.copy()))
    return changed


def results(case: Case, finite: Any, query: Any) -> list[Any]:
    """The changes in the order of columns."""
    plan = compile(cql.bind(query, finite.catalog()), 1)
    found = evaluation._run(plan, finite, case.until, 2)
    return [(ts, op, list(row.values())) for ts, op, row in found]


def same(case: Case, finite: Any, one: Any, other: Any, order: list[int]) -> None:
    """Whether two queries have the same result, with the other's columns at these places."""
    expected = [(ts, op, [row[n] for n in order]) for ts, op, row in results(case, finite, other)]
    assert sorted(map(repr, results(case, finite, one))) == sorted(map(repr, expected))


def drawn(seed: int) -> Iterator[tuple[Case, Any, Any, Random]]:
    random = Random(seed)
    case = draw_case(Choices((), Random(seed)))
    statement = cql.parse(case.cql)[-1]
    if len(cql.parse(case.cql)) == 1 and case.unit == "seconds":
        finite = evaluation.read_inputs(case.inputs, case.schemas, TimeDomain(), case.constraints)
        yield case, finite, statement.expression, random


@given(st.integers(0, 2**32))
def test_random_spellings_mean_the_same(seed: int) -> None:
    for case, finite, query, random in drawn(seed):
        try:
            other = rewritten(query, random)
            bound, again = (cql.bind(q, finite.catalog()) for q in (query, other))
        except (PenstockError, Skip):
            return
        order = meaning(again).places_in(meaning(bound))
        assert order is not None, f"{case.cql}\n{meaning(bound).text}\n{meaning(again).text}"
        same(case, finite, other, query, order)


@given(st.integers(0, 2**32))
def test_what_is_taken_for_the_same_is_the_same(seed: int) -> None:
    for case, finite, query, random in drawn(seed):
        try:
            other = coarser(rewritten(query, random), random)
            bound, again = (cql.bind(q, finite.catalog()) for q in (query, other))
        except (PenstockError, Skip):
            return
        order = meaning(again).places_in(meaning(bound))
        if order is not None:
            same(case, finite, other, query, order)
