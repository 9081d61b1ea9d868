"""When ISTREAM of time windows shows its results: at once where equal ones cannot cancel, else later."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions, TableDef
from penstock.constraint import Constraints
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import measured
from penstock.plan import compile, explain
from penstock.plan.physical import PhysicalPlan
from penstock.schema import TimeDomain
from penstock.settings import Settings
from penstock.streamon.advice import left_out

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
JOIN = "FROM A [RANGE 2], B [RANGE 2] WHERE A.k = B.k"


def planned(query: str, skew: int = 0, key: str = "", **settings: Any) -> PhysicalPlan:
    keys = Constraints((key,) if key else ())
    catalog: dict[str, Any] = {
        n: Input(n, COLUMNS, InputOptions(timestamp="t", skew=skew, constraints=keys)) for n in "AB"
    }
    catalog["T"] = TableDef("T", COLUMNS)
    return compile(bind(query, catalog), 1, Settings(**settings))


def steps(plan: PhysicalPlan, batches: list[dict[str, list[tuple[int, int]]]]) -> list[list[tuple[int, ...]]]:
    """The results of each batch, which has (timestamp, k) by stream."""
    engine, found = Engine(plan.stages[0].stage), []
    for rows in batches:
        out = engine.step([_arrival(plan, name, pairs) for name, pairs in rows.items()]).only.batch
        found.append([(r[TS], *(r[n] for n in plan.schema.names)) for r in out.to_pylist()])
    return found


def _arrival(plan: PhysicalPlan, name: str, pairs: list[tuple[int, int]]) -> Arrival:
    ts, k = zip(*pairs, strict=True)
    columns = {TS: ts, f"{name}.k": k, f"{name}.t": ts, f"{name}.v": ts}
    schema = next(i.schema for i in plan.stages[0].stage.inputs if i.name == name)
    batch = pa.record_batch({c: pa.array(columns[c], pa.int64()) for c in (TS, *schema.names)})
    return Arrival(name, 0, batch, min(ts), max(ts))


AT_ONCE, WAITS = "at once, as results are found", "when an instant is complete"


@pytest.mark.parametrize(
    ("query", "key", "shown", "hint"),
    [
        (f"SELECT ISTREAM(A.k, A.t, B.t) {JOIN}", "", AT_ONCE, ""),
        (f"SELECT ISTREAM ALL(A.k) {JOIN}", "", AT_ONCE, ""),
        (f"SELECT ISTREAM(A.k) {JOIN}", "", WAITS, "select A.t and B.t or write ISTREAM ALL"),
        (f"SELECT ISTREAM(A.k, A.t) {JOIN}", "", WAITS, "select A.t and B.t or write ISTREAM ALL"),
        (f"SELECT ISTREAM(A.t) {JOIN} AND A.t = B.t", "", AT_ONCE, ""),
        (f"SELECT ISTREAM(A.k) {JOIN}", "k", AT_ONCE, ""),
        ("SELECT ISTREAM(A.k, B.k) FROM A [NOW], B [NOW] WHERE A.v = B.v", "k", WAITS, "select A.t and"),
        ("SELECT ISTREAM(k) FROM A [NOW]", "", AT_ONCE, ""),
        ("SELECT ISTREAM(A.k) FROM A [RANGE 2], T WHERE A.k = T.k", "", WAITS, "once, write ISTREAM ALL"),
        ("SELECT ISTREAM(DISTINCT A.k) FROM A [NOW], B [NOW] WHERE A.k = B.k", "", WAITS, ""),
    ],
)  # fmt: skip
def test_explain_says_when_results_are_shown_and_how_at_once(
    query: str, key: str, shown: str, hint: str
) -> None:
    lines = explain(planned(query, key=key), costs=False)
    assert f"shown {shown}" in lines.splitlines()[0]
    assert ("to be shown at once" in lines) == bool(hint) and hint in lines


def test_keys_count_only_while_constraints_are_used() -> None:
    off = planned(f"SELECT ISTREAM(A.k) {JOIN}", key="k", constraints="off")
    assert f"shown {WAITS}" in explain(off, costs=False)


def test_disorder_of_one_stream_makes_its_results_wait() -> None:
    assert f"shown {WAITS}" in explain(planned("SELECT ISTREAM(k) FROM A [NOW]", skew=2), costs=False)


def test_an_equal_result_that_leaves_may_be_found_later() -> None:
    """At 5 the pair of key 8 enters and that of key 7 leaves, which is found last since B is behind."""
    batches: list[dict[str, list[tuple[int, int]]]] = [
        {"A": [(2, 7), (5, 8)], "B": [(3, 8)]}, {"B": [(4, 7)]}, {"A": [(9, 1)], "B": [(9, 2)]},
    ]  # fmt: skip
    assert steps(planned(f"SELECT ISTREAM(1 AS x) {JOIN}"), batches) == [[], [], [(4, 1)]]
    assert steps(planned(f"SELECT ISTREAM ALL(1 AS x) {JOIN}"), batches) == [[(5, 1)], [(4, 1)], []]


def test_results_are_held_until_every_stream_has_gone_past_them() -> None:
    batches: list[dict[str, list[tuple[int, int]]]] = [
        {"A": [(1, 7), (5, 8)], "B": [(2, 7)]}, {"B": [(5, 8)]}, {"A": [(9, 1)], "B": [(9, 2)]},
    ]  # fmt: skip
    assert steps(planned(f"SELECT ISTREAM(A.k) {JOIN}"), batches) == [[], [(2, 7)], [(5, 8)]]
    assert steps(planned(f"SELECT ISTREAM ALL(A.k) {JOIN}"), batches) == [[(2, 7)], [(5, 8)], []]


def test_one_stream_in_order_shows_its_results_at_once_whatever_the_batches() -> None:
    plan = planned("SELECT ISTREAM(A.k) FROM A [NOW]")
    batches: list[dict[str, list[tuple[int, int]]]] = [
        {"A": [(1, 7)]}, {"A": [(2, 7)]}, {"A": [(2, 7)]}, {"A": [(3, 8)]},
    ]  # fmt: skip
    assert steps(plan, batches) == [[(1, 7)], [], [(2, 7)], [(3, 8)]]


def test_what_a_run_that_ends_here_leaves_out() -> None:
    """Two results at 5, which B has come to; the row at 9 of A waits for nothing but makes no instant."""
    plan = planned(f"SELECT ISTREAM(A.k) {JOIN}")
    engine = Engine(plan.stages[0].stage)
    assert left_out(measured(engine.measure()), TimeDomain().length) == ""
    rows = {"A": [(1, 7), (5, 8), (9, 1)], "B": [(1, 7), (5, 8), (5, 8)]}
    engine.step([_arrival(plan, name, pairs) for name, pairs in rows.items()])
    assert left_out(measured(engine.measure()), TimeDomain().length) == (
        "1 instant was not complete, and 2 results of it were held back; penstock run --complete, or "
        "SET penstock.at_end = 'complete', shows it"
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT k FROM A [RANGE 2]", "1 instant was not complete; penstock run --complete, or SET"),
        ("SELECT k, COUNT(*) FROM A [TUMBLE 10] GROUP BY k", "SET penstock.at_end = '10 SECONDS' shows them"),
        ("SELECT k, COUNT(*) FROM A [SESSION 3] GROUP BY k", "SET penstock.at_end = '3 SECONDS' shows them"),
        ("SELECT COUNT(*) FROM A [RANGE 8 SLIDE 5]", "SET penstock.at_end = '4 SECONDS' shows them"),
        ("SELECT ISTREAM ALL(k) FROM A [NOW]", ""),
    ],
)  # fmt: skip
def test_windows_that_are_not_over_name_the_time_that_ends_them(query: str, said: str) -> None:
    plan = planned(query)
    engine = Engine(plan.stages[0].stage)
    engine.step([_arrival(plan, "A", [(11, 1), (13, 2)])])
    found = left_out(measured(engine.measure()), TimeDomain().length)
    assert said in found and bool(said) == bool(found)
