"""Where streams and tables come from: DataFrames, and the directories that DDL names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock import cql
from penstock.catalog import RelationDef, StreamDef, TableDef, Traffic
from penstock.errors import CatalogError, CQLError
from penstock.schema import TIMESTAMP, TIMESTAMP_TIME, TimeDomain
from penstock.spark.map_side import messages
from penstock.spark.map_side.bad_rows import without_bad_rows
from penstock.spark.map_side.catalyst import quote


@dataclass(frozen=True)
class InputFrame:
    """A stream's DataFrame with its time in ticks, a relation's with its signs too, or a table's."""

    df: DataFrame
    ticks: Any = None
    sign: Any = None


def stream(
    name: str,
    df: DataFrame,
    timestamp: str,
    skew: str | int | None = None,
    unit: str | None = None,
    idle_after: str | int | None = None,
    heartbeat: str | None = None,
    bad_rows: str = "error",
    traffic: Traffic = Traffic(),  # noqa: B008
) -> StreamDef:
    """A stream over a streaming DataFrame, as ``Session.create_stream`` takes it."""
    if not df.isStreaming:
        raise CatalogError(
            f"stream {name!r}: the DataFrame is static; read it with spark.readStream, or use create_table"
        )
    if heartbeat is not None:
        heartbeat = _column(name, df, heartbeat, "heartbeat")
        if dict(df.dtypes)[heartbeat] != "boolean":
            raise CatalogError(f"stream {name!r}: the heartbeat column {heartbeat!r} must be BOOLEAN")
    timestamp = _column(name, df, timestamp, "timestamp")
    schema = arrow_schema(df)
    time = _time(name, schema.field(timestamp), unit)
    df = without_bad_rows(name, df, [F.col(quote(timestamp))], bad_rows)
    return StreamDef(
        name,
        schema,
        time,
        timestamp,
        _ticks(name, skew, time, "skew") or 0,
        _ticks(name, idle_after, time, "idle_after"),
        heartbeat,
        InputFrame(df, ticks(timestamp, schema.field(timestamp).type)),
        traffic,
    )


def traffic(
    name: str,
    df: DataFrame,
    rate: float | None = None,
    partitioned_by: str | Sequence[str] = (),
    heavy: Mapping[str, Sequence[Any]] | None = None,
) -> Traffic:
    """What ``Session.create_stream`` is told of how a stream's rows come."""
    by = [partitioned_by] if isinstance(partitioned_by, str) else partitioned_by
    values = {_column(name, df, c, "heavy"): tuple(v) for c, v in (heavy or {}).items()}
    columns = tuple(_column(name, df, c, "partitioned_by") for c in by)
    return Traffic(rate, columns, tuple(values.items()))


def relation(
    name: str,
    df: DataFrame,
    timestamp: str,
    change: str,
    skew: str | int | None = None,
    unit: str | None = None,
    idle_after: str | int | None = None,
    heartbeat: str | None = None,
    bad_rows: str = "error",
    traffic: Traffic = Traffic(),  # noqa: B008
) -> RelationDef:
    """A relation over a streaming DataFrame of its changes, as ``Session.create_relation`` takes it."""
    log = stream(name, df, timestamp, skew, unit, idle_after, heartbeat)
    change = _column(name, df, change, "change")
    df = without_bad_rows(name, df, [log.source.ticks, signs(change)], bad_rows)
    apart = {log.timestamp, change, log.heartbeat}
    schema = pa.schema([f for f in log.schema if f.name not in apart])
    source = InputFrame(df, log.source.ticks, signs(change))
    rest = (log.time, log.timestamp, change, log.skew, log.idle_after, log.heartbeat)
    return RelationDef(name, schema, *rest, source, traffic)


def declared_relation(statement: cql.CreateRelation, spark: SparkSession) -> RelationDef:
    """A relation that DDL declares."""
    df = _changing(spark, statement, f"relation {statement.name!r}", [signs(statement.change)])
    kind = statement.schema.field(statement.timestamp).type
    return statement.definition(InputFrame(df, ticks(statement.timestamp, kind), signs(statement.change)))


