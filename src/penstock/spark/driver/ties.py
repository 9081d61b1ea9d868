"""The order that a source gives rows of equal timestamps, as columns beside its rows.

Files: by the time of the file, its name, and the place in it. Kafka: by partition and offset. Rows of a
DataFrame that shuffles or joins, or of a source without an order, have that of their values, from the first
column on. Never that of batches or tasks, which differ when the same input is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.catalog import InputOptions
from penstock.spark.map_side.messages import PARTITION, TOPIC
from penstock.spark.map_side.parquet_files import FILE, MODIFIED, START

FILES = pa.schema(
    [(MODIFIED, pa.int64()), (FILE, pa.dictionary(pa.int32(), pa.string())), (START, pa.int64())]
)
"""Rows that are equal in these are of one part of a file, which one task reads in order."""

_FORMATS = frozenset("avro binaryfile csv json orc parquet text xml".split())
_ORDERED = frozenset(
    "CollectMetrics EventTimeWatermark Filter Project ResolvedHint SubqueryAlias View".split()
)
"""Operators that leave the rows of a task in their order."""
_OFFSETS = ("topic", "partition", "offset")
"""Columns of Kafka's messages that order them."""


def file_columns() -> dict[str, Column]:
    """The columns of ``FILES`` for a DataFrame over files."""
    return {
        MODIFIED: F.unix_micros("_metadata.file_modification_time"),
        FILE: F.col("_metadata.file_path"),
        START: F.col("_metadata.file_block_start"),
    }


def ties_of(
    df: DataFrame, schema: pa.Schema, options: InputOptions
) -> tuple[pa.Schema, Mapping[str, Column]]:
    """The columns by which rows of equal timestamps are ordered, and how those beside the rows are made."""
    marks = [name for name in (TOPIC, PARTITION) if name in df.columns]
    if marks:
        kinds = {TOPIC: pa.string(), PARTITION: pa.int32()}
        return pa.schema([(n, kinds[n]) for n in marks]), {n: F.col(f"`{n}`") for n in marks}
    leaf = _leaf(df._jdf.queryExecution().analyzed())
    if leaf is not None and _reads_files(leaf) and "_metadata" not in df.columns:
        return FILES, file_columns()
    first = _OFFSETS if leaf is not None and _reads_kafka(leaf) else ()
    names = [n for n in first if n in schema.names]
    names += [n for n in schema.names if n not in names and n != options.timestamp]
    return pa.schema([schema.field(n) for n in names]), {}


def _leaf(plan: Any) -> Any | None:
    """The one source of a plan whose rows stay in their order; None if they may not."""
    while plan.getClass().getSimpleName() in _ORDERED:
        plan = plan.children().head()
    return plan if plan.children().isEmpty() else None


def _reads_files(leaf: Any) -> bool:
    kind = leaf.getClass().getSimpleName()
    return kind == "StreamingRelation" and leaf.dataSource().className().lower() in _FORMATS


def _reads_kafka(leaf: Any) -> bool:
    kind = leaf.getClass().getSimpleName()
    return kind == "StreamingRelationV2" and leaf.sourceName() in ("kafka", "penstock_kafka")
