"""Commands beside a checkpoint and the tables that they change, without Spark: folded, restarted, damaged."""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from fake_directory import FakeDirectory, FakeSpark

from penstock.catalog import Input, InputOptions, TableDef
from penstock.cql import bind
from penstock.engine.command import Command
from penstock.engine.tables import Tables, after, as_batch, changes_of
from penstock.errors import CatalogError, EngineError
from penstock.plan import compile
from penstock.spark.driver import commands
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.commands import CommandStream
from penstock.spark.driver.tables import QueryTables
from penstock.spark.wire.record import command_from_json

ROW = pa.schema([("k", pa.int64()), ("name", pa.string())])
CATALOG = {
    "S": Input("S", pa.schema([("k", pa.int64())]), InputOptions(), "stream"),
    "T": TableDef("T", ROW),
}


class World:
    """A table, a query that holds it, and an engine, over batches, refreshes and restarts."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commands, "DataFrame", lambda *_: None)
        self.directory = cast(Directory, FakeDirectory(root))
        self.rows: list[dict[str, Any]] = [{"k": 1, "name": "one"}]
        (planned,) = compile(bind("SELECT S.k, T.name FROM S LEFT JOIN T ON S.k = T.k", CATALOG)).stages
        self.inputs, self.schemas = planned.inputs, planned.stage.inputs
        (self.schema,) = [i.schema for i in self.schemas if i.name == "T"]
        monkeypatch.setattr(QueryTables, "_read", lambda tables, inputs: dict.fromkeys(inputs, self.now))
        self.engine: Tables = {"T": self.now}
        self.taken: list[Command] = []
        self.committed = 0
        self.start(new=True)

    @property
    def now(self) -> pa.RecordBatch:
        columns = {f.name: [r[f.name.partition(".")[2] or f.name] for r in self.rows] for f in self.schema}
        return as_batch(pa.table(columns, schema=self.schema), self.schema)

    def start(self, new: bool = False) -> None:
        """Start, or start again from the checkpoint, in a new process."""
        self.spark = FakeSpark()
        self.stream = CommandStream(cast(Any, self.spark))
        first = {"T": pa.Table.from_batches([self.now])} if new else {"T": self.schema.empty_table()}
        self.tables = QueryTables(self.inputs, self.schemas, first)
        self.tables._just_read = new
        self.stream.open(self.directory, new)
        self.tables.open(self.stream, self.directory, new)
        run = str(uuid.uuid4())
        self.query = SimpleNamespace(isActive=True, runId=run, id="q", name="q", lastProgress=None)
        self.stream.started(cast(Any, self.query))

    def batch(self) -> None:
        """A batch has all commands that there are; it is committed when the next one begins."""
        before, self.committed = self.committed, len(self.spark.added)
        fresh = [command_from_json(text) for texts in self.spark.added[before:] for text in texts]
        self.taken += fresh
        self.engine = after(self.engine, changes_of(fresh))
        source = {"description": "MemoryStream[value#1]", "startOffset": str(before - 1) if before else None}
        self.query.lastProgress = {"sources": [source, {"description": "Parquet", "startOffset": None}]}

    def refresh(self, random: Random) -> None:
        names = random.choices(["one", "two", "three"], k=3)
        self.rows = [{"k": random.randrange(3), "name": n} for n in names[: random.randrange(4)]]
        self.tables.refresh("T")

    def files(self) -> list[str]:
        return sorted(self.directory.names(commands.FOLDER))

    def check(self) -> None:
        """The engine holds the table as it is now, and had every command once."""
        self.batch()
        assert sorted(map(str, self.engine["T"].to_pylist())) == sorted(map(str, self.now.to_pylist()))
        numbers = [c.sequence for c in self.taken]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("seed", range(20))
def test_the_engine_has_the_table_whatever_was_folded(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "FOLDED_FROM", 3)
    random, world = Random(seed), World(tmp_path, monkeypatch)
    for _ in range(40):
        if random.random() < 0.6:
            world.refresh(random)
        if random.random() < 0.6:
            world.batch()
        if random.random() < 0.1:
            world.query.isActive = False
            world.refresh(random) if random.random() < 0.5 else None  # while nothing runs
            world.start()
    world.check()
    assert any(name.startswith("folded") for name in world.files())


def test_many_refreshes_leave_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "FOLDED_FROM", 3)
    world = World(tmp_path, monkeypatch)
    for n in range(30):
        world.rows = [{"k": 1, "name": f"one {n}"}]
        world.tables.refresh("T")
        world.batch()
        assert len(world.files()) <= 6
    world.start()
    world.check()
    assert len(world.taken) == 30, "nothing differs, so nothing is sent"


def test_a_memory_stream_has_the_same_offsets_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was not committed takes them again."""
    monkeypatch.setattr(commands, "FOLDED_FROM", 3)
    world = World(tmp_path, monkeypatch)
    for n in range(9):
        world.rows = [{"k": n, "name": "n"}]
        world.tables.refresh("T")
        if n < 7:
            world.batch()
    before = world.spark.added
    world.start()
    assert world.spark.added[7:] == before[7:] and len(world.spark.added) == len(before)


def test_a_checkpoint_with_a_gap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    for n in (1, 2):
        world.rows = [{"k": n, "name": "n"}]
        world.tables.refresh("T")
    world.directory.delete("commands/00000001.json")
    with pytest.raises(EngineError, match=r"numbered \[2\], not 1 to 1"):
        world.start()


def test_two_queries_of_one_writer_take_no_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    world.stream.open(world.directory)
    with pytest.raises(CatalogError, match="started from one writer"):
        world.refresh(Random(1))
