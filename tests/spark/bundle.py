"""Many queries in one streaming query, each through all that Penstock does on Spark.

A streaming query takes seconds, whatever it does, so the cases of a bundle share one: their elements lie in
the same files, marked with the case and the input they are of; one scan computes what Catalyst computes for
every input of every case, each over its own rows; one task packs the blobs; one stateful operator a stage
holds the relays of all cases, which have keys, logs and resident engines of their own. The parts are those
of ``dataframe.dataframe``; only the last step differs, where a case's results stay packed till the driver
reads them. Commands come with the rows of a batch instead of a source of their own.

The table D of a case lies in files, which its manner changes: before a batch, as by REFRESH TABLE, or while
the bundle is stopped and started again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.catalog import Catalog, Input, TableDef
from penstock.engine.command import Command
from penstock.engine.stage import SIGN, TS
from penstock.evaluation import Change, Finite, changes, own_columns, plan_of, read_inputs
from penstock.plan.physical import PhysicalPlan, SourceInput, TableInput
from penstock.schema import TimeDomain
from penstock.spark.driver import commands, dataframe, exchange
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.dataframe import result_schema
from penstock.spark.driver.evaluate import HEARTBEAT
from penstock.spark.driver.sources import InputFrame
from penstock.spark.driver.tables import QueryTables, read
from penstock.spark.map_side.packer import Packers
from penstock.spark.relay.processor import Finish, Relay
from penstock.spark.relay.result import Forward
from penstock.spark.wire.protocol import Message
from penstock.spark.wire.record import command_to_json
from penstock.spark.wire.results import shown

if TYPE_CHECKING:
    from local_host import Manner
    from strategies import Case

RESULTS = "case INT, blob BINARY"
COMMAND = "#command"
MARKS = pa.schema(
    [("case", pa.int32()), ("input", pa.string()), (HEARTBEAT, pa.bool_()), (COMMAND, pa.string())]
)
"""What a row has beside its own columns."""
NEVER = -1
"""The end of a time that has not begun."""


class Stored:
    """A query's command stream as its tables see it; ``sent`` are those of the next batch."""

    runs, run_id = True, ""

    def __init__(self, directory: Directory) -> None:
        self.directory, self.sent = directory, list[Command]()

    def append(self, kind: str, content: dict[str, Any]) -> None:
        self.sent.append(commands.store(self.directory, kind, content))


@dataclass
class Member:
    """One case of a bundle: its inputs, its end of time, how it runs and its plan."""

    number: int
    finite: Finite
    end: int
    manner: Manner
    plan: PhysicalPlan
    root: Path
    commands: Stored
    tables: QueryTables | None = None

    def keys(self, stage: int) -> tuple[int, ...]:
        """Grouping keys that no other case or stage has."""
        return tuple(self.number * 100 + stage * 10 + p for p in range(self.plan.stages[stage].partitions))

    def sources(self) -> list[SourceInput]:
        return [i for i in self.plan.stages[0].inputs if isinstance(i, SourceInput)]

    def start(self, new: bool) -> None:
        """As a query starts: read the tables, and send what differs from those that the query holds."""
        inputs = self.plan.stages[0].inputs
        self.first = {i.name: read(i) for i in inputs if isinstance(i, TableInput)}
        self.tables = QueryTables(inputs, self.plan.stages[0].stage.inputs, self.first)
        self.tables.open(self.commands, self.commands.directory, new)  # type: ignore[arg-type]

    def change(self, number: int, stopped: bool) -> None:
        """The table as it is from a batch on, if it changes; read at once unless the query is stopped."""
        rows = dict(self.manner.versions).get(number)
        if rows is None:
            return
        write_table(self.root / "D", pa.Table.from_pylist(list(rows), self.finite.tables["D"].schema))
        if not stopped:
            assert self.tables is not None
            self.tables.refresh("D")

    def batch(self, number: int) -> Iterator[dict[str, Any]]:
        """Rows of a batch; the last one ends time."""
        for command in self.commands.sent:
            yield {"case": self.number, COMMAND: command_to_json(command)}
        self.commands.sent.clear()
        for name, rows in self.finite.streams.items():
            marks = {"case": self.number, "input": name, HEARTBEAT: False}
            edges = self.manner.edges(rows.column(TS).to_pylist())
            if number + 1 < len(edges):
                mine = rows.slice(edges[number], edges[number + 1] - edges[number])
                yield from ({**marks, **row} for row in mine.to_pylist())
            else:
                yield {**marks, HEARTBEAT: True, TS: self.end + 1}

    def relay(self, stage: int) -> Relay:
        last = stage == len(self.plan.stages) - 1
        finish: Finish = Packed(self.number) if last else Forward(self.keys(stage + 1))
        program = cloudpickle.dumps(dataframe.program(self.plan, stage, self.first))
        said = dataframe.fingerprint(self.plan.stages[stage], stage)
        return Relay(program, self.number * 10 + stage, self.keys(stage), said, finish)

    def read(self, blob: bytes) -> Iterator[Change]:
        """Results as the user would get them, as changes again."""
        names, schema = self.plan.schema.names, result_schema(self.plan)
        with pa.ipc.open_stream(blob) as reader:
            batch = reader.read_next_batch()
        ts, *columns = shown(batch, schema, self.plan.kind).values()
        payload = columns[len(columns) - len(names) :]
        elements = pa.RecordBatch.from_arrays([ts, batch.column(SIGN), *payload], names=[TS, SIGN, *names])
        yield from changes(elements, names)


