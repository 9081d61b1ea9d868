"""Tables that change: at the first instant that is not complete, in all partitions and after a rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from local_host import Manner, run_versions
from strategies import Case

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.command import Command
from penstock.engine.engine import Engine
from penstock.engine.stage import SIGN, TS, Arrival
from penstock.engine.tables import (
    after,
    changed,
    changes_of,
    combined,
    difference,
    from_bytes,
    payload,
    to_bytes,
)
from penstock.errors import EngineError
from penstock.measurement import Property
from penstock.plan import compile

SCHEMAS = {"S": "a INT", "D": "a INT, s STRING"}
ONE, TWO = [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}], ({"a": 1, "s": "z"}, {"a": 3, "s": "w"})
ROWS = [(t, {"a": a}) for t, a in ((1, 1), (2, 2), (3, 1), (4, 3), (5, 1), (6, 2), (7, 3))]
HOWS = ("", "rebuild", "snapshot, rebuild", "whole snapshot, rebuild")


def shown(
    cql: str, how: str = "", partitions: int = 1, rows: Sequence[Any] = ROWS, at: int = 1, skew: int = 0
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The changes of a query over S in steps of 3, 2 and 2 rows; the table changes with the second."""
    case = Case(cql, {"S": list(rows), "D": ONE}, SCHEMAS, 20)
    cuts = (3 / 7, 5 / 7)
    manner = Manner(partitions, cuts, ("", "", how, how, how), skew, versions=((at, TWO),))
    changes, instants = run_versions(case, manner)
    return sorted((ts, sign, *row.values()) for ts, sign, row in changes), instants


@pytest.mark.parametrize("partitions", (1, 3))
@pytest.mark.parametrize("how", HOWS)
class TestLookUps:
    """Each row of a stream without window meets the table as of its own instant; results stay."""

    def test_join(self, how: str, partitions: int) -> None:
        found, instants = shown("SELECT S.a, D.s FROM S, D WHERE S.a = D.a", how, partitions)
        assert instants == [4]  # shown at once: the first instant after every row that came
        assert found == [(1, "+", 1, "x"), (2, "+", 2, "y"), (3, "+", 1, "x"), (4, "+", 3, "w"),
                         (5, "+", 1, "z"), (7, "+", 3, "w")]  # fmt: skip

    def test_left_join(self, how: str, partitions: int) -> None:
        found, _ = shown("SELECT S.a, D.s FROM S LEFT JOIN D ON S.a = D.a", how, partitions)
        assert found == [(1, "+", 1, "x"), (2, "+", 2, "y"), (3, "+", 1, "x"), (4, "+", 3, "w"),
                         (5, "+", 1, "z"), (6, "+", 2, None), (7, "+", 3, "w")]  # fmt: skip

    def test_in_and_not_in(self, how: str, partitions: int) -> None:
        found, _ = shown("SELECT a FROM S WHERE a IN (SELECT a FROM D)", how, partitions)
        assert [ts for ts, *_ in found] == [1, 2, 3, 4, 5, 7]
        found, _ = shown("SELECT a FROM S WHERE a NOT IN (SELECT a FROM D)", how, partitions)
        assert [ts for ts, *_ in found] == [6]

    def test_counts_stay(self, how: str, partitions: int) -> None:
        cql = "SELECT D.s, COUNT(*) AS n FROM S, D WHERE S.a = D.a GROUP BY D.s"
        found, instants = shown(cql, how, partitions)
        assert instants == [3]  # counts wait for whole instants: the first that is not complete
        assert found == [(1, "+", "x", 1), (2, "+", "y", 1), (3, "+", "z", 1), (4, "+", "w", 1),
                         (5, "+", "z", 2), (5, "-", "z", 1), (7, "+", "w", 2), (7, "-", "w", 1)]  # fmt: skip

    def test_an_aggregate_of_the_table(self, how: str, partitions: int) -> None:
        found, _ = shown("SELECT a FROM S WHERE a = (SELECT MAX(a) FROM D)", how, partitions)
        assert found == [(2, "+", 2), (4, "+", 3), (7, "+", 3)]

    def test_rows_of_the_table_without_a_match(self, how: str, partitions: int) -> None:
        """A new row of the table meets the stream's rows from then on."""
        cql = "SELECT D.s FROM D LEFT JOIN S ON S.a = D.a WHERE S.a IS NULL"
        found, instants = shown(cql, how, partitions)
        assert instants == [3]
        assert found == [(1, "+", "y"), (2, "-", "y"), (3, "+", "w"), (4, "-", "w")]


