"""RSTREAM over time in which little happens: its cost follows rows, not ticks."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.errors import DataError
from penstock.plan import compile
from penstock.schema import TimeDomain

FAR = 10**12
ROWS = [(0, {"v": 1}), (1, {"v": 2}), (FAR, {"v": 2}), (FAR + 1, {"v": 1})]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT RSTREAM(v) FROM S [NOW]", [(0, 1), (1, 2), (FAR, 2), (FAR + 1, 1)]),
        ("SELECT RSTREAM(v) FROM S [RANGE 1]",
         [(0, 1), (1, 1), (1, 2), (2, 2), (FAR, 2), (FAR + 1, 1), (FAR + 1, 2), (FAR + 2, 1)]),
        ("RSTREAM(SELECT v FROM S [RANGE 2]) EVERY 3", [(0, 1), (3, 2), (FAR + 2, 1), (FAR + 2, 2)]),
        (f"RSTREAM(SELECT COUNT(*) AS v FROM S) EVERY {FAR // 2}", [(0, 1), (FAR // 2, 2), (FAR, 3)]),
        ("RSTREAM(SELECT v FROM S [RANGE 2]) EVERY 7 DAYS", [(0, 1)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("batches", (1, 3))
def test_silence_costs_nothing(query: str, expected: list[tuple[int, int]], batches: int) -> None:
    """What went through all ticks would not end."""
    found = penstock.evaluate(query, {"S": ROWS}, until=FAR + 2, batches=batches)
    assert sorted((ts, row["v"]) for ts, _, row in found) == expected


def test_what_stays_for_too_long_is_reported() -> None:
    message = r"a relation of 2 rows at 999,999,999,999 ticks without a change; write EVERY after RSTREAM"
    with pytest.raises(DataError, match=message):
        penstock.evaluate("SELECT RSTREAM(v) FROM S", {"S": ROWS})


@pytest.mark.parametrize(
    ("unit", "window", "warned"),
    [("milliseconds", "[RANGE 5]", True), ("milliseconds", "[NOW]", False), ("seconds", "[RANGE 5]", False)],
)
def test_fine_ticks_are_warned_of(unit: str, window: str, warned: bool) -> None:
    stream = Input("S", pa.schema([("v", pa.int64())]), InputOptions(TimeDomain("integer", unit)))
    query = bind(f"SELECT RSTREAM(v) FROM S {window}", {"S": stream})
    assert any("one millisecond; write EVERY" in w for w in query.warnings) is warned


def test_timestamps_with_input_are_the_clock() -> None:
    time_domain = TimeDomain("timestamp", "microseconds")
    stream = Input("S", pa.schema([("v", pa.int64())]), InputOptions(time_domain))
    engine = Engine(
        compile(bind("SELECT RSTREAM(v) FROM S [RANGE 3 MICROSECONDS]", {"S": stream})).stages[0].stage
    )
    found = []
    for stamps in ([0, 2], [FAR], [FAR + 3, FAR + 9]):
        batch = pa.RecordBatch.from_pydict({TS: pa.array(stamps), "S.v": pa.array(stamps)})
        out = engine.step([Arrival("S", 0, batch, stamps[0], stamps[-1])]).only.batch
        found += zip(out.column(TS).to_pylist(), out.column("v").to_pylist(), strict=True)
    assert found == [(0, 0), (2, 0), (2, 2), (FAR, FAR), (FAR + 3, FAR), (FAR + 3, FAR + 3)]
