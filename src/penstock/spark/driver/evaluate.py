"""``evaluate(on="spark")``: finite inputs as files, one per stream and micro-batch, run by Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.catalog import Catalog, FunctionDef, Input, TableDef
from penstock.engine.stage import SIGN, TS
from penstock.evaluation import Change, Finite, in_order, own_columns, plan_of
from penstock.plan.physical import PhysicalPlan
from penstock.schema import TIMESTAMP
from penstock.spark.driver import dataframe
from penstock.spark.driver.dataframe import result_schema
from penstock.spark.driver.session import connect
from penstock.spark.driver.sources import InputFrame
from penstock.spark.driver.ties import FILES, file_columns

HEARTBEAT = "#heartbeat"


def run(
    script: str,
    finite: Finite,
    functions: Sequence[FunctionDef],
    until: int | None,
    partitions: int,
    batches: int,
) -> list[Change]:
    """All changes of a query, computed by Spark in the active session or a new local one."""
    session = connect()
    spark = session.spark
    end = finite.last_instant(until)
    with closing(session), tempfile.TemporaryDirectory(prefix="penstock-evaluate-") as directory:
        root = Path(directory)
        plan = plan_of(script, _catalog(finite, root, spark), functions, partitions)
        if end is None:
            return []
        _write(finite, root, end, batches)
        rows = _collect(dataframe.dataframe(plan), root)
    return in_order(c for c in _changes(rows, plan) if c[0] <= end)


def _catalog(finite: Finite, root: Path, spark: SparkSession) -> Catalog:
    """The catalog of the inputs as Spark reads them: with time, sign and heartbeats beside the row."""
    found = Catalog()
    for name, rows in finite.streams.items():
        (root / name).mkdir()
        read = rows.schema.append(pa.field(HEARTBEAT, pa.bool_()))
        reader = spark.readStream.schema(from_arrow_schema(read)).option("maxFilesPerTrigger", 1)
        sign = F.col(SIGN) if SIGN in rows.schema.names else None
        source = InputFrame(reader.parquet(str(root / name)), F.col(TS), sign, file_columns())
        kind = "stream" if sign is None else "relation"
        schema = own_columns(rows.schema)
        options = replace(finite.options(name), heartbeat=HEARTBEAT)
        found.add(Input(name, schema, options, kind, source, FILES if sign is None else None))
    for name, rows in finite.tables.items():
        found.add(TableDef(name, rows.schema, InputFrame(table(spark, rows))))
    return found


def table(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A static DataFrame. Without a schema, Spark would make a TIMESTAMP_NTZ a TIMESTAMP of its own zone."""
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def _write(finite: Finite, root: Path, end: int, batches: int) -> None:
    """A file for every stream and batch, some with no rows, then one with the heartbeat that ends time."""
    for number, part in enumerate(finite.slices(batches)):
        for name, rows in part.items():
            beats = pa.array([False] * rows.num_rows, pa.bool_())
            _write_file(root / name, number, rows.append_column(HEARTBEAT, beats))
    for name, rows in finite.streams.items():
        schema = rows.schema.append(pa.field(HEARTBEAT, pa.bool_()))
        beat = pa.Table.from_pylist([{TS: end + 1, HEARTBEAT: True}], schema)
        _write_file(root / name, batches, beat)


def _write_file(directory: Path, number: int, rows: pa.Table) -> None:
    path = directory / f"batch-{number:05}.parquet"
    pq.write_table(rows, path)
    os.utime(path, (number, number))  # Spark takes older files first


def _collect(df: DataFrame, root: Path) -> list[Any]:
    """The rows; by way of Arrow, since ``collect`` shows times in the zone of the machine."""
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(_rows(batch.toArrow())))
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return rows


def _rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    zoned = (pa.types.is_timestamp(f.type) and f.type.tz is not None for f in table.schema)
    fields = [f.with_type(TIMESTAMP) if z else f for f, z in zip(table.schema, zoned, strict=True)]
    typed = table.cast(pa.schema(fields))
    return zip(*(column.to_pylist() for column in typed.columns), strict=True)


def _changes(rows: list[Any], plan: PhysicalPlan) -> list[Change]:
    names = plan.schema.names
    first = len(result_schema(plan)) - len(names)
    return [
        (row[0], row[1] if plan.kind == "relation" else "+", dict(zip(names, row[first:], strict=True)))
        for row in rows
    ]
