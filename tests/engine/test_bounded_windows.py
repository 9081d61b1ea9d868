"""Tumbling, hopping and session windows: bounds, lives, state."""

from __future__ import annotations

import re
from random import Random

import pyarrow as pa
import pytest

import penstock
from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.schema import TIMESTAMP, TIMESTAMP_TIME

SECOND = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COUNTED = "SELECT k, window_end AS w, COUNT(*) AS n FROM S [TUMBLE 5] GROUP BY k, window_end"
CATALOG = {"S": Input("S", SCHEMA), "M": Input("M", SCHEMA, InputOptions(TIMESTAMP_TIME))}


def engine(query: str) -> Engine:
    return Engine(compile(bind(query, CATALOG)).stages[0].stage)


def step(engine: Engine, stamps: list[int], keys: list[int], until: int) -> pa.RecordBatch:
    """Feed rows; time goes on to ``until``."""
    (name,) = (i.name for i in engine.stage.inputs)
    named = {f.name: pa.array(keys, pa.int64()) for f in engine.stage.inputs[0].schema}
    batch = pa.RecordBatch.from_pydict({TS: pa.array(stamps, pa.int64()), **named})
    return engine.step([Arrival(name, 0, batch, min(stamps, default=until), until)]).only.batch


def test_a_row_at_the_end_is_in_the_next_window() -> None:
    rows = [(ts * SECOND, {"v": ts}) for ts in (0, 9, 10, 19, 20, 21)]
    counted = penstock.evaluate(
        "SELECT ISTREAM(window_start, window_end, COUNT(*) AS n) FROM S [TUMBLE 10 SECONDS] "
        "GROUP BY window_start, window_end",
        {"S": rows},
        unit="microseconds",
        until=40 * SECOND,
    )
    assert [tuple(row.values()) for _, _, row in counted] == [
        (start * SECOND, (start + 10) * SECOND, 2) for start in (0, 10, 20)
    ]


def test_bounds_have_the_type_of_time() -> None:
    query = "SELECT ISTREAM(window_start, window_end) FROM M [TUMBLE 10 SECONDS]"
    out = step(
        engine(f"{query} WHERE window_end > TIMESTAMP '1970-01-01 00:00:15'"),
        [SECOND, 11 * SECOND],
        [1, 2],
        30 * SECOND,
    )
    assert out.schema.field("window_end").type == TIMESTAMP
    assert out.column(TS).to_pylist() == [20 * SECOND]
    assert [out.column(c).cast(pa.int64()).to_pylist() for c in ("window_start", "window_end")] == [
        [10 * SECOND],
        [20 * SECOND],
    ]


@pytest.mark.parametrize(("size", "hop"), [(3, 3), (4, 2), (5, 2), (6, 1), (7, 5)])
@pytest.mark.parametrize("shown", ("v", "v, window_start, window_end"))
def test_a_hopping_window_by_its_definition(size: int, hop: int, shown: str) -> None:
    random = Random(size * hop)
    stamps = sorted(random.randrange(-20, 40) for _ in range(30))
    query = f"RSTREAM(SELECT {shown} FROM S [HOP {size} EVERY {hop}])"
    found: dict[int, list[tuple[int, ...]]] = {}
    for ts, _, row in penstock.evaluate(query, {"S": [(ts, {"v": ts}) for ts in stamps]}, until=60):
        found.setdefault(ts, []).append(tuple(row.values()))
    for tau in range(min(stamps), 61):
        a = (tau - size) // hop * hop
        held = [(ts, a, a + size) if "," in shown else (ts,) for ts in stamps if a <= ts < a + size]
        assert sorted(found.get(tau, [])) == held, tau


def test_a_row_of_a_hopping_window_is_kept_once() -> None:
    running = engine("SELECT v, window_end FROM S [HOP 1000 EVERY 1]")
    out = [step(running, [n] * 10, [n] * 10, n + 1).num_rows for n in range(100)]
    window = next(e.operator for e in running.entities if e.node.name == "hop-window")
    assert window.rows() == 1_000 and out[-1] == 990 + 980
    assert step(running, [], [], 5_000).num_rows and window.rows() == 0


