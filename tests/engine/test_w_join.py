"""W-join: examples of the paper beyond ``fixtures/hammad.cql``, the work of each algorithm, rows kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from penstock.engine.joins.window_graph import UnconnectedError, WindowGraph
from penstock.engine.operators import w_join
from penstock.engine.operators.w_join import _WJoin
from penstock.evaluation import changes, plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.plan import explain
from penstock.schema import TimeDomain
from penstock.streamon.settings import W_JOINS, WJoinThresholds
from penstock.streamon.w_join import AdaptiveWJoin, Traffic

SWEEPS = [a for a in W_JOINS if a != "mjoin"]
Rows = dict[str, list[tuple[int, dict[str, Any]]]]


class Running:
    """A query that is fed step by step."""

    def __init__(self, cql: str, inputs: Rows) -> None:
        self._finite = read_inputs(inputs, {}, TimeDomain())
        self.plan = plan_of(cql, self._finite.catalog(), (), 1)
        self._run, self.changes = InProcessRun(self.plan, {}), list[Any]()

    def feed(self, names: str, first: int = -(1 << 60), last: int = 1 << 60) -> None:
        """Feed the rows of some streams with timestamps from ``first`` to ``last``."""
        batches = {n: self._finite.streams[n].combine_chunks().to_batches()[0] for n in names}
        stamps = {n: b.column(0).to_pylist() for n, b in batches.items()}
        steps = {n: b.filter([first <= t <= last for t in stamps[n]]) for n, b in batches.items()}
        self._take(self._run.step(steps))

    def end(self, instant: int) -> None:
        self._take(self._run.end(instant))

    def _take(self, parts: list[Any]) -> None:
        self.changes += [c for batch in parts for c in changes(batch, self.plan.schema.names)]

    @property
    def join(self) -> _WJoin:
        (found,) = (e.operator for e in self._run.engines[0][0].entities if e.node.name == "w-join")
        return found

    def kept(self) -> list[int]:
        """By input of the join, the rows that are kept."""
        return [len(stub.store) for stub in self.join._inputs.stubs]


def streams(rates: dict[str, float], seconds: int, values: int = 5, seed: int = 1) -> Rows:
    """Streams with exponential times between rows, in milliseconds, and a few values (section 4.2)."""
    die, found = Random(seed), Rows()
    for name, rate in rates.items():
        at, rows = 0.0, []
        while (at := at + 1000 * die.expovariate(rate)) < 1000 * seconds:
            rows.append((int(at), {"v": die.randrange(values)}))
        found[name] = rows
    return found


# figure 3


@pytest.mark.parametrize("algorithm", W_JOINS)
@pytest.mark.parametrize("operator", ["ISTREAM", ""])
def test_a_row_stays_while_any_other_stream_may_join_it(algorithm: str, operator: str) -> None:
    """Figure 3: e1 is more than w from b4, which is processed first, and then c2 joins it."""
    rows: Rows = {
        "A": [(12, {"n": 2})],
        "B": [(11, {"n": 2}), (25, {"n": 4})],
        "C": [(1, {"n": 1}), (14, {"n": 2})],
        "D": [(13, {"n": 2})],
        "E": [(9, {"n": 1})],
    }
    items = "A.n AS a, B.n AS b, C.n AS c, D.n AS d, E.n AS e"
    shown = f"{operator}({items})" if operator else items
    query = Running(f"SET penstock.w_join = '{algorithm}'; SELECT {shown} FROM A, B, C, D, E WINDOW 10", rows)
    query.feed("ABDE")
    query.feed("C")
    query.end(30)
    entered = [(ts, tuple(row.values())) for ts, sign, row in query.changes if sign == "+"]
    assert entered == [(14, (2, 2, 2, 2, 1))]


@pytest.mark.parametrize("algorithm", SWEEPS)
def test_a_silent_stream_stops_nobody(algorithm: str) -> None:
    """Section 3.1: results of rows that are there are shown although C has nothing new to say."""
    rows: Rows = {n: [(t, {"v": t}) for t in range(1, 9)] for n in "AB"} | {"C": [(1, {"v": 0})]}
    cql = "SELECT RSTREAM(A.v, B.v AS w, C.v AS x) FROM A, B, C DWINDOW (C, A) 4 AND DWINDOW (A, B) 0"
    query = Running(f"SET penstock.w_join = '{algorithm}'; {cql}", rows)
    query.feed("ABC")
    assert [row["v"] for _, _, row in query.changes] == [1, 2, 3, 4, 5]


# figure 11


def test_inferred_windows() -> None:
    w1, w2, w3, w4 = 3, 5, 7, 20
    edges = {(0, 1): w1, (1, 2): w2, (2, 3): w3, (1, 3): w4}
    graph = WindowGraph.closed("ABCD", edges | {(j, i): w for (i, j), w in edges.items()})
    assert graph.bounds[0][3] == graph.bounds[3][0] == min(w1 + w2 + w3, w1 + w4) == 15
    assert graph.bounds[0][2] == w1 + w2
    assert graph.bounds[1][3] == w2 + w3  # less than the given one
    with pytest.raises(UnconnectedError) as unconnected:
        WindowGraph.closed("ABCD", {(0, 2): 1, (2, 0): 1, (1, 3): 1, (3, 1): 0})
    assert unconnected.value.groups == [[0, 2], [1, 3]]


# the work of each algorithm


def worked(algorithm: str, clause: str, rows: Rows, where: str = "") -> _WJoin:
    names = ", ".join(rows)
    cql = f"SET penstock.w_join = '{algorithm}'; SELECT ISTREAM(A.v) FROM {names} {clause} {where}"
    query = Running(cql, rows)
    query.feed("".join(rows))
    return query.join


@pytest.mark.slow
def test_merging_passes_over_rows_without_partners() -> None:
    """Section 4.3: where a stream is slow, MW-join is mostly in mode 1."""
    slow = streams({"A": 100, "B": 100, "C": 1}, 20)
    nested, merged = (worked(a, "WINDOW 50", slow).work for a in ("nlw", "mw"))
    assert merged.tested < nested.tested / 4
    even = streams({"A": 30, "B": 30, "C": 30}, 10)
    nested, merged = (worked(a, "WINDOW 500", even).work for a in ("nlw", "mw"))
    assert merged.tested > 0.9 * nested.tested


def test_local_windows_leave_less_to_refine() -> None:
    """Section 5.3: windows of 800, between one pair 1000; and of 100."""
    rows = streams(dict.fromkeys("ABC", 20), 10)
    for small in (800, 100):
        clause = f"WINDOW (A, B) {small} AND WINDOW (B, C) {small} AND WINDOW (A, C) 1000"
        of_all, of_each = (worked(a, clause, rows).work for a in ("gca", "lca"))
        assert of_each.tested < of_all.tested


def test_a_hash_join_visits_only_equal_keys() -> None:
    rows = streams(dict.fromkeys("ABC", 50), 10, values=50)
    where = "WHERE A.v = B.v AND B.v = C.v"
    nested, hashed = (worked(a, "WINDOW 500", rows, where).work for a in ("nlw", "hw"))
    assert hashed.tested < nested.tested / 10


def test_a_hash_join_visits_only_rows_in_the_window_of_a_long_step() -> None:
    """Section 3.1.2: buffers have the rows of the window, however many a step brings."""
    rows = streams(dict.fromkeys("ABC", 200), 20, values=20)
    where = "WHERE A.v = B.v AND B.v = C.v"
    nested, hashed = (worked(a, "WINDOW 100", rows, where).work for a in ("nlw", "hw"))
    assert hashed.tested < nested.tested / 10


@pytest.mark.parametrize(("join", "warned"), [("LEFT", True), ("RIGHT", True), ("FULL", True), ("", False)])
def test_windows_between_the_sides_of_an_outer_join_are_warned_of(join: str, warned: bool) -> None:
    rows = streams(dict.fromkeys("AB", 2), 2)
    plan = Running(f"SELECT A.v FROM A {join} JOIN B ON A.v = B.v WINDOW 5", rows).plan
    assert any("drops the rows of the outer join" in w for w in plan.warnings) is warned


# rows kept


@pytest.mark.parametrize("algorithm", SWEEPS)
def test_a_row_is_kept_as_long_as_its_windows_say(algorithm: str) -> None:
    """By the closed graph of its stream, not by the largest window of all."""
    rows: Rows = {n: [(t, {"v": t}) for t in range(500)] for n in "ABC"}
    clause = "DWINDOW (A, B) 10 AND DWINDOW (B, C) 90 WHERE A.v = B.v AND B.v = C.v"
    cql = f"SELECT ISTREAM(A.v) FROM A, B, C {clause}"
    query = Running(f"SET penstock.w_join = '{algorithm}'; {cql}", rows)
    for first in range(0, 500, 50):
        query.feed("ABC", first, first + 49)
    # The time is 499. What ends now is kept a tick longer.
    assert query.kept() == [102, 92, 2]
    query.end(700)
    assert query.kept() == [0, 0, 0]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.some(4)
def test_no_row_is_dropped_that_may_join_and_none_is_kept_longer(seed: int) -> None:
    """Random graphs: a row of i stays exactly while a stream j may bring a row up to d(i, j) after it."""
    die = Random(seed)
    names = "ABCDE"[: die.choice((2, 3, 4, 5))]
    given, clauses = {}, []
    for j in range(1, len(names)):
        i, w, directed = die.randrange(j), die.randrange(30), die.random() < 0.4
        given |= {(i, j): w, (j, i): 0 if directed else w}
        clauses.append(f"{'DWINDOW' if directed else 'WINDOW'} ({names[i]}, {names[j]}) {w}")
    graph = WindowGraph.closed(names, given)
    rows: Rows = {n: [(t, {"v": t}) for t in sorted(die.choices(range(200), k=80))] for n in names}
    cql = f"SELECT ISTREAM(A.v) FROM {', '.join(names)} {' AND '.join(clauses)}"
    query = Running(f"SET penstock.w_join = '{die.choice(SWEEPS)}'; {cql}", rows)
    for first in range(0, 200, 20):
        query.feed(names, first, first + 19)
        came = {n: [t for t, _ in rows[n] if t < first + 20] for n in names}
        now = min((ts[-1] for ts in came.values() if ts), default=0) if all(came.values()) else 0
        # What ends now is kept a tick longer.
        needed = [sum(t + graph.reach(i) + 1 >= now for t in came[n]) for i, n in enumerate(names)]
        assert query.kept() == needed


@pytest.mark.parametrize("algorithm", SWEEPS)
def test_a_longer_window_of_a_stream_keeps_no_more(algorithm: str) -> None:
    rows: Rows = {n: [(t, {"v": t}) for t in range(500)] for n in "AB"}
    cql = "SELECT A.v FROM A [RANGE 300], B [RANGE 400] WINDOW (A, B) 10 WHERE A.v = B.v"
    query = Running(f"SET penstock.w_join = '{algorithm}'; {cql}", rows)
    for first in range(0, 500, 50):
        query.feed("AB", first, first + 49)
    # Rows of instant 499 wait until it is complete; 488 is kept a tick longer than it is needed.
    assert query.kept() == [11, 11]
    query.end(900)
    left = {row["v"]: ts for ts, sign, row in query.changes if sign == "-"}
    assert left == {v: v + 301 for v in range(500)}


# the choice


def test_the_algorithm_follows_the_streams() -> None:
    unit = WJoinThresholds(period=100, margin=1.0)
    choice = AdaptiveWJoin(("hw", "mw", "nlw"), 3, thresholds=unit)
    assert choice.looks(1)
    for located, matching, best in ((100, 1, "hw"), (0, 50, "mw"), (100, 0, "hw")):
        for _ in range(6):  # what was before is halved each time
            choice.profiler.arrived([100, 100, 100])
            choice.profiler.sampled(100, located, [100 * 200] * 3)
            choice.profiler.matched(1000, matching)
            choice.reconsider()
        assert choice.algorithm == best
    plans = [d.plan for d in choice.log.last(9)]
    assert (plans[0], plans[-1]) == ("mw", "hw")
    assert not choice.looks(1)
    assert choice.looks(100)


def test_the_algorithm_changes_while_a_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """First all streams have rows in the window and hash is best, then C has few, and merging is."""
    unit = WJoinThresholds(period=400, sample=32, margin=1.0)
    monkeypatch.setattr(w_join, "AdaptiveWJoin", partial(AdaptiveWJoin, thresholds=unit))
    rows = streams(dict.fromkeys("ABC", 100), 10, values=40)
    late = streams({"A": 200, "B": 200, "C": 1}, 20, values=2, seed=2)
    rows = {n: rows[n] + [(t + 10_000, row) for t, row in late[n]] for n in rows}
    cql = "SELECT ISTREAM(A.v) FROM A, B, C WINDOW 100 WHERE A.v = B.v AND B.v = C.v"
    found = {}
    for algorithm in ("adaptive", "nlw"):
        query = Running(f"SET penstock.w_join = '{algorithm}'; {cql}", rows)
        for first in range(0, 30_000, 1_000):
            query.feed("ABC", first, first + 999)
        found[algorithm] = sorted((ts, row["v"]) for ts, _, row in query.changes)
        if algorithm == "adaptive":
            decisions = [d.plan for d in query.join._choice.log.last(9)]
            assert "mw" in decisions and query.join._choice.algorithm == "mw"
    assert found["adaptive"] == found["nlw"] != []


def test_costs_are_those_of_the_work() -> None:
    unit = WJoinThresholds(tuple=0, scan=2, test=1, probe=0, match=1, locate=0, index_probe=0, index_match=3)
    traffic = Traffic((1, 0, 0), (0, 10, 20), 0.5, 0.1)
    assert traffic.cost("nlw", unit) == 2 * (10 + 20)
    assert traffic.cost("mw", unit) == 0.5 * (10 + 20)
    assert traffic.cost("hw", unit) == 0.1 * 10 + 0.1 * 20
    assert traffic.cost("mjoin", unit) == 3 * (0.1 * 10 + 0.1 * 20)
    stored = replace(traffic, stored=(0, 100, 20))
    assert stored.cost("mjoin", unit) == 3 * (0.1 * 100 + 0.1 * 20)


def test_a_join_without_equality_begins_by_time_and_one_with_it_by_hash() -> None:
    rows = streams(dict.fromkeys("AB", 50), 2)
    for where, first in (("", "mw"), ("WHERE A.v = B.v", "hw")):
        plan = Running(f"SELECT ISTREAM(A.v) FROM A, B WINDOW 500 {where}", rows).plan
        assert f"algorithm {first} at first" in explain(plan, costs=False)


def test_measurements_tell_the_algorithm_and_its_work() -> None:
    rows = streams(dict.fromkeys("ABC", 40), 5)
    join = worked("adaptive", "WINDOW 500", rows, "WHERE A.v = B.v AND B.v = C.v")
    found = {m.property.name: m for m in join.measure() if m.entity == "algorithm"}
    assert found["METHOD"].text == join._choice.algorithm
    assert found["TESTED"].value == join.work.tested > 0
