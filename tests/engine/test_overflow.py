"""State beyond the memory limit is in files without names: same results; a full disk loses nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from local_host import Partition
from longer import sized

from penstock.catalog import Input, InputOptions
from penstock.cql.query import bind
from penstock.cql.statements import parse
from penstock.engine import overflow
from penstock.engine.element import Chunk
from penstock.engine.overflow import Memory
from penstock.engine.stage import SIGN, TS, Arrival, MemoryLimit
from penstock.errors import EngineError
from penstock.measurement import Property, decode, encode, measured
from penstock.plan.compile import compile
from penstock.settings import Settings

ROW = pa.schema([("k", pa.int64()), ("v", pa.string())])
JOIN = "SELECT S.v, T.v AS w FROM S [RANGE 1000], T [ROWS 2000] WHERE S.k = T.k"
QUERIES = {
    "join": JOIN,
    "tree": "SELECT S.v FROM S [RANGE 1000] JOIN T [RANGE 900] ON S.k < T.k AND T.k < 3",
    "groups": "SELECT v, COUNT(*) AS n, MAX(k) AS m FROM S [ROWS 1500] GROUP BY v",
    "median": "SELECT k, MEDIAN(k) AS m, COUNT(DISTINCT v) AS d FROM S [RANGE 700] GROUP BY k",
    "difference": "SELECT v FROM S [RANGE 800] EXCEPT ALL SELECT v FROM T [RANGE 900]",
    "sessions": "SELECT k, COUNT(*) AS n FROM S [SESSION 3 PARTITION BY k] GROUP BY k",
    "first rows": "SELECT k, v FROM S [RANGE 600] ORDER BY k, v LIMIT 5",
    "slices": "SELECT k, COUNT(*) AS n FROM S [RANGE 500 SLIDE 100] GROUP BY k",
}


def partition_of(query: str, limit: int | None, directory: Path | None = None, **how: Any) -> Partition:
    (statement,) = parse(query)
    catalog = {name: Input(name, ROW, InputOptions(skew=30)) for name in "ST"}
    folder = None if directory is None else str(directory)
    settings = Settings(memory_limit=limit, overflow_directory=folder, **how)
    return Partition(compile(bind(statement, catalog), 1, settings).stages[0].stage)


def steps(
    partition: Partition, count: int, first: int = 0, rows: int = sized(400, 700)
) -> Iterator[list[Arrival]]:
    """Batches of all streams; values of varying width."""
    for number in range(first, first + count):
        arrivals = []
        for i in partition.stage.inputs:
            die = np.random.default_rng([number, ord(i.name[0])])
            ts = np.arange(number * rows, (number + 1) * rows)
            k = die.integers(0, 400, rows)
            both = {"k": pa.array(k), "v": pa.array(["x" * int(n % 40) + str(n % 7) for n in k])}
            own = {f.name: both[f.name.partition(".")[2]] for f in i.schema}
            batch = pa.RecordBatch.from_pydict({TS: pa.array(ts), **own})
            arrivals.append(Arrival(i.name, 0, batch, int(ts[0]), int(ts[-1])))
        yield arrivals


def published(partition: Partition, prop: Property) -> float:
    return measured(decode(encode(partition.engine.measure()))).entity("engine").value(prop)


def changes(partition: Partition, arrivals: list[Arrival]) -> list[tuple[Any, ...]]:
    batch = partition.step(arrivals).only.batch
    names = [n for n in batch.schema.names if n not in (TS, SIGN)]
    columns = [batch.column(n).to_pylist() for n in (TS, SIGN, *names)]
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.some(3)
def test_results_do_not_depend_on_where_state_is(query: str, tmp_path: Path) -> None:
    kept, moved = partition_of(query, None), partition_of(query, 1, tmp_path, slice_rows=100)
    for number, arrivals in enumerate(steps(kept, 6)):
        assert changes(kept, arrivals) == changes(moved, arrivals), number
        assert not os.listdir(tmp_path)
        assert published(moved, Property.OVERFLOWED) > sized(1_000, 10_000)
        if number == 2:
            moved.rebuild()
        if number == 4:
            moved.snapshot(whole=True)
            moved.rebuild()
    assert not published(kept, Property.OVERFLOWED)


def test_what_fits_stays_and_payload_goes_first(tmp_path: Path) -> None:
    partition = partition_of(JOIN, None)
    for arrivals in steps(partition, 3):
        partition.step(arrivals)
    held = partition.engine.state_bytes()
    for limit, moves in ((2 * held, False), (held * 3 // 4, True)):
        partition = partition_of(JOIN, limit, tmp_path)
        for arrivals in steps(partition, 3):
            partition.step(arrivals)
        assert bool(published(partition, Property.OVERFLOWED)) is moves
        assert partition.engine._memory.held <= limit
    windows = [store for entity in partition.engine.entities for store in entity.stores.values()]
    assert windows
    lives = [isinstance(store.lives.base, overflow.mmap.mmap) for store in windows]
    assert not any(lives)


def test_memory_of_results_that_wait_in_queues() -> None:
    memory = Memory(MemoryLimit(10_000))
    batch = pa.RecordBatch.from_pydict({"v": ["some text"] * 500})
    chunk = Chunk.of(np.arange(500), batch)
    with memory.in_use():
        first, second = overflow.waiting(chunk), overflow.waiting(chunk)
        assert first is chunk and second is not chunk and second.columns.equals(batch)
        overflow.taken(first)
        assert overflow.waiting(chunk) is chunk
    assert overflow.waiting(chunk) is chunk and overflow.zeros((9999,), np.int64).base is None


def test_arrays_that_share_memory_stay_together() -> None:
    class Synopsis:
        __module__ = "penstock.test"

        def __init__(self) -> None:
            self.all = np.zeros(4000, np.int64)
            self.part = self.all[1000:]
            self.again = [self.all, (self.all, 7)]
            self.other = np.zeros(4000, np.int64)
            self.twice = self.other

    synopsis, memory = Synopsis(), Memory(MemoryLimit(1))
    memory.settle([synopsis])
    synopsis.all[1000] = synopsis.other[5] = 3
    assert synopsis.part[0] == synopsis.again[0][1000] == synopsis.again[1][0][1000] == 3
    assert synopsis.twice is synopsis.other and memory.on_disk == 32_000
    del synopsis.other, synopsis.twice
    assert not memory.on_disk


def test_a_full_disk_is_an_error_that_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept, partition = partition_of(JOIN, None), partition_of(JOIN, 50_000, tmp_path)
    batches = list(steps(kept, 4))
    found = [changes(kept, arrivals) for arrivals in batches]
    assert [changes(partition, arrivals) for arrivals in batches[:2]] == found[:2]
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_room)
        told = f"cannot be written to {tmp_path}: No space left on device; make room there, SET penstock.over"
        with pytest.raises(EngineError, match=told):
            partition.step(batches[2])
    assert not os.listdir(tmp_path)
    partition.log.pop()  # the host does not log a step that failed
    partition.rebuild()
    assert [changes(partition, arrivals) for arrivals in batches[2:]] == found[2:]