def test_sessions_by_their_definition() -> None:
    random = Random(7)
    rows = sorted((random.randrange(200), random.randrange(4)) for _ in range(120))
    query = (
        "SELECT ISTREAM(k, window_start, window_end, COUNT(*) AS n) FROM S [SESSION 5 PARTITION BY k] "
        "GROUP BY k, window_start, window_end"
    )
    expected = []
    for key in range(4):
        mine = [ts for ts, k in rows if k == key]
        cuts = [0, *(i for i in range(1, len(mine)) if mine[i] - mine[i - 1] >= 5), len(mine)]
        for a, b in zip(cuts, cuts[1:], strict=False):
            expected.append((mine[b - 1] + 5, key, mine[a], mine[b - 1] + 5, b - a))
    for batches in (1, 7):
        found = penstock.evaluate(
            query, {"S": [(ts, {"k": k}) for ts, k in rows]}, until=300, batches=batches
        )
        assert sorted((ts, *row.values()) for ts, _, row in found) == sorted(expected)


def test_a_key_whose_sessions_are_over_leaves_nothing() -> None:
    running = engine("SELECT ISTREAM(k, window_end) FROM S [SESSION 3 PARTITION BY k]")
    kept = []
    for n in range(0, 4_000, 10):
        step(running, [n] * 20, list(range(n, n + 20)), n + 10)
        kept.append(running.state_bytes())
    window = next(e.operator for e in running.entities if e.node.name == "session-window")
    assert window.rows() == 0 and kept[-1] < 2 * max(kept[:40])
    assert window.horizon() > 3_000


def test_a_long_session_does_not_hold_up_the_others() -> None:
    running = engine("SELECT ISTREAM(k, COUNT(*) AS n) FROM S [SESSION 3 PARTITION BY k] GROUP BY k")
    ended = 0
    for n in range(0, 600, 2):
        ended += step(running, [n, n], [-1, n], n + 2).num_rows
    assert ended == 299
    out = step(running, [], [], 700)
    assert sorted(zip(out.column("k").to_pylist(), out.column("n").to_pylist(), strict=True)) == [
        (-1, 300),
        (598, 1),
    ]


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("SELECT ISTREAM(COUNT(*) AS n) FROM S [TUMBLE 5]", "select window_start or window_end"),
        ("SELECT ISTREAM(k) FROM S [SESSION 5] WHERE window_end > 3", "select window_start or window_end"),
        (f"SELECT ISTREAM(k, n) FROM ({COUNTED})", "ISTREAM does not show"),
        (f"SELECT ISTREAM(w, n) FROM ({COUNTED})", ""),
        ("SELECT ISTREAM(*) FROM S [HOP 5 EVERY 2]", ""),
        (f"SELECT ISTREAM(n) FROM (SELECT ISTREAM(w, n) FROM ({COUNTED})) [RANGE 3]", ""),
        ("SELECT RSTREAM(k) FROM M [SESSION 5 SECONDS]", "a session is in it only at its end"),
        ("SELECT RSTREAM(k) FROM S [SESSION 5 SECONDS]", ""),
        ("SELECT k, COUNT(*) AS n FROM S [TUMBLE 5] GROUP BY k", ""),
        ("SELECT ISTREAM(k) FROM S [RANGE 9 SLIDE 10]", ""),
        ("SELECT ISTREAM(k) FROM S [RANGE 8 SLIDE 10]", r"\[RANGE 8 SLIDE 10\] of S leaves gaps"),
        ("SELECT ISTREAM(k) FROM S [RANGE 10 SLIDE 10]", r"overlaps by a tick: .* write \[TUMBLE ...\]"),
        ("SELECT ISTREAM(k) FROM S [RANGE 10 SLIDE 5]", r"overlaps by a tick: .* write \[HOP ...\]"),
        ("SELECT ISTREAM(k) FROM S [RANGE 10 SLIDE 1]", ""),
    ],
)  # fmt: skip
def test_warnings(query: str, warning: str) -> None:
    warnings = bind(query, CATALOG).warnings
    assert len(warnings) == bool(warning)
    assert all(re.search(warning, w) for w in warnings)
