"""The map side without Spark: every row goes to one partition, every partition hears of the time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.stage import SIGN, TS
from penstock.errors import DataError
from penstock.expression import Column
from penstock.routing import Axis, Route, own_column
from penstock.spark.map_side.packer import KEEP, Packer, Packers, Split
from penstock.spark.wire import blob
from penstock.spark.wire.record import PRODUCER, PROGRESS, Envelope

NO_COPIES = pa.schema([])
STAMP = pa.timestamp("us", tz="UTC")


def split(partitions: int) -> Route:
    """One dimension, by a key."""
    return Route((Axis(partitions, (Column("S.k", pa.int64()),)),))


def packed(packer: Packer, *batches: pa.RecordBatch, limit: int = 1 << 20) -> list[tuple[int, Envelope, Any]]:
    """Key, envelope and rows of every blob."""
    return all_packed(Packers(((packer, tuple(range(len(packer.schema)))),), limit), *batches)


def all_packed(packers: Packers, *batches: pa.RecordBatch) -> list[tuple[int, Envelope, Any]]:
    out = []
    for row in packers.run(iter(batches)):
        (key,), (envelope,), (data,) = (column.to_pylist() for column in row.columns)
        out.append((key, Envelope.from_json(envelope), blob.decode(data) if data else None))
    return out


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.none() | st.integers(-9, 9), st.booleans())), st.integers(1, 4)
)
def test_rows_are_split_by_key_and_the_dropped_tell_the_time(rows: list[Any], partitions: int) -> None:
    schema = pa.schema([(TS, pa.int64()), (KEEP, pa.bool_()), ("S.k", pa.int64())])
    packer = Packer(
        "S", "S", schema, NO_COPIES, (Split(("S.k",)),), split(partitions), tuple(range(10, 10 + partitions))
    )
    columns = [[r[i] for r in rows] for i in (0, 2, 1)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema.names
    )
    out = packed(packer, batch.slice(0, len(rows) // 2), batch.slice(len(rows) // 2))
    assert [key for key, _, _ in out] == list(packer.keys)
    stamps = [ts for ts, _, _ in rows]
    assert {(e.min_ts, e.max_ts) for _, e, _ in out} == {
        (min(stamps, default=None), max(stamps, default=None))
    }
    # how far a row is behind one before it, the dropped ones included
    disorder = max((max(stamps[: n + 1]) - ts for n, ts in enumerate(stamps)), default=0)
    assert {e.disorder for _, e, _ in out} == {disorder}
    got = [
        row for _, _, part in out if part is not None for row in zip(*part.to_pydict().values(), strict=True)
    ]
    assert sorted(got, key=repr) == sorted(((ts, k) for ts, k, kept in rows if kept), key=repr)
    homes = [{r["S.k"] for r in part.to_pylist()} for _, _, part in out if part is not None]
    assert sum(map(len, homes)) == len({k for _, k, kept in rows if kept})
    assert all(e.total == len(got) for _, e, _ in out if rows)


def test_equal_keys_of_two_streams_meet() -> None:
    def homes(name: str, kind: pa.DataType) -> dict[int, int]:
        schema = pa.schema([(TS, pa.int64()), (name, kind)])
        packer = Packer(name, name, schema, NO_COPIES, (Split((name,)),), split(3), (0, 1, 2))
        batch = pa.record_batch([pa.array(range(50), pa.int64()), pa.array(range(50), kind)], schema=schema)
        return {r[name]: key for key, _, part in packed(packer, batch) for r in part.to_pylist()}

    assert homes("A", pa.int64()) == homes("B", pa.int32())


def test_a_row_is_packed_once_for_all_that_get_it() -> None:
    schema = pa.schema([(TS, pa.int64()), ("S.k", pa.int64())])
    route = Route((Axis(2), split(3).axes[0]))
    packer = Packer("S", "S", schema, NO_COPIES, (Split(("S.k",)),), route, tuple(range(6)))
    batch = pa.record_batch([pa.array(range(50), pa.int64())] * 2, schema=schema)
    got = {key: part.column("S.k").to_pylist() for key, _, part in packed(packer, batch)}
    assert [got[0], got[1], got[2]] == [got[3], got[4], got[5]]
    assert sorted(got[0] + got[1] + got[2]) == list(range(50))


def test_places_of_all_rows_go_to_all() -> None:
    schema = pa.schema([(TS, pa.int64()), ("S.k", pa.int64()), ("S.v", pa.string())])
    route = Route(split(2).axes, places=("S.k",))
    packer = Packer("S", "S", schema, NO_COPIES, (Split(("S.k",)),), route, (0, 1))
    columns = [pa.array(range(50), pa.int64())] * 2 + [pa.array(["x"] * 50)]
    parts = [part for _, _, part in packed(packer, pa.record_batch(columns, schema=schema))]
    for part in parts:
        assert part.column(TS).to_pylist() == part.column("S.k").to_pylist() == list(range(50))
        own = part.column(own_column("S")).to_pylist()
        assert part.column("S.v").to_pylist() == ["x" if m else None for m in own]
    assert all(a != b for a, b in zip(*(p.column(own_column("S")).to_pylist() for p in parts), strict=True))


def test_the_timestamp_is_sent_once() -> None:
    schema = pa.schema([(TS, pa.int64()), ("S.v", pa.int64())])
    batch = pa.record_batch([pa.array(range(1000), pa.int64())] * 2, schema=schema)
    copies = pa.schema([("S.ts", STAMP)])
    ((_, _, plain),) = packed(Packer("S", "S", schema, NO_COPIES, (), Route(), (0,)), batch)
    ((_, _, both),) = packed(Packer("S", "S", schema, copies, (), Route(), (0,)), batch)
    assert both.column("S.ts").cast(pa.int64()).equals(plain.column(TS))
    assert blob.encode(batch, copies).size < blob.encode(batch).size + 700


def test_one_scan_is_packed_for_two_splits_and_one_partition() -> None:
    columns = {TS: pa.int64(), "S.k": pa.int64(), "S.v": pa.int64()}

    def by(name: str, input: str) -> Packer:
        schema = pa.schema([(TS, pa.int64()), (name, pa.int64())])
        route = split(2) if input != "one" else Route((Axis(1, split(2).axes[0].keys),))
        return Packer(input, "S", schema, NO_COPIES, (Split((name,)),), route, (0, 1))

    packers = Packers(((by("S.k", "k"), (0, 1)), (by("S.v", "v"), (0, 2)), (by("S.v", "one"), (0, 2))))
    times, keys, values = range(40), [1] * 40, [n % 7 for n in range(40)]
    arrays = [pa.array(c, pa.int64()) for c in (times, keys, values)]
    out = all_packed(packers, pa.record_batch(arrays, names=list(columns)))
    assert [(e.input, key) for key, e, _ in out] == [(n, k) for n in ("k", "v", "one") for k in (0, 1)]
    assert {(e.min_ts, e.max_ts) for _, e, _ in out} == {(0, 39)}
    rows = {(e.input, key): e.rows for key, e, _ in out}
    assert sorted([rows["k", 0], rows["k", 1]]) == [0, 40] and rows["v", 0] + rows["v", 1] == 40
    assert (rows["one", 0], rows["one", 1]) == (40, 0)


def test_large_inputs_come_in_pieces() -> None:
    schema = pa.schema([(TS, pa.int64())])
    packer = Packer("S", "S", schema, NO_COPIES, (), Route(), (0,))
    batches = [pa.record_batch([pa.array([n] * 100, pa.int64())], schema=schema) for n in range(10)]
    out = packed(packer, *batches, limit=1000)
    assert [e.piece for _, e, _ in out] == list(range(5))
    assert [ts for _, _, part in out for ts in part.column(TS).to_pylist()[::100]] == list(range(10))


def test_rows_without_time_or_sign_are_refused() -> None:
    schema = pa.schema([(TS, pa.int64()), (SIGN, pa.int8())])
    packer = Packer("S", "S", schema, NO_COPIES, (), Route(), (0,))
    with pytest.raises(DataError, match="stream 'S': 1 of 2 rows have a NULL timestamp, the first"):
        packed(
            packer,
            pa.record_batch([pa.array([1, None], pa.int64()), pa.array([1, 1], pa.int8())], schema=schema),
        )
    with pytest.raises(DataError, match="relation 'S': 1 rows are marked neither"):
        packed(
            packer,
            pa.record_batch([pa.array([1, 2], pa.int64()), pa.array([1, None], pa.int8())], schema=schema),
        )


def test_reports_of_progress_go_to_every_partition_beside_the_rows() -> None:
    """Rows of a query that another reads; its partitions 0 and 1 are read in one task."""
    schema = pa.schema([(TS, pa.int64()), ("S.k", pa.int64())])
    packer = Packer("S", "S", schema, NO_COPIES, (Split(("S.k",)),), split(2), (10, 11))
    wide = pa.schema([*schema, (PRODUCER, pa.int32()), (PROGRESS, pa.int64())])
    rows = [
        (1, 7, None, None),
        (2, 7, None, None),
        (None, None, 0, 5),
        (9, 8, None, None),
        (None, None, 1, 4),
    ]
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), wide, strict=True)]
    out = all_packed(
        Packers(((packer, (0, 1)),), reports=2), pa.RecordBatch.from_arrays(columns, schema=wide)
    )
    reports = [(key, e.producer, e.progress) for key, e, _ in out if e.progress is not None]
    assert reports == [(10, 0, 5), (11, 0, 5), (10, 1, 4), (11, 1, 4)]
    assert {(e.min_ts, e.max_ts, e.total) for _, e, _ in out if e.progress is None} == {(1, 9, 3)}
    assert len({(key, *e.place) for key, e, _ in out}) == len(out)
    only = pa.RecordBatch.from_arrays([c.slice(2, 1) for c in columns], schema=wide)
    assert [e.rows for _, e, _ in all_packed(Packers(((packer, (0, 1)),), reports=2), only)] == [0] * 4
