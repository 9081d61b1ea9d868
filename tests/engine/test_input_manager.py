"""The input manager: stamps on arrival, disorder as it is seen, and bounds that adapt to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from local_host import Partition

from penstock.catalog import Input, InputOptions
from penstock.cql.query import bind
from penstock.cql.statements import parse
from penstock.engine.stage import SIGN, TS, Arrival, StepOutput
from penstock.measurement import Property, decode, encode, measured
from penstock.plan.compile import compile
from penstock.schema import TIMESTAMP_TIME

ROW = pa.schema([("v", pa.int64())])
ARRIVAL = InputOptions(TIMESTAMP_TIME, arrival=True)
AUTO = InputOptions(skew=20, adaptive=True)


def partition_of(query: str, **options: InputOptions) -> Partition:
    (statement,) = parse(query)
    catalog = {name: Input(name, ROW, given) for name, given in options.items()}
    return Partition(compile(bind(statement, catalog)).stages[0].stage)


def arrival(name: str, stamps: Sequence[int], values: Sequence[int], disorder: int = 0) -> Arrival:
    batch = pa.RecordBatch.from_pydict({TS: pa.array(stamps, pa.int64()), f"{name}.v": pa.array(values)})
    return Arrival(name, 0, batch, min(stamps), max(stamps), disorder=disorder)


def shown(out: StepOutput) -> list[tuple[Any, ...]]:
    columns = out.only.batch
    return list(zip(*(columns.column(n).to_pylist() for n in (TS, SIGN, "v")), strict=True))


def seen(partition: Partition, prop: Property, name: str = "S") -> float:
    found = measured(decode(encode(partition.engine.measure())))
    return found.entity(f"input/{name}").value(prop)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_batches_are_instants_that_are_complete_at_once(rebuilt: bool) -> None:
    partition = partition_of("SELECT ISTREAM(v) FROM S [RANGE 2]", S=ARRIVAL)
    found = []
    for time, value in [(100, 1), (103, 2), (103, 3), (90, 4), (200, 5)]:  # the clock stands, and is set back
        found += shown(partition.step([arrival("S", [time], [value])]))
        if rebuilt:
            partition.rebuild()
    assert found == [(100, 1, 1), (103, 1, 2), (104, 1, 3), (105, 1, 4), (200, 1, 5)]
    assert not seen(partition, Property.LATE)


def test_stamps_go_on_after_a_log_that_forgot_the_batches_before() -> None:
    partition = partition_of("SELECT DSTREAM(v) FROM S [NOW]", S=ARRIVAL)
    for time in (100, 200, 300):
        partition.step([arrival("S", [time], [time])])
    assert partition.needs_from > 0
    partition.rebuild()
    assert shown(partition.step([arrival("S", [50], [7])])) == [(301, 1, 300)]


def test_a_silent_stream_is_told_the_time_of_others() -> None:
    query = "SELECT S.v FROM S [RANGE 5] LEFT JOIN T [RANGE 5] ON S.v = T.v"
    partition = partition_of(query, S=ARRIVAL, T=ARRIVAL)
    assert shown(partition.step([arrival("S", [10], [1])])) == [(10, 1, 1)]


@pytest.mark.parametrize("how", ["", "header", "snapshot"])
def test_adapted_bounds_rise_at_once_and_fall_slowly(how: str) -> None:
    partition = partition_of("SELECT v FROM S [NOW]", S=AUTO)
    bounds, late = [], []
    steps = [([100], 0), ([120, 112], 8), ([130], 0), ([125], 0), ([90, 140], 0), ([1140], 0), ([9999], 0)]
    for stamps, disorder in steps:
        partition.step([arrival("S", stamps, stamps, disorder)])
        if how:
            if how == "snapshot":
                partition.snapshot(whole=True)
            partition.rebuild()
        bounds.append(seen(partition, Property.DISORDER_BOUND))
        late.append(seen(partition, Property.LATE))
    # 8 and a quarter; less 1 a hundred ticks; 40 is more than the declared 20
    assert bounds == [0, 10, 10, 10, 20, 10, 0]
    assert late == [0, 0, 0, 0, 1, 1, 1]
    assert seen(partition, Property.DISORDER) == 40


def test_late_rows_are_not_the_first() -> None:
    partition = partition_of("SELECT COUNT(*) AS v FROM S [RANGE 3]", S=InputOptions(skew=1))
    partition.step([arrival("S", [5], [5])])
    partition.step([arrival("S", [3], [3])])
    assert shown(partition.step([arrival("S", [9], [9])])) == [(4, 1, 0), (5, -1, 0), (5, 1, 1)]


@pytest.mark.parametrize("rebuilt", [False, True])
def test_the_rows_of_a_query_wait_for_its_progress_alone(rebuilt: bool) -> None:
    """Rows that are ahead of it do not move the time, so that none behind them is late."""
    (statement,) = parse("SELECT ISTREAM(COUNT(*) AS n) FROM S [RANGE 3]")
    plan = compile(bind(statement, {"S": Input("S", ROW, InputOptions(), producers=2)}))
    partition, found = Partition(plan.stages[0].stage), []
    steps = [([5, 2], 0, 2), ([3], 1, 4), ([4], 0, 4), ([], 0, 11), ([], 1, 10)]
    for stamps, producer, progress in steps:
        given = [arrival("S", stamps, stamps)] if stamps else []
        out = partition.step([*given, Arrival("S", producer, progress=progress)])
        columns = out.only.batch
        found += zip(columns.column(TS).to_pylist(), columns.column("n").to_pylist(), strict=True)
        if rebuilt:
            partition.rebuild()
    assert found == [(2, 1), (3, 2), (4, 3), (5, 4), (6, 3), (7, 2), (8, 1), (9, 0)]
    assert not seen(partition, Property.LATE)
