"""The sources of streams and tables: DataFrames, and the directories that DDL names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock import cql
from penstock.catalog import Input, InputOptions, TableDef
from penstock.errors import CatalogError
from penstock.expression import Expression
from penstock.schema import TIMESTAMP
from penstock.spark.driver.file_columns import check_columns
from penstock.spark.driver.file_options import check_options, report_options
from penstock.spark.driver.inner import InnerQuery, inner_of
from penstock.spark.driver.jvm import told
from penstock.spark.driver.ties import ties_of
from penstock.spark.map_side import messages
from penstock.spark.map_side.bad_rows import CORRUPT, marked_files, with_corrupt, without_bad_rows
from penstock.spark.map_side.catalyst import quote


@dataclass(frozen=True)
class InputFrame:
    """The DataFrame of a stream with its time in ticks, of a relation with signs too, or of a table.

    ``ties``: the columns beside the rows that order those of equal timestamps.
    """

    df: DataFrame
    ticks: Any = None
    sign: Any = None
    ties: Mapping[str, Column] = field(default_factory=dict)
    inner: InnerQuery | None = None
    """The query whose rows these are, if it can report its progress."""

    def read_by(self, filter: Expression | None) -> None:
        """A query reads the rows that pass a filter, in the stream's own names; only SysStream cares."""


def check_frame(kind: str, name: str, df: Any) -> None:
    """Reject what is no DataFrame of Spark."""
    if not isinstance(df, DataFrame):
        form = f"CREATE {kind.upper()} {name} (...) FROM PARQUET 'directory'"
        found = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}".removeprefix("builtins.")
        made = "spark.createDataFrame(...)" if kind == "table" else "spark.readStream"
        hint = f"pass one, as {made} makes it, or write {form}"
        raise CatalogError(f"{kind} {name!r} is made of a DataFrame of Spark, not {found}; {hint}")


def create_input(kind: str, name: str, df: DataFrame, **given: Any) -> Input:
    """The input over a streaming DataFrame with options given in Python."""
    check_frame(kind, name, df)
    if not df.isStreaming:
        raise CatalogError(
            f"{kind} {name!r}: the DataFrame is static; read it with spark.readStream, or use create_table"
        )
    report_options(df, f"{kind} {name!r}")
    schema = arrow_schema(df)
    return _input(kind, name, df, schema, cql.input_options(kind, name, schema, **given))


def declared_input(statement: cql.CreateInput, spark: SparkSession) -> Input:
    """The input that DDL declares."""
    source, what = statement.source, f"{statement.kind} {statement.name!r}"
    if source.format == "kafka":
        assert source.path is not None
        wanted = from_arrow_schema(statement.schema)
        df = messages.read(spark, source.path, wanted, source.options, what)
    else:
        df = _read(spark.readStream, source, statement.schema, what)
    return _input(statement.kind, statement.name, df, statement.schema, statement.options)


def _input(kind: str, name: str, df: DataFrame, schema: pa.Schema, options: InputOptions) -> Input:
    """The catalog's entry of a DataFrame without its bad rows, with columns for time and sign."""
    time, needed = batch_time(), dict[str, Column]()
    if options.timestamp is not None:
        time = needed[options.timestamp] = ticks(options.timestamp, schema.field(options.timestamp).type)
    sign = None if options.change is None else signs(options.change)
    if sign is not None and options.change is not None:
        needed[options.change] = sign if options.heartbeat is None else _or_heartbeat(sign, options.heartbeat)
    inner = inner_of(df, options.timestamp) if options.bad_rows == "error" else None
    df = without_bad_rows(kind, name, df, needed, options.bad_rows)
    # The rows of a relation's log are changes, which happen in the order in which they come.
    ties, beside = (None, {}) if kind == "relation" else ties_of(df, schema, options)
    made = Input.over(schema, name, kind, options, InputFrame(df, time, sign, beside, inner), ties)
    return made if inner is None else replace(made, producers=inner.producers)


def _or_heartbeat(sign: Column, heartbeat: str) -> Column:
    """The sign of a row; a heartbeat needs none."""
    return F.coalesce(sign, F.when(F.expr(quote(heartbeat)), F.lit(1)).cast("tinyint"))


def signs(change: str) -> Column:
    """A change column as +1 and -1; NULL for anything but '+' and '-'."""
    mark = F.trim(F.expr(quote(change)).cast("string"))
    return F.when(mark == "+", F.lit(1)).when(mark == "-", F.lit(-1)).cast("tinyint")


def table(name: str, df: DataFrame) -> TableDef:
    """A table over a static DataFrame."""
    check_frame("table", name, df)
    if df.isStreaming:
        raise CatalogError(f"table {name!r}: the DataFrame is streaming; use create_stream")
    return TableDef(name, arrow_schema(df), InputFrame(df))


def declared_table(statement: cql.CreateTable, spark: SparkSession) -> TableDef:
    """A table that DDL declares."""
    df = _read(spark.read, statement.source, statement.schema, f"table {statement.name!r}")
    return statement.definition(InputFrame(without_bad_rows("table", statement.name, df, {}, "error")))


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


def batch_time() -> Column:
    """The time of a row's batch; it is in Spark's log of offsets, so a repeated batch has the same."""
    return F.unix_micros(F.current_timestamp())


def _read(reader: Any, source: cql.SourceSpec, schema: pa.Schema, what: str) -> DataFrame:
    check_options(source.format, source.options, what)
    if source.path:
        check_columns(source.format, source.path, schema.names, source.options, what)
    if isinstance(reader, DataStreamReader) and Path(source.path or "").is_file():
        raise CatalogError(f"{what} cannot be read from {source.path}: it is a file; name its directory")
    # Times without a zone are in UTC, whatever the session's zone is.
    zone = {"timeZone": "UTC"} if source.format in ("json", "csv") else {}
    reader = reader.format(source.format).options(**{**zone, **source.options})
    declared = from_arrow_schema(schema)
    marked = source.format in ("json", "csv") and not _READ_OTHERWISE & {o.lower() for o in source.options}
    if marked:
        reader = reader.schema(with_corrupt(declared)).option("columnNameOfCorruptRecord", CORRUPT)
    elif source.format != "rate":
        reader = reader.schema(declared)
    with told(f"{what} cannot be read from {source.path or source.format}"):
        try:
            df: DataFrame = reader.load(source.path) if source.path else reader.load()
        except PySparkException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                first = f"there is no such path; a relative one is below {Path.cwd()}"
                raise CatalogError(f"{what} cannot be read from {source.path}: {first}") from None
            raise
    return marked_files(df, declared, source.format, source.options) if marked else df


_READ_OTHERWISE = frozenset({"mode", "columnnameofcorruptrecord"})
"""Options by which a user decides what Spark does with bad rows."""
