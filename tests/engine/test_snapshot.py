"""Snapshots: plain values, a format for each operator; a restored engine goes on as it was."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from inspect import isabstract
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from local_host import Partition
from longer import LONG, sized
from restless import collecting_always

from penstock.engine import snapshot
from penstock.engine.element import Chunk, batch_of
from penstock.engine.engine import Engine
from penstock.engine.operator import Operator
from penstock.engine.snapshot import SnapshotError, Stateful, decode, encode
from penstock.engine.stage import TS, Arrival, Snapshot, StepOutput
from penstock.engine.synopses.store import Store
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.schema import TimeDomain

SECONDS = TimeDomain("integer", "seconds")
QUERIES = {
    "select, project": "SELECT k + 1 AS l FROM A WHERE n > 2",
    "time window": "SELECT k FROM A [RANGE 7]",
    "sliding time window": "SELECT k, s FROM A [RANGE 7 SLIDE 5]",
    "tumbling window": "SELECT s, window_end, COUNT(*) AS c FROM A [TUMBLE 7] GROUP BY s, window_end",
    "hopping window": "SELECT k, window_start FROM A [HOP 7 EVERY 3]",
    "session window": "SELECT ISTREAM(s, window_start, COUNT(*) AS c) FROM A [SESSION 3 PARTITION BY s] "
    "GROUP BY s, window_start",
    "row window": "SELECT k, s FROM A [ROWS 5]",
    "sliding row window": "SELECT k FROM A [ROWS 5 SLIDE 3]",
    "partitioned window": "SELECT k, s FROM A [PARTITION BY s ROWS 2] WHERE k > 3",
    "aggregates that grow": "SELECT s, COUNT(*) AS n, SUM(x) AS x, MIN(s2) AS m, MAX(d) AS d FROM A "
    "GROUP BY s",
    "aggregates that change": "SELECT s, AVG(x) AS x, MIN(s2) AS a, MAX(n) AS b, VARIANCE(x) AS v, "
    "STDDEV_POP(n) AS w, SUM(d) AS d FROM A [ROWS 9] GROUP BY s",
    "distinct values": "SELECT s, COUNT(DISTINCT k) AS c, SUM(DISTINCT x) AS t FROM A [RANGE 9] GROUP BY s",
    "one group": "SELECT COUNT(*) AS c, SUM(d) AS d FROM A [RANGE 2]",
    "distinct": "SELECT DISTINCT k, s FROM A [RANGE 6]",
    "distinct that grows": "SELECT DISTINCT k FROM A",
    "except": "SELECT k FROM A [RANGE 6] EXCEPT ALL SELECT k FROM B [ROWS 4]",
    "intersect": "SELECT k FROM A [ROWS 6] INTERSECT SELECT k FROM B [RANGE 9]",
    "union": "SELECT k FROM A [ROWS 6] UNION ALL SELECT k FROM B",
    "antijoin": "SELECT A.k, A.n FROM A [RANGE 6] WHERE NOT EXISTS "
    "(SELECT 1 FROM B [ROWS 3] WHERE B.k = A.k)",
    "outer join": "SELECT A.k, B.s FROM A [ROWS 6] LEFT JOIN B [RANGE 4] ON A.k = B.k",
    "w-join": "SELECT x.n, y.n AS m FROM A AS x, A AS y, B DWINDOW (x, y) 3 AND WINDOW (y, B) 2 "
    "WHERE x.s = y.s",
    "join": "SELECT A.n, B.n AS m FROM A [RANGE 9], B [RANGE 5] WHERE A.s = B.s",
    "join of row windows": "SELECT A.n, B.s FROM A [ROWS 7], B [ROWS 5] WHERE A.k = B.k",
    "join of all rows": "SELECT A.k, B.s FROM A, B WHERE A.k = B.k",
    "istream of a join": "SELECT ISTREAM(A.k, B.s) FROM A [RANGE 5], B [RANGE 8] WHERE A.k = B.k",
    "istream": "SELECT ISTREAM(k) FROM A [ROWS 4]",
    "dstream": "SELECT DSTREAM(k, s) FROM A [RANGE 4]",
    "rstream": "SELECT RSTREAM(k) FROM A [ROWS 2]",
    "scalar subquery": "SELECT k FROM A [RANGE 5] WHERE n > (SELECT AVG(n) FROM B [ROWS 4])",
    "row window over a derived stream": "SELECT x.k, x.m FROM (SELECT ISTREAM(A.k, B.n AS m) "
    "FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k) [ROWS 4 SLIDE 3] AS x",
    "window over a derived stream": "SELECT COUNT(*) AS c FROM (SELECT DSTREAM(k) FROM A [ROWS 3]) [RANGE 6]",
    "table": "SELECT A.k, T.name FROM A [RANGE 5], T WHERE A.k = T.k",
    "distinct of a table": "SELECT A.k FROM A [ROWS 5] WHERE A.k IN (SELECT k FROM T)",
    "look-up": "SELECT A.k, T.name FROM A LEFT JOIN T ON A.k = T.k",
    "look-up of values": "SELECT A.k FROM A WHERE A.k NOT IN (SELECT k FROM T)",
    "table with a stream": "SELECT A.n, T.name FROM T LEFT JOIN A ON A.k = T.k",
    "relation": "SELECT R.name, COUNT(*) AS c FROM R, A [RANGE 5] WHERE R.k = A.k GROUP BY R.name",
    "first rows": "SELECT k, s2 FROM A [RANGE 7] ORDER BY s, x DESC LIMIT 3 OFFSET 1",
    "first rows that grow": "SELECT s, d FROM A ORDER BY d DESC LIMIT 3",
    "ranks": "SELECT n, RANK() OVER (PARTITION BY s ORDER BY s2 DESC) AS r FROM A [ROWS 9]",
    "rollup": "SELECT s, k, COUNT(*) AS c, SUM(x) AS x FROM A [ROWS 9] GROUP BY ROLLUP (s, k)",
    "join that drops rows by constraints": "SELECT A.k, B.s FROM A, B WHERE A.n = B.n",
    "join that finds constraints": "SET penstock.constraints = 'monitored'; "
    "SELECT A.k, B.s FROM A, B WHERE A.n = B.n",
    "join with rows on disk": "SET penstock.constraints = 'monitored safe'; "
    "SELECT A.k, B.s FROM A [RANGE 20], B [RANGE 20] WHERE A.n = B.n",
    "self-join": "SELECT x.n, y.n AS m FROM A [ROWS 4] AS x, A [RANGE 3] AS y WHERE x.k = y.k",
    **{
        goal: f"SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 15], B [RANGE 15] WHERE A.k = B.k {goal}"
        for goal in (
            "WITHIN MEMORY 20 ROWS MAXIMIZE RESULTS",
            "WITHIN MEMORY 20 ROWS SAMPLE UNIFORM",
            "WITHIN MEMORY 20 ROWS SAMPLE CLUSTER",
            "WITHIN MEMORY 20 ROWS",
            "WITHIN RATE 2 PER SECOND",
        )
    },
}


def rows(seed: int, count: int = sized(80, 120)) -> dict[str, list[Any]]:
    random = np.random.default_rng(seed)

    def row(n: int) -> dict[str, Any]:
        text = None if random.random() < 0.1 else "xyzü"[random.integers(4)] * int(random.integers(1, 3))
        return {
            "k": int(random.integers(0, 9)), "n": n, "s": text, "s2": f"{random.integers(99)}",
            "x": float(random.normal()), "d": Decimal(int(random.integers(-999, 999))) / 100,
        }  # fmt: skip

    ts = np.sort(random.integers(0, 60, (2, count)), axis=1)
    changes: list[Any] = []
    for k in range(9):
        name = "odd" if k % 2 else "even"
        changes += [(k, "+", {"k": k, "name": name}), (30 + k, "-", {"k": k, "name": name})]
    return {
        "A": [(int(t), row(i)) for i, t in enumerate(ts[0])],
        "B": [(int(t), row(i)) for i, t in enumerate(ts[1])],
        "T": [{"k": k, "name": f"t{k}"} for k in (1, 3, 3, 7)],
        "R": changes,
    }


OBEYED = {QUERIES["join that drops rows by constraints"]: dict.fromkeys("AB", "PRIMARY KEY (n)")}
"""Constraints of the streams of a query."""


@pytest.fixture(autouse=True)
def collect_after_every_row() -> Iterator[None]:
    with collecting_always():
        yield


SCHEMA = "k INT, n INT, s STRING, s2 STRING, x DOUBLE, d DECIMAL(9, 2)"


def started(query: str, data: dict[str, list[Any]], partitions: int = 2) -> tuple[InProcessRun, Any]:
    used = {n: r for n, r in data.items() if f" {n}" in query or f"({n}" in query}
    finite = read_inputs(used, {n: SCHEMA for n in "AB" if n in used}, SECONDS, OBEYED.get(query, {}))
    return InProcessRun(plan_of(query, finite.catalog(), [], partitions), finite.tables), finite


def outputs(query: str, seed: int, before: tuple[str, ...] = (), steps: int = 7) -> list[Any]:
    """What every step returns; ``before`` each of them a snapshot may be taken, or the engine rebuilt."""
    run, finite = started(query, rows(seed))
    run.engines = [[Partition(e.stage) for e in stage] for stage in run.engines]  # type: ignore[misc]
    found = []
    for number, part in enumerate(finite.slices(steps)):
        for partition in (p for stage in run.engines for p in stage):
            how = before[number] if number < len(before) else ""
            if "snapshot" in how:
                partition.snapshot("whole" in how)
            if "rebuild" in how:
                partition.rebuild()  # type: ignore[attr-defined]
        batches = run.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows})
        found.append(elements(batches))
    return [*found, elements(run.end(99))]


def elements(batches: list[pa.RecordBatch]) -> list[Any]:
    """Sorted: the order within an instant is not part of the result."""
    return sorted((tuple(r.values()) for b in batches for r in b.to_pylist()), key=repr)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.some(3)
def test_a_restored_engine_goes_on_as_it_was(query: str) -> None:
    seed = zlib.crc32(query.encode())
    expected = outputs(query, seed)
    assert any(expected)
    for before in MANNERS if LONG else MANNERS[2:3]:  # it has both kinds of snapshot, and rebuilds after each
        assert outputs(query, seed, before) == expected, before


MANNERS = (
    ("whole snapshot, rebuild",) * 7,
    ("snapshot, rebuild",) * 7,
    ("", "whole snapshot", "snapshot", "", "rebuild", "snapshot", "rebuild"),
    ("", "", "", "whole snapshot, rebuild"),
    ("", "", "snapshot, rebuild", "", "rebuild"),
)


def engine_of(query: str) -> Engine:
    run, finite = started(query, rows(1))
    for part in finite.slices(3):
        run.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows})
    return run.engines[0][0]


def test_a_foreign_format_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(QUERIES["aggregates that grow"])
    data = engine.snapshot().data
    number = [e.node.name for e in engine.entities].index("aggregate")
    operator = type(engine.entities[number].operator)
    monkeypatch.setattr(operator, "format", 2)
    newer = engine.snapshot().data
    named = rf"the snapshot of aggregate \(operator {number}\)"
    with pytest.raises(SnapshotError, match=f"{named} has format 1; this version reads 2"):
        Engine(engine.stage).restore(data)
    monkeypatch.setattr(operator, "format", 1)
    with pytest.raises(SnapshotError, match=f"{named} has format 2; this version reads 1"):
        Engine(engine.stage).restore(newer)
    Engine(engine.stage).restore(data)


def test_a_synopsis_of_a_foreign_format_is_refused_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(QUERIES["row window"])
    data = engine.snapshot().data
    window = next(e.operator for e in engine.entities if e.node.name == "seq-window")
    old = Store.format
    assert type(window._store) is Store  # type: ignore[attr-defined]
    monkeypatch.setattr(Store, "format", old + 1)
    message = rf"of seq-window \(operator 1\) has format {old}; this version reads {old + 1}, in _Rows.store"
    with pytest.raises(SnapshotError, match=message):
        Engine(engine.stage).restore(data)


def test_another_plans_snapshot_is_refused() -> None:
    data = engine_of(QUERIES["row window"]).snapshot().data
    with pytest.raises(SnapshotError, match="the snapshot is of the operators .*; the plan has"):
        Engine(engine_of(QUERIES["antijoin"]).stage).restore(data)


@pytest.mark.parametrize("cut", [0, 3, 20, 300, -1, -2000])
def test_a_truncated_snapshot_is_refused(cut: int) -> None:
    engine = engine_of(QUERIES["join"])
    with pytest.raises(SnapshotError, match="damaged|not one"):
        Engine(engine.stage).restore(engine.snapshot().data[:cut])


def test_every_damaged_byte_is_noticed() -> None:
    engine = engine_of(QUERIES["distinct"])
    data = engine.snapshot().data
    for at in np.random.default_rng(5).integers(0, len(data), 200):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises(SnapshotError):
            Engine(engine.stage).restore(bytes(damaged))


class Part(Stateful):
    saved = ("values", "name")

    def __init__(self) -> None:
        self.values, self.name = np.zeros((0, 2), np.int64), ""


class Whole(Stateful):
    saved = ("parts", "one", "chunk", "maybe")

    def __init__(self) -> None:
        self.parts, self.one = [Part(), Part()], Part()
        self.chunk, self.maybe = Chunk.empty(pa.schema([("a", pa.string())])), None


def test_the_codec_keeps_every_kind_of_value() -> None:
    whole, again = Whole(), Whole()
    whole.parts[1].values = np.arange(8).reshape(4, 2)
    whole.parts[1].name = "ü"
    columns = pa.record_batch([pa.array(["x", None, "z"]).slice(1)], names=["a"])
    whole.chunk = Chunk.of(np.array([1, 2]), columns, end=np.array([5, 6]))
    numbers = [None, True, 1 << 70, float("inf")]
    whole.maybe = {"n": numbers, "d": pa.array([Decimal("1.5")]), "t": (1, "s")}
    again.restore(decode(encode(whole)))
    assert again.parts[1].values.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]] and again.parts[1].name == "ü"
    again.parts[1].values[0] = 9  # arrays can be written to
    assert again.chunk.columns.to_pydict() == {"a": [None, "z"]} and again.chunk.end.tolist() == [5, 6]
    assert again.maybe == {**whole.maybe, "t": [1, "s"]}
    nothing = batch_of([], pa.schema([]), 3)
    assert decode(encode(nothing)).num_rows == 3


@dataclass(frozen=True)
class Rates:
    a: float
    b: tuple[float, ...]


class Chance(Stateful):
    saved = ("random", "rates", "both")

    def __init__(self) -> None:
        self.random = [np.random.default_rng(s) for s in (1, 2)]
        self.rates, self.both = Rates(0.0, (1.0, 2.0)), (Part(), Part())


def test_random_generators_dataclasses_and_tuples_go_on_as_they_were() -> None:
    one, again = Chance(), Chance()
    one.random[1].random(7)
    one.rates, one.both[1].name = Rates(0.5, (3.0, 4.0)), "x"
    again.restore(decode(encode(one)))
    assert [g.random() for g in again.random] == [g.random() for g in one.random]
    assert again.rates == one.rates and again.both[1].name == "x"


def test_what_is_shared_is_written_once() -> None:
    part = Part()
    part.values = np.zeros((1000, 2), np.int64)
    both = decode(encode([part, part]))
    assert both[0] is both[1]
    assert len(encode([part, part])) < len(encode(part)) + 200


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("values", np.zeros((3, 2), np.float64), r"has float64\[2\] array for .* is int64\[2\] array"),
        ("values", np.zeros((3, 5), np.int64), r"has int64\[5\] array for Part.values"),
        ("name", 3, "has number for Part.name, which is str"),
    ],
)
def test_what_does_not_fit_is_refused(attribute: str, value: Any, message: str) -> None:
    part = Part()
    setattr(part, attribute, value)
    with pytest.raises(SnapshotError, match=message):
        Part().restore(decode(encode(part)))


def test_only_plain_values_are_state() -> None:
    for wrong in (object(), {1: 2}, np.array(["a"], object), {"x": {3}}):
        with pytest.raises(TypeError, match="state"):
            encode(wrong)


@pytest.mark.slow
def test_every_operator_with_state_is_among_the_queries() -> None:
    """A class whose state is saved is reached by a query above."""
    reached = {type(e.operator) for q in QUERIES.values() for e in engine_of(q).entities}
    kept = {c for c in subclasses(Operator) if c.saved and not isabstract(c)}
    missing = {c for c in kept if c.__module__.startswith("penstock")} - reached
    assert {c.__name__ for c in missing} == {"_SinceRow", "_History"}  # only in tests/pipelines.py
    assert snapshot.Stateful in Operator.__mro__


def subclasses(cls: type) -> set[type]:
    return {c for direct in cls.__subclasses__() for c in {direct, *subclasses(direct)}}


def stepped(query: str, steps: int = 12) -> tuple[Engine, list[StepOutput]]:
    """An engine that has taken some steps, and what they returned."""
    run, finite = started(query, rows(3), partitions=1)
    ((engine,),) = run.engines
    found: list[StepOutput] = []
    taken = engine.step
    engine.step = lambda a, c=(): found.append(taken(a, c)) or found[-1]  # type: ignore
    for part in finite.slices(steps):
        run.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows})
    return engine, found


def saved_in(taken: Snapshot) -> list[str]:
    return [name for _, name, _ in decode(taken.data)["operators"]]


def test_only_what_cannot_be_replayed_is_in_a_partial_snapshot() -> None:
    """The window's rows are replayed; the union with a stream that only grows is not, nor what reads it."""
    engine, outputs = stepped("SELECT k FROM A [ROWS 6] UNION ALL SELECT k FROM B")
    assert outputs[-1].needs_from == 0
    assert 0 < outputs[-1].replay_from < len(outputs)
    taken = engine.snapshot(whole=False)
    assert (taken.version, taken.start) == (len(outputs), outputs[-1].replay_from)
    assert saved_in(taken) == ["union", "changelog"]
    assert len(taken.data) < len(engine.snapshot(whole=True).data)


