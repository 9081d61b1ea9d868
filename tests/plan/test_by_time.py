"""The exchange by time: each result of a W-join is in one partition, and chosen where it pays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.cli.script import bound_queries
from penstock.plan import compile, explain
from penstock.routing import Axis, Route, deliver

STREAMS = "".join(
    f"CREATE STREAM {n} (k INT, t BIGINT) TIMESTAMP BY t FROM PARQUET '{n}'; " for n in ("A", "B", "C")
)


def plan(query: str, partitions: int = 2) -> str:
    (bound,) = bound_queries(STREAMS + query)
    return explain(compile(bound.query, partitions, bound.settings), costs=False)


@pytest.mark.parametrize("share", (2, 3, 5))
@pytest.mark.parametrize(("slice", "age"), [(10, 3), (10, 10), (4, 9), (1, 0), (7, 100)])
def test_rows_that_may_join_meet_where_the_earlier_one_is_at_home(share: int, slice: int, age: int) -> None:
    times = np.arange(-50, 150)
    axis = Axis(share, slice=slice, age=age)
    batch = pa.record_batch({"t": pa.array(times)})
    parts = {targets: part for targets, part in deliver(Route((axis,)), "A", batch, [times])}
    assert sorted(parts) == [(p,) for p in range(share)]
    there = [set(parts[p,].column("t").to_pylist()) for p in range(share)]
    homes = [
        {t for t, own in zip(*(c.to_pylist() for c in parts[p,].columns), strict=True) if own}
        for p in range(share)
    ]
    assert sorted(t for some in homes for t in some) == times.tolist()
    for p in range(share):
        for earlier in homes[p]:
            assert {t for t in range(earlier, min(earlier + age, 149) + 1)} <= there[p]


def test_it_is_chosen_where_a_batch_spans_several_slices() -> None:
    join = "SELECT ISTREAM(A.k, A.t, B.t AS u) FROM A, B WINDOW 5 SECONDS WHERE A.k < B.k"
    sliced = "by time, in slices of 40 SECONDS, and to the slices up to 5 SECONDS before"
    assert f"to 2 partitions {sliced}" in plan(f"SET penstock.batch_span = '1 HOUR'; {join}")
    assert "by time, in slices of 40 SECONDS" in plan(f"SET penstock.at_end = 'complete'; {join}")
    for short in ("none", "1 SECOND", "4 SECONDS"):
        assert "broadcast to 2 partitions" in plan(f"SET penstock.batch_span = '{short}'; {join}")


def test_an_equality_goes_before_time() -> None:
    join = "SELECT ISTREAM(A.k) FROM A, B WINDOW 5 SECONDS WHERE A.k = B.k"
    assert "by hash of A.k" in plan(f"SET penstock.batch_span = '1 HOUR'; {join}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ISTREAM(A.k) FROM A [ROWS 5], B WINDOW 5 SECONDS WHERE A.k < B.k",
        "SELECT ISTREAM(A.k) FROM A, B, C [NOW] WINDOW (A, B) 5 SECONDS WHERE A.k < B.k AND C.k > B.k",
        "SELECT ISTREAM(x.k) FROM (SELECT ISTREAM(k) FROM A [ROWS 3]) AS x, B WINDOW 5 WHERE x.k < B.k",
    ],
)
def test_other_joins_are_not_spread_by_time(query: str) -> None:
    assert "by time" not in plan(f"SET penstock.batch_span = '1 HOUR'; {query}")