@dataclass(frozen=True)
class Packed:
    """The last stage's results, as they come from the engine."""

    case: int

    def __call__(
        self, result: Message | None, commands: Sequence[Command], told: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        if result is not None:
            yield pd.DataFrame({"case": [self.case], "blob": [bytes(result.body)]})


class Relays(StatefulProcessor):
    """The relays of one stage of many cases, by their keys; the state store keeps keys apart."""

    def __init__(self, relays: dict[int, Relay]) -> None:
        self.relays = relays

    def init(self, handle: StatefulProcessorHandle) -> None:
        first, *others = dict.fromkeys(self.relays.values())
        first.init(handle)
        for relay in others:
            relay.entries = first.entries

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Any:
        yield from self.relays[key[0]].handleInputRows(key, rows, timerValues)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class CasePackers:
    """Packs the rows of every input of every case, each a column of structs, and passes commands on."""

    packers: dict[str, Packers]
    keys: dict[int, tuple[int, ...]]
    """By case, those of its first stage."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        there = list(batches)
        for name, packer in self.packers.items():
            structs = [batch.column(name).drop_null() for batch in there]
            yield from packer.run([pa.RecordBatch.from_struct_array(s) for s in structs if len(s)])
        for batch in there:
            sent = zip(batch.column("case").to_pylist(), batch.column(COMMAND).to_pylist(), strict=True)
            found = [(key, text, b"") for case, text in sent if text for key in self.keys.get(case, ())]
            columns = list(zip(*found, strict=True)) or [[], [], []]
            types = (pa.int32(), pa.string(), pa.binary())
            arrays = [pa.array(c, type_) for c, type_ in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["partition", "envelope", "blob"])


def run(
    cases: Sequence[Case],
    spark: SparkSession,
    root: Path,
    manners: Sequence[Manner],
    stopped: int | None = None,
) -> list[list[Change]]:
    """The changes of each case, run in its manner: all have as many batches.

    ``stopped``: the batch before which the bundle is stopped and started again.
    """
    from own_aggregates import own_definitions  # Spark's workers import this file, and cannot import that

    (root / "input").mkdir(parents=True)
    inputs = [read_inputs(case.inputs, case.schemas, TimeDomain(), case.constraints) for case in cases]
    schema = pa.unify_schemas([MARKS, *(rows.schema for i in inputs for rows in i.streams.values())])
    reader = spark.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(root / "input"))
    members = []
    for number, (case, finite, manner) in enumerate(zip(cases, inputs, manners, strict=True)):
        limited = "SET penstock.memory_limit = 4 KB; " if number % 4 == 3 else ""  # its state is on disk
        own = root / f"case{number}"
        known, functions = _catalog(finite, stream, spark, own), own_definitions().values()
        plan = plan_of(limited + case.cql, known, functions, manner.partitions)
        end, sent = finite.last_instant(case.until), Stored(Directory(spark, str(own)))
        members.append(Member(number, finite, NEVER if end is None else end, manner, plan, own, sent))
    found: dict[int, list[Change]] = {m.number: [] for m in members}
    (batches,) = {len(m.manner.cuts) + 2 for m in members}
    for numbers in (range(batches),) if stopped is None else (range(stopped), range(stopped, batches)):
        _write(members, schema, root / "input", numbers)
        for stages in {len(m.plan.stages) for m in members}:
            alike = [m for m in members if len(m.plan.stages) == stages]
            for row in _collect(_dataframe(alike, stream, stages), root / f"checkpoint{stages}"):
                found[row.case] += members[row.case].read(row.blob)
    return [sorted((c for c in found[m.number] if c[0] <= m.end), key=lambda c: c[0]) for m in members]


def write_table(directory: Path, rows: pa.Table) -> None:
    """The rows that the table of a case has from now on."""
    directory.mkdir(parents=True, exist_ok=True)
    old = list(directory.iterdir())
    pq.write_table(rows, directory / f"{os.urandom(8).hex()}.parquet")
    for file in old:
        file.unlink()


def _catalog(finite: Finite, stream: DataFrame, spark: SparkSession, root: Path) -> Catalog:
    """The inputs of a case as columns of the stream that has them all."""
    catalog = Catalog()
    for name, rows in finite.streams.items():
        source = InputFrame(stream, F.col(TS), F.col(SIGN) if SIGN in rows.schema.names else None)
        kind = "stream" if source.sign is None else "relation"
        schema = own_columns(rows.schema)
        options = replace(finite.options(name), heartbeat=HEARTBEAT)
        catalog[name] = Input(name, schema, options, kind, source)
    for name, rows in finite.tables.items():
        write_table(root / name, rows)
        df = spark.read.schema(from_arrow_schema(rows.schema)).parquet(str(root / name))
        catalog[name] = TableDef(name, rows.schema, InputFrame(df))
    return catalog


def _write(members: Sequence[Member], schema: pa.Schema, directory: Path, numbers: range) -> None:
    """Start the cases, and write a file for each batch with what each case then gets."""
    for m in members:
        if numbers[0]:
            m.change(numbers[0], stopped=True)
        m.start(new=not numbers[0])
    for number in numbers:
        rows = []
        for m in members:
            if number > numbers[0] or not number:
                m.change(number, stopped=False)
            rows += m.batch(number)
        path = directory / f"batch-{number:05}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        os.utime(path, (number, number))  # Spark takes older files first


def _dataframe(members: Sequence[Member], stream: DataFrame, stages: int) -> DataFrame:
    """Like ``dataframe.dataframe``, for plans that all have so many stages."""
    blobs = _pack(members, stream)
    for stage in range(stages):
        relays = {}
        for m in members:
            relays |= dict.fromkeys(m.keys(stage), m.relay(stage))
        output = RESULTS if stage == stages - 1 else exchange.BLOBS
        grouped = blobs.groupBy("partition")
        blobs = grouped.transformWithStateInPandas(Relays(relays), output, "Append", "None")
    return blobs


def _pack(members: Sequence[Member], stream: DataFrame) -> DataFrame:
    packers, columns = dict[str, Packers](), []
    for m in members:
        for number, source in enumerate(m.sources()):
            name = f"case{m.number}_{number}"
            scan = exchange.Scan.of([source], m.keys(0))
            fields, packers[name] = scan.columns, scan.packers
            mine = (F.col("case") == m.number) & (F.col("input") == source.stream.name)
            columns.append(F.when(mine, F.struct(*fields)).alias(name))
    keys = {m.number: m.keys(0) for m in members}
    shown = stream.select("case", f"`{COMMAND}`", *columns)
    return shown.mapInArrow(CasePackers(packers, keys).run, exchange.BLOBS)


def _collect(df: DataFrame, checkpoint: Path) -> list[Any]:
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return rows
