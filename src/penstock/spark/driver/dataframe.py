"""A physical plan as a streaming DataFrame: map side, exchange and processor of every stage."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.catalog import Input
from penstock.errors import EngineError
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage, SourceInput, TableInput
from penstock.settings import Settings
from penstock.spark.driver import exchange
from penstock.spark.driver.checkpoint import QueryFrame, fingerprint
from penstock.spark.driver.exchange import partition_keys
from penstock.spark.relay.processor import Finish, Relay
from penstock.spark.relay.result import Forward, Rows
from penstock.spark.resident.late_rows import Declared, LateRows
from penstock.spark.resident.program import Downstream, Program


def dataframe(plan: PhysicalPlan, settings: Settings | None = None, **engine: Any) -> DataFrame:
    """The streaming DataFrame that runs a plan; ``engine`` replaces parts of the programs, for tests."""
    given = settings or Settings()
    fingerprints = [fingerprint(s, number) for number, s in enumerate(plan.stages)]
    placements = [partition_keys(s.partitions) for s in plan.stages]
    schema = result_schema(plan)
    df: DataFrame | None = None
    for number, planned in enumerate(plan.stages):
        last = number == len(plan.stages) - 1
        late = late_rows(given.late_rows, planned)
        own = {"memory": given.engine_memory, "late": late, **engine}
        relayed = replace(program(plan, number), **own)
        finish: Finish = Rows(schema, plan.kind) if last else Forward(placements[number + 1])
        output = from_arrow_schema(schema) if last else exchange.BLOBS
        keys = placements[number]
        memory = plan.shared_memory if number == 0 else None
        relay = Relay(cloudpickle.dumps(relayed), number, keys, fingerprints[number], finish, memory)
        blobs = _blobs(planned, keys, df)
        df = blobs.groupBy("partition").transformWithStateInPandas(relay, output, "Append", "None")
    if df is None:
        raise EngineError("a plan without stages")
    return QueryFrame(df, fingerprints)


def _blobs(planned: PlannedStage, keys: tuple[int, ...], before: DataFrame | None) -> DataFrame:
    """Everything that a stage reads, as one DataFrame of blobs."""
    sources = [i for i in planned.inputs if isinstance(i, SourceInput)]
    parts = [exchange.pack(sources, keys)] if sources else []
    if any(isinstance(i, ExchangeInput) for i in planned.inputs):
        assert before is not None
        parts.append(before)
    return reduce(DataFrame.unionAll, parts)


def program(plan: PhysicalPlan, number: int) -> Program:
    """What the engines of a stage run, its tables read."""
    planned = plan.stages[number]
    tables = {i.name: table(i) for i in planned.inputs if isinstance(i, TableInput)}
    stage = replace(planned.stage, tables={**planned.stage.tables, **tables})
    if number + 1 == len(plan.stages):
        return Program(stage)
    following = plan.stages[number + 1]
    reads = [i for i in following.inputs if isinstance(i, ExchangeInput)]
    return Program(stage, Downstream(reads[0].name, following.partitions, reads[0].partition_by))


def table(source: TableInput) -> pa.Table:
    """A static table's pushed columns and rows, read once."""
    rows = exchange.project(source.columns, source.filter, source.alias, source.table.source.df).toArrow()
    # The first column only keeps the number of rows where no other is needed.
    shown = zip(source.columns, rows.columns[1:], strict=True)
    named = {name: column.cast(e.type) for (name, e), column in shown}
    return pa.table({"": rows.column(0), **named}).drop_columns([""])


def late_rows(directory: str | None, planned: PlannedStage) -> LateRows | None:
    """Where the late rows of a stage's inputs go; None if they are only counted."""
    if directory is None:
        return None
    sources = [i for i in planned.inputs if isinstance(i, SourceInput) and i.stream.options.timestamp]
    return LateRows(directory, {i.name: _declared(i) for i in sources})


def _declared(source: SourceInput) -> Declared:
    stream, options = source.stream, source.stream.options
    assert options.timestamp is not None
    return Declared(stream.name, source.alias, late_schema(stream), options.timestamp, options.change)


def late_schema(stream: Input) -> pa.Schema:
    """The columns of a stream's late rows: all that are declared."""
    schema, options = stream.schema, stream.options
    if options.timestamp and options.timestamp not in schema.names:
        schema = schema.append(pa.field(options.timestamp, options.time.ts_type))
    if options.change and options.change not in schema.names:
        schema = schema.append(pa.field(options.change, pa.string()))
    return schema


def result_schema(plan: PhysicalPlan) -> pa.Schema:
    """``ts``, for a relation ``op``, then the selected columns; one called like these becomes ``ts_1``."""
    own = [pa.field("ts", plan.time.ts_type)]
    if plan.kind == "relation":
        own.append(pa.field("op", pa.string()))
    taken = {f.name.lower() for f in own}
    wanted = {f.name.lower() for f in plan.schema}
    return pa.schema([*own, *(pa.field(_free(f.name, taken, wanted), f.type) for f in plan.schema)])


def _free(name: str, taken: set[str], wanted: set[str]) -> str:
    number, free = 0, name
    while free.lower() in taken or (number and free.lower() in wanted):
        number += 1
        free = f"{name}_{number}"
    return free