@pytest.mark.parametrize("partitions", (1, 3))
@pytest.mark.parametrize("how", HOWS)
def test_rows_in_windows_change_with_the_table(how: str, partitions: int) -> None:
    found, instants = shown("SELECT S.a, D.s FROM S [RANGE 2], D WHERE S.a = D.a", how, partitions)
    assert instants == [3]
    assert found[:6] == [(1, "+", 1, "x"), (2, "+", 2, "y"), (3, "+", 1, "z"), (3, "+", 1, "z"),
                         (3, "-", 1, "x"), (3, "-", 2, "y")]  # fmt: skip
    assert found[6:] == [(4, "+", 3, "w"), (4, "-", 1, "z"), (5, "+", 1, "z"), (6, "-", 1, "z"),
                         (8, "-", 1, "z"), (10, "-", 3, "w")]  # fmt: skip


def test_rows_that_arrive_late_meet_the_old_table() -> None:
    """The change is at 4; a row of instant 2 or 3 that comes after it still meets the old table."""
    rows = [
        (1, {"a": 1}),
        (3, {"a": 1}),
        (1, {"a": 2}),
        (2, {"a": 2}),
        (3, {"a": 1}),
        (4, {"a": 1}),
        (5, {"a": 3}),
    ]
    for how in HOWS:
        found, instants = shown("SELECT S.a, D.s FROM S, D WHERE S.a = D.a", how, rows=rows, skew=2)
        assert instants == [4]
        assert found == [(1, "+", 1, "x"), (1, "+", 2, "y"), (2, "+", 2, "y"), (3, "+", 1, "x"),
                         (3, "+", 1, "x"), (4, "+", 1, "z"), (5, "+", 3, "w")]  # fmt: skip


def test_the_instant_does_not_depend_on_how_the_query_is_spread() -> None:
    cql = "SELECT COUNT(DISTINCT D.s) AS n FROM S, D WHERE S.a = D.a"
    assert shown(cql, partitions=1) == shown(cql, partitions=3)


def test_a_change_before_the_first_row_is_the_first_table() -> None:
    found, _ = shown("SELECT S.a, D.s FROM S, D WHERE S.a = D.a", at=0)
    assert found[0] == (1, "+", 1, "z")
    found, _ = shown("SELECT S.a, D.s FROM S [RANGE 2], D WHERE S.a = D.a", at=0)
    assert found[0] == (1, "+", 1, "z")


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_difference_and_change_are_inverse() -> None:
    nan = float("nan")
    old = batch(a=[1, 1, None, 2], x=[0.5, 0.5, nan, None])
    new = batch(a=[1, None, 3], x=[0.5, nan, 1.0])
    change = difference(old, new)
    assert change.column(SIGN).to_pylist() == [-1, -1, 1]
    assert difference(changed(old, change), new).num_rows == 0
    assert difference(new, new).num_rows == 0
    with pytest.raises(EngineError, match="removes rows that the table does not have"):
        changed(new, change)


def test_changes_one_after_the_other_are_one() -> None:
    versions = [pa.record_batch({"k": pa.array(k, pa.int64())}) for k in ([1, 2], [1, 3, 3], [3], [1, 2, 4])]
    steps = [difference(old, new) for old, new in pairwise(versions)]
    assert combined(steps).equals(difference(versions[0], versions[-1]))
    assert combined([steps[0], difference(versions[1], versions[0])]).num_rows == 0
    sent = [Command(n, "tables", payload({"T": change})) for n, change in enumerate(steps, 1)]
    assert after({"T": versions[0]}, changes_of(sent))["T"].to_pydict() == {"k": [1, 2, 4]}


def test_changes_and_tables_as_bytes() -> None:
    change = difference(batch(a=[1]), batch(a=[2, 3]))
    read = changes_of([Command(1, "tables", payload({"D": change})), Command(2, "memory", {"bytes": 1})])
    assert list(read) == ["D"] and read["D"].equals(change)
    assert from_bytes(to_bytes({"D": change}))["D"].equals(change)


def test_deletions_without_a_row_are_left_out_and_counted_if_declared_so() -> None:
    options = InputOptions(bad_rows="count")
    catalog = {"R": Input("R", pa.schema([("a", pa.int64())]), options, "relation")}
    engine = Engine(compile(bind("SELECT COUNT(*) AS n FROM R", catalog)).stages[0].stage)
    rows = pa.record_batch({TS: [1, 2, 2, 3], SIGN: pa.array([1, -1, -1, 1], pa.int8()), "R.a": [1, 2, 1, 3]})
    out = engine.step([Arrival("R", 0, rows, 1, 9)])
    assert out.only.batch.column("n").to_pylist()[-1] == 1
    assert [r.value for r in engine.measure() if r.property is Property.UNMATCHED] == [1.0]
