"""Keys that keep one partition busy, and late rows: what is said of them, and what helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.arrivals import Received
from penstock.engine.stage import Arrival, StageInput
from penstock.measurement import Kind, Measurements, Property, Reading, measured, under
from penstock.plan import compile, explain
from penstock.streamon.advice import Skew, held_back, late, skew


def engine(partition: int, keys: list[Any], kind: pa.DataType) -> Measurements:
    """What an engine publishes that has received these keys."""
    received = Received([StageInput("S", pa.schema([("S.k", kind)]), key="S.k")])
    batch = pa.RecordBatch.from_pydict({"S.k": pa.array(keys, kind)})
    received.note([Arrival("S", 0, batch)])
    return measured(received.measure(), "r", 1, partition)


def two(heavy: list[Any], other: list[Any], kind: pa.DataType) -> Skew:
    (found,) = skew(Measurements([*engine(0, heavy, kind), *engine(1, other, kind)]))
    return found


def test_a_heavy_key_and_what_to_declare() -> None:
    found = two([7] * 900 + list(range(100, 150)), list(range(200, 250)), pa.int64())
    assert found.busiest == 1.9 and found.heavy == {"7": 0.9}
    assert found.declare == "HEAVY k IN (7)"
    assert found.advice == (
        "7 is the key of 90% of the rows of 'S', and one partition of 2 gets 95% of them: declare the stream "
        "with HEAVY k IN (7) and start the query with a new checkpoint; explain then says how the key is "
        "split, or why not"
    )


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [(pa.string(), "it's", "'it''s'"), (pa.float64(), 1.5, "1.5"), (pa.bool_(), True, "True")],
)
def test_the_clause_is_one_that_ddl_takes(kind: pa.DataType, value: Any, literal: str) -> None:
    assert two([value] * 900, [None] * 10, kind).declare == f"HEAVY k IN ({literal})"


def test_nothing_is_said_where_nothing_can_be_gained() -> None:
    numbers = np.random.default_rng(1).permutation(1000).tolist()
    assert not two([7] * 400 + numbers, numbers, pa.int64()).declare, "less than a partition's part"
    assert not two([7] * 400 + numbers[:100], [7] * 400, pa.int64()).declare, "it is split already"
    assert not two([None] * 400, numbers[:100], pa.int64()).declare, "NULL is no key to declare"
    assert two([None] * 400, numbers[:100], pa.int64()).advice == ""


def test_a_plan_follows_it() -> None:
    row = pa.schema([("k", pa.int64())])
    query = "SELECT ISTREAM(R.k) FROM R [RANGE 5], S [RANGE 5] WHERE R.k = S.k"
    options = {"R": InputOptions(), "S": InputOptions(heavy=(("k", (7,)),))}
    catalog = {n: Input(n, row, o) for n, o in options.items()}
    said = explain(compile(bind(query, catalog), 2), costs=False)
    assert "S: columns k; to 2 partitions by hash of S.k, of 7 by row" in said
    assert "R: columns k; to 2 partitions by hash of R.k, of 7 to all" in said


@pytest.mark.parametrize(
    ("kept", "what"), [(0, "SET penstock.late_rows = 'directory'"), (1, "ps.late_rows('S')")]
)
def test_late_rows_are_added_up(kept: int, what: str) -> None:
    readings = [*under("input/S", Kind.INPUT, [Reading(Property.LATE, 1)])]
    own = under("engine", Kind.ENGINE, [Reading(Property.LATE_ROWS_KEPT, kept)])
    one, other = measured([*readings, *own], "r"), measured(readings, "r", 1, 1)
    sentence = late(Measurements([*one, *other]))["r", "S"]
    assert sentence.startswith("2 rows of 'S' came too late and were left out: declare a larger DISORDER")
    assert sentence.endswith(what)
    assert late(other)["r", "S"].startswith("1 row of 'S' came too late and was left out")
    assert not late(measured(under("input/S", Kind.INPUT, [Reading(Property.LATE, 0)])))


def test_an_input_that_holds_results_back() -> None:
    def engine(partition: int, waiting: int) -> Measurements:
        own = [Reading(Property.STREAM_TIME, 7), Reading(Property.WAITING, waiting)]
        readings = under("engine", Kind.ENGINE, [*own, Reading(Property.HELD_BACK_BY, 0, "B")])
        return measured(readings, "r", 1, partition)

    found = held_back(Measurements([*engine(0, 1_000), *engine(1, 24)]))
    assert found[("r", "B")][0] == 7
    assert found[("r", "B")][1].startswith("1,024 rows wait for 'B', which holds the results back until")
    assert not held_back(engine(0, 0))
