"""A physical plan as a streaming DataFrame: map side, exchange and processor of every stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.catalog import Input
from penstock.cql.syntax.duration import ticks
from penstock.cql.syntax.parser import parse_duration
from penstock.errors import EngineError
from penstock.plan.growth import growing
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage, SourceInput, TableInput
from penstock.schema import TimeDomain
from penstock.settings import Settings
from penstock.spark.driver import exchange
from penstock.spark.driver.checkpoint import fingerprint
from penstock.spark.driver.exchange import partition_keys
from penstock.spark.driver.measurements import Registry
from penstock.spark.driver.parts import Parts
from penstock.spark.driver.query_frame import QueryFrame, Starts
from penstock.spark.driver.started import Described
from penstock.spark.driver.tables import QueryTables, read
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.processor import Finish, Published, Relay
from penstock.spark.relay.result import Forward, Rows
from penstock.spark.resident.late_rows import Declared, LateRows
from penstock.spark.resident.program import Downstream, Program
from penstock.spark.wire.record import PRODUCER, PROGRESS

Spelled = Callable[[str], QueryFrame | None]
"""The frame of another text with the same columns, if the text means the same."""


def dataframe(
    plan: PhysicalPlan,
    settings: Settings | None = None,
    text: str = "",
    spelled: Spelled | None = None,
    columns: Sequence[tuple[int, str]] = (),
    **engine: Any,
) -> QueryFrame:
    """The streaming DataFrame that runs a plan; ``text`` is that of its query, to be shown.

    ``spelled`` is for queries of the same meaning. ``columns``: the places and names of those that are shown
    if they are not the plan's own. ``engine`` replaces parts of the programs, for tests.
    """
    if not plan.stages:
        raise EngineError("a plan without stages")
    fingerprints = [fingerprint(s, number) for number, s in enumerate(plan.stages)]
    spark = _sources(plan.stages[0])[0].stream.source.df.sparkSession
    measurements = Registry.of(spark.sparkContext).accumulator
    first = plan.stages[0]
    tables = {i.name: read(i) for i in first.inputs if isinstance(i, TableInput)}
    relays = _relays(plan, fingerprints, settings or Settings(), measurements, tables, engine)
    result = Rows(result_schema(plan), plan.kind)
    schemas = [exchange.BLOBS] * (len(relays) - 1) + [from_arrow_schema(result.schema)]

    def build(parts: Parts, reports: bool) -> DataFrame:
        df = parts.commands.rows(relays[0].keys)
        for planned, relay, schema in zip(plan.stages, relays, schemas, strict=True):
            sources, own, shown = _sources(planned), relay.of_plan(parts.plan), schema
            if reports and relay is relays[-1]:
                own, shown = own.returning(replace(result, reports=True)), with_reports(result.schema)
            blobs = exchange.pack(sources, relay.keys, parts.read).unionAll(df) if sources else df
            by_partition = parts.marked(blobs).groupBy("partition")
            df = by_partition.transformWithStateInPandas(own, shown, "Append", "None")
        return _under_names(df, columns) if columns else df

    grows = tuple(g.sentence for g in growing(plan) if not g.per_group)
    ended = ticks_at_end(settings or Settings(), plan.time)
    held = QueryTables(first.inputs, first.stage.inputs, tables)
    described = Described(text, plan.stages, plan.notes, settings or Settings())
    own = (plan.shared_memory, grows, ended, described, plan.time, spelled)
    starts = Starts(tuple(fingerprints), held, *own)
    return QueryFrame(spark, build, starts)


def _under_names(df: DataFrame, columns: Sequence[tuple[int, str]]) -> DataFrame:
    """Columns by their places, under other names."""
    numbered = df.toDF(*(f"c{number}" for number in range(len(df.columns))))
    return numbered.select(*(F.col(f"c{place}").alias(name) for place, name in columns))


def ticks_at_end(settings: Settings, time: TimeDomain) -> int | None:
    """For how many ticks time runs on after the last row; None if more rows may come."""
    if settings.at_end is None:
        return None
    return ticks(parse_duration(settings.at_end, "DISORDER"), time, "penstock.at_end")


def _relays(
    plan: PhysicalPlan,
    fingerprints: Sequence[Fingerprint],
    settings: Settings,
    measurements: Accumulator[Published],
    tables: Mapping[str, pa.Table],
    engine: dict[str, Any],
) -> list[Relay]:
    """The processors of the stages, each with its program."""
    keys = [partition_keys(s.partitions) for s in plan.stages]
    relays = []
    for number, planned in enumerate(plan.stages):
        last = number == len(plan.stages) - 1
        own = {"late": late_rows(settings.late_rows, planned), **engine}
        relayed = cloudpickle.dumps(replace(program(plan, number, tables), **own))
        finish: Finish = Rows(result_schema(plan), plan.kind) if last else Forward(keys[number + 1])
        to_driver, limit = measurements, settings.engine_memory
        own_print = fingerprints[number].brief()
        relays.append(Relay(relayed, number, keys[number], own_print, finish, to_driver, limit))
    return relays


def _sources(planned: PlannedStage) -> list[SourceInput]:
    return [i for i in planned.inputs if isinstance(i, SourceInput)]


def program(plan: PhysicalPlan, number: int, tables: Mapping[str, pa.Table]) -> Program:
    """The program of a stage's engines, with the tables that its first stage reads."""
    planned = plan.stages[number]
    stage = planned.stage if number else replace(planned.stage, tables={**planned.stage.tables, **tables})
    if number + 1 == len(plan.stages):
        return Program(stage)
    following = plan.stages[number + 1]
    reads = [i for i in following.inputs if isinstance(i, ExchangeInput)]
    return Program(stage, Downstream(reads[0].name, following.partitions, reads[0].partition_by))