def test_bounded_operators_need_no_snapshot_and_unbounded_ones_no_log() -> None:
    _, windowed = stepped("SELECT s, COUNT(*) AS c FROM A [RANGE 4] GROUP BY s")
    assert windowed[-1].needs_from == windowed[-1].replay_from > 0
    engine, growing = stepped("SELECT s, COUNT(*) AS c FROM A GROUP BY s")
    assert growing[-1].needs_from == 0
    taken = engine.snapshot(whole=False)
    assert "aggregate" in saved_in(taken) and taken.version - taken.start <= 1


def test_a_window_over_a_derived_stream_is_in_the_snapshot_with_all_that_reads_it() -> None:
    engine, _ = stepped(QUERIES["window over a derived stream"])
    names = saved_in(engine.snapshot(whole=False))
    assert "aggregate" in names and "expire" in names and "d-stream" not in names


def test_what_gives_row_ids_goes_with_what_holds_them() -> None:
    """A window numbers its rows anew in a replay, and a join that is restored knows their old numbers."""
    engine, _ = stepped("SELECT A.k, R.name FROM A [ROWS 6], R WHERE A.k = R.k")
    names = saved_in(engine.snapshot(whole=False))
    assert {"binary-join", "identify", "seq-window"} <= set(names)


def test_a_snapshot_is_needed_until_windows_have_passed_it() -> None:
    engine, _ = stepped("SELECT k FROM A [RANGE 4]", steps=4)
    taken = engine.snapshot(whole=True)
    needed = []
    for t in (60, 80, 90, 100):
        batch = pa.record_batch({TS: [t], "A.k": pa.array([1], pa.int32())})
        needed.append(engine.step([Arrival("A", 0, batch, t, t)]).needs_from)
    assert needed[0] == taken.start == 4
    assert needed[-1] > taken.version
