"""Blobs and records give back what went in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.command import Command
from penstock.errors import EngineError
from penstock.routing import partition_numbers, split_by
from penstock.spark.wire import blob
from penstock.spark.wire.record import Envelope, Record

WIDE = pa.schema(
    [
        ("i64", pa.int64()),
        ("i32", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("n", pa.decimal128(10, 2)),
    ]
)
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)


@given(st.lists(st.none() | integers, min_size=0, max_size=200))
def test_integers_survive_narrowing(values: list[int | None]) -> None:
    batch = pa.record_batch({"a": pa.array(values * 2, pa.int64()), "b": pa.array(values * 2, pa.int64())})
    assert blob.decode(blob.encode(batch)).equals(batch)


few = st.lists(st.integers(-3, 200), min_size=64, max_size=99)
steps_of_any_kind = few | st.lists(st.integers(-3, 200) | integers, min_size=64, max_size=99)


@given(integers, steps_of_any_kind, st.sampled_from([32, 64]))
def test_values_that_count_up_survive(first: int, steps: list[int], bits: int) -> None:
    """Also where a step is larger than the type."""
    wrapped = [(value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in accumulate([first, *steps])]
    batch = pa.record_batch({"a": pa.array(wrapped, pa.int64() if bits == 64 else pa.int32())})
    assert blob.decode(blob.encode(batch)).equals(batch)


def test_every_type_survives() -> None:
    row = (
        7,
        -3,
        0.5,
        "é",
        True,
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        dt.date(2024, 1, 1),
        Decimal("1.25"),
    )
    rows = [dict(zip(WIDE.names, r, strict=True)) for r in (row, (None,) * 8) for _ in range(100)]
    batch = pa.RecordBatch.from_pylist(rows, WIDE)
    assert blob.decode(blob.encode(batch)).equals(batch)
    assert blob.decode(blob.encode(batch.slice(33, 90))).equals(batch.slice(33, 90))


def test_rows_without_columns_keep_their_number() -> None:
    batch = pa.record_batch({"a": [1, 2, 3]}).select([])
    assert blob.decode(blob.encode(batch)).num_rows == 3


def test_values_take_the_room_of_their_steps_or_distances() -> None:
    values = np.random.default_rng(1).integers(0, 10_000_000, 10_000) + 1_700_000_000_000_000
    for some, most in ((values, 4.2), (np.sort(values), 2.2), (np.arange(10_000), 0.2)):
        batch = pa.record_batch({"a": some})
        encoded = blob.encode(batch)
        assert encoded.size < most * len(values)
        assert blob.decode(encoded).equals(batch)


def test_split_covers_all_rows_in_order() -> None:
    batch = pa.record_batch({"a": list(range(1000))})
    parts = list(blob.split(batch, 1000))
    assert len(parts) == 8
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    assert [p.num_rows for p in blob.split(batch.slice(0, 0), 1000)] == [0]


@given(st.lists(st.none() | st.text(max_size=3), max_size=50), st.integers(1, 5))
def test_partitions_hold_every_row_once_and_equal_keys_together(keys: list[str | None], n: int) -> None:
    batch = pa.record_batch({"k": pa.array(keys, pa.string()), "row": pa.array(range(len(keys)), pa.int64())})
    parts = split_by(batch, partition_numbers([batch.column("k")], n, len(keys)), n)
    assert len(parts) == n
    assert sorted(r for p in parts for r in p.column("row").to_pylist()) == list(range(len(keys)))
    homes = [{k for k in p.column("k").to_pylist()} for p in parts]
    assert sum(map(len, homes)) == len(set(keys))


def test_floats_that_are_equal_go_together() -> None:
    keys = pa.array([0.0, -0.0, float("nan"), -float("nan"), None, None])
    numbers = partition_numbers([keys], 1 << 20, 6)
    assert len(set(numbers.tolist())) == 3


def test_record_sorts_and_survives() -> None:
    items = [(Envelope("b", 1, 0, 3, 1, 2), b"xyz"), (Envelope("a", 2), b""), (Envelope("a", 1, 1), b"q")]
    commands = [Command(2, "memory", {"bytes": 1}), Command(1, "memory", {"bytes": 2})]
    record = Record.of(items, commands)
    back = Record.parse(b"".join(record.parts()))
    assert back.commands == (commands[1], commands[0])
    assert [e for e, _ in back.items] == [items[2][0], items[1][0], items[0][0]]
    assert [bytes(b) for _, b in back.items] == [b"q", b"", b"xyz"]


@pytest.mark.parametrize("cut", [2, 10, -1])
def test_a_damaged_record_is_refused(cut: int) -> None:
    data = b"".join(Record.of([(Envelope("a", 1), b"abc")]).parts())
    with pytest.raises((EngineError, ValueError)):
        Record.parse(data[:cut])