def late_rows(directory: str | None, planned: PlannedStage) -> LateRows | None:
    """Where the late rows of a stage's inputs go; None if they are only counted."""
    if directory is None:
        return None
    sources = [i for i in _sources(planned) if i.stream.options.timestamp]
    return LateRows(directory, {i.name: _declared(i) for i in sources})


def _declared(source: SourceInput) -> Declared:
    stream, options = source.stream, source.stream.options
    assert options.timestamp is not None
    return Declared(stream.name, source.alias, late_schema(stream), options.timestamp, options.change)


def late_schema(stream: Input) -> pa.Schema:
    """The columns of a stream's late rows: all declared ones."""
    schema, options = stream.schema, stream.options
    if options.timestamp and options.timestamp not in schema.names:
        schema = schema.append(pa.field(options.timestamp, options.time.ts_type))
    if options.change and options.change not in schema.names:
        schema = schema.append(pa.field(options.change, pa.string()))
    return schema


def with_reports(schema: pa.Schema) -> StructType:
    """The columns of rows among which are reports of progress."""
    wide = [pa.field(PRODUCER, pa.int32()), pa.field(PROGRESS, pa.int64())]
    return from_arrow_schema(pa.schema([*schema, *wide]))


def result_schema(plan: PhysicalPlan) -> pa.Schema:
    """The columns of a query's result, as a user sees them."""
    return shown_schema(plan.time, plan.kind, plan.schema)


def shown_schema(time: TimeDomain, kind: str, schema: pa.Schema) -> pa.Schema:
    """``ts``, for a relation ``op``, then the selected columns; another ``ts`` becomes ``ts_1``."""
    own = [pa.field("ts", time.ts_type)]
    if kind == "relation":
        own.append(pa.field("op", pa.string()))
    taken = {f.name.lower() for f in own}
    wanted = {f.name.lower() for f in schema}
    return pa.schema([*own, *(pa.field(_free(f.name, taken, wanted), f.type) for f in schema)])


def _free(name: str, taken: set[str], wanted: set[str]) -> str:
    number, free = 0, name
    while free.lower() in taken or (number and free.lower() in wanted):
        number += 1
        free = f"{name}_{number}"
    return free
