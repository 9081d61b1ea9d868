"""Many queries in one streaming query, each through all that Penstock does on Spark.

A streaming query takes seconds, whatever it does, so the cases of a bundle share one: their elements lie in
the same files, marked with the case and the input they are of; one scan computes what Catalyst computes for
every input of every case, each over its own rows; one task packs the blobs; one stateful operator a stage
holds the relays of all cases, which have keys, logs and resident engines of their own. The parts are those
of ``dataframe.dataframe``; only the last step differs, where a case's results stay packed till the driver
reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

from penstock.catalog import Catalog, Input, InputOptions, TableDef
from penstock.engine.command import Command
from penstock.engine.stage import SIGN, TS
from penstock.evaluation import Change, Finite, changes, own_columns, plan_of, read_inputs
from penstock.plan.physical import PhysicalPlan, SourceInput, TableInput
from penstock.schema import TimeDomain
from penstock.spark.driver import dataframe, exchange
from penstock.spark.driver.dataframe import result_schema
from penstock.spark.driver.evaluate import HEARTBEAT, table
from penstock.spark.driver.sources import InputFrame
from penstock.spark.driver.tables import read
from penstock.spark.map_side.packer import Packers
from penstock.spark.relay.processor import Finish, Relay
from penstock.spark.relay.result import Forward
from penstock.spark.wire.protocol import Message
from penstock.spark.wire.results import shown

if TYPE_CHECKING:
    from strategies import Case

RESULTS = "case INT, blob BINARY"
MARKS = pa.schema([("case", pa.int32()), ("input", pa.string()), (HEARTBEAT, pa.bool_())])
"""What a row has beside its own columns."""
NEVER = -1
"""The end of a time that has not begun."""


@dataclass(frozen=True)
class Member:
    """One case of a bundle: its inputs, its end of time and its plan."""

    number: int
    finite: Finite
    end: int
    plan: PhysicalPlan

    def keys(self, stage: int) -> tuple[int, ...]:
        """Grouping keys that no other case or stage has."""
        return tuple(self.number * 100 + stage * 10 + p for p in range(self.plan.stages[stage].partitions))

    def sources(self) -> list[SourceInput]:
        return [i for i in self.plan.stages[0].inputs if isinstance(i, SourceInput)]

    def relay(self, stage: int) -> Relay:
        last = stage == len(self.plan.stages) - 1
        finish: Finish = Packed(self.number) if last else Forward(self.keys(stage + 1))
        tables = {i.name: read(i) for i in self.plan.stages[0].inputs if isinstance(i, TableInput)}
        program = cloudpickle.dumps(dataframe.program(self.plan, stage, tables))
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

    def __call__(self, result: Message, commands: Sequence[Command]) -> Iterator[pd.DataFrame]:
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
    """Packs the rows of every input of every case; each has a column of structs for its own."""

    packers: dict[str, Packers]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        there = list(batches)
        for name, packer in self.packers.items():
            structs = [batch.column(name).drop_null() for batch in there]
            yield from packer.run([pa.RecordBatch.from_struct_array(s) for s in structs if len(s)])


def run(
    cases: Sequence[Case], spark: SparkSession, root: Path, partitions: int, batches: int
) -> list[list[Change]]:
    """The changes of each case."""
    (root / "input").mkdir(parents=True)
    inputs = [read_inputs(case.inputs, case.schemas, TimeDomain()) for case in cases]
    schema = pa.unify_schemas([MARKS, *(rows.schema for i in inputs for rows in i.streams.values())])
    reader = spark.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(root / "input"))
    members = []
    for number, (case, finite) in enumerate(zip(cases, inputs, strict=True)):
        limited = "SET penstock.memory_limit = 4 KB; " if number % 4 == 3 else ""  # its state is on disk
        plan = plan_of(limited + case.cql, _catalog(finite, stream, spark), (), partitions)
        end = finite.last_instant(case.until)
        members.append(Member(number, finite, NEVER if end is None else end, plan))
    _write(members, schema, root / "input", batches)
    found: dict[int, list[Change]] = {m.number: [] for m in members}
    for stages in {len(m.plan.stages) for m in members}:
        alike = [m for m in members if len(m.plan.stages) == stages]
        for row in _collect(_dataframe(alike, stream, stages), root / f"checkpoint{stages}"):
            found[row.case] += members[row.case].read(row.blob)
    return [sorted((c for c in found[m.number] if c[0] <= m.end), key=lambda c: c[0]) for m in members]


def _catalog(finite: Finite, stream: DataFrame, spark: SparkSession) -> Catalog:
    """The inputs of a case as columns of the stream that has them all."""
    catalog = Catalog()
    for name, rows in finite.streams.items():
        source = InputFrame(stream, F.col(TS), F.col(SIGN) if SIGN in rows.schema.names else None)
        kind = "stream" if source.sign is None else "relation"
        schema = own_columns(rows.schema)
        options = InputOptions(finite.time, heartbeat=HEARTBEAT)
        catalog[name] = Input(name, schema, options, kind, source)
    for name, rows in finite.tables.items():
        catalog[name] = TableDef(name, rows.schema, InputFrame(table(spark, rows)))
    return catalog


def _write(members: Sequence[Member], schema: pa.Schema, directory: Path, batches: int) -> None:
    """A file a batch with what each case then gets, and one with the heartbeats that end time."""
    files: list[list[dict[str, Any]]] = [[] for _ in range(batches + 1)]
    for m in members:
        for number, part in enumerate(m.finite.slices(batches)):
            for name, rows in part.items():
                marks = {"case": m.number, "input": name, HEARTBEAT: False}
                files[number] += [{**marks, **row} for row in rows.to_pylist()]
        marks = {"case": m.number, HEARTBEAT: True, TS: m.end + 1}
        files[-1] += [{**marks, "input": name} for name in m.finite.streams]
    for number, rows in enumerate(files):
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
            shown, packers[name] = scan.columns, scan.packers
            mine = (F.col("case") == m.number) & (F.col("input") == source.stream.name)
            columns.append(F.when(mine, F.struct(*shown)).alias(name))
    return stream.select(*columns).mapInArrow(CasePackers(packers).run, exchange.BLOBS)


def _collect(df: DataFrame, checkpoint: Path) -> list[Any]:
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return rows