def signs(change: str) -> Column:
    """A change column as +1 and -1; NULL for anything but '+' and '-'."""
    mark = F.trim(F.expr(quote(change)).cast("string"))
    return F.when(mark == "+", F.lit(1)).when(mark == "-", F.lit(-1)).cast("tinyint")


def declared_stream(statement: cql.CreateStream, spark: SparkSession) -> StreamDef:
    """A stream that DDL declares."""
    df = _changing(spark, statement, f"stream {statement.name!r}")
    kind = statement.schema.field(statement.timestamp).type
    return statement.definition(InputFrame(df, ticks(statement.timestamp, kind)))


def table(name: str, df: DataFrame) -> TableDef:
    """A table over a static DataFrame."""
    if df.isStreaming:
        raise CatalogError(f"table {name!r}: the DataFrame is streaming; use create_stream")
    return TableDef(name, arrow_schema(df), InputFrame(df))


def declared_table(statement: cql.CreateTable, spark: SparkSession) -> TableDef:
    """A table that DDL declares."""
    df = _read(spark.read, statement.source, statement.schema, f"table {statement.name!r}")
    return statement.definition(InputFrame(df))


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The DataFrame's columns in Arrow's types, as the engine sees them."""
    schema = to_arrow_schema(df.schema, timezone="UTC")
    zoned = [f.with_type(TIMESTAMP) if pa.types.is_timestamp(f.type) and f.type.tz else f for f in schema]
    return pa.schema([f.with_nullable(True).remove_metadata() for f in zoned])


def ticks(timestamp: str, kind: pa.DataType) -> Column:
    """The time of a row in ticks: microseconds since 1970 for a TIMESTAMP, else the integer itself."""
    column = F.expr(quote(timestamp))
    if not pa.types.is_timestamp(kind):
        return column.cast("bigint")
    if kind.tz:
        return F.unix_micros(column)
    return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), column)


def _changing(
    spark: SparkSession,
    statement: cql.CreateStream | cql.CreateRelation,
    what: str,
    needed: Sequence[Column] = (),
) -> DataFrame:
    source = statement.source
    if source.format == "kafka":
        assert source.path is not None
        wanted = from_arrow_schema(statement.schema)
        df = messages.read(spark, source.path, wanted, source.options, what)
    else:
        df = _read(spark.readStream, source, statement.schema, what)
    times = [F.col(quote(statement.timestamp)), *needed]
    return without_bad_rows(statement.name, df, times, statement.bad_rows)


def _read(reader: Any, source: cql.SourceSpec, schema: pa.Schema, what: str) -> DataFrame:
    reader = reader.format(source.format).options(**source.options)
    if source.format != "rate":
        reader = reader.schema(from_arrow_schema(schema))
    try:
        df: DataFrame = reader.load(source.path) if source.path else reader.load()
    except (AnalysisException, PySparkException) as error:
        first = str(error).splitlines()[0]
        raise CatalogError(f"{what} cannot be read from {source.path or source.format}: {first}") from None
    return df


def _column(name: str, df: DataFrame, column: str, what: str) -> str:
    """The column as the DataFrame spells it; case does not matter."""
    found = [c for c in df.columns if c.casefold() == str(column).casefold()]
    if not found:
        raise CatalogError(
            f"stream {name!r} has no {what} column {column!r}; its columns are {', '.join(df.columns)}"
        )
    return found[0]


def _time(name: str, field: pa.Field, unit: str | None) -> TimeDomain:
    if pa.types.is_integer(field.type):
        return TimeDomain("integer", unit or "seconds")
    if not pa.types.is_timestamp(field.type):
        raise CatalogError(
            f"stream {name!r}: the timestamp column {field.name!r} is {field.type}; "
            "it must be a TIMESTAMP or an integer"
        )
    if unit not in (None, "microseconds"):
        raise CatalogError(f"stream {name!r}: unit={unit!r} is for integer timestamps; leave it out")
    return TIMESTAMP_TIME


def _ticks(name: str, length: str | int | None, time: TimeDomain, what: str) -> int | None:
    if length is None:
        return None
    try:
        found = cql.duration_ticks(str(length), time, what)
    except CQLError as error:
        raise CatalogError(
            f"stream {name!r}: {what}={length!r} is no length of time: {error.message}"
        ) from None
    return found
