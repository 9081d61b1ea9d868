"""The map side of a stage: rows become a few big blobs, one for every partition.

Catalyst computes the timestamp in ticks, the pushed columns, which rows are kept and their partition, all in
one select; Python only packs. A row that the filter drops still tells the time, so the filter is a column
here and not a DataFrame filter: the least and largest timestamp of *all* rows travel in the envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.element import batch_of
from penstock.engine.stage import SIGN, TS
from penstock.errors import DataError
from penstock.expression import Expression
from penstock.plan.physical import SourceInput
from penstock.spark import blob
from penstock.spark.catalyst import quote, to_spark_sql
from penstock.spark.failure import readable
from penstock.spark.program import BLOB_LIMIT, split_by
from penstock.spark.record import Envelope, binary_column
from penstock.spark.sources import Source
from penstock.spark.worker import settle

BLOBS = "partition INT, envelope STRING, blob BINARY"
"""The rows that move between map side and stages."""
KEEP, PART = "__keep", "__part"


def placement(spark: SparkSession, partitions: int) -> tuple[int, ...]:
    """Grouping keys, one a partition, that Spark's hash puts into different tasks as far as there are any."""
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or partitions)
    tried = 40 * max(partitions, tasks)
    hashed = f"transform(sequence(0, {tried}), k -> pmod(hash(k), {tasks}))"
    homes: list[int] = spark.sql(f"SELECT {hashed} AS homes").collect()[0].homes
    by_home: dict[int, list[int]] = {}
    for key, home in enumerate(homes):
        by_home.setdefault(home, []).append(key)
    order = sorted(by_home)
    return tuple(by_home[order[p % len(order)]][p // len(order)] for p in range(partitions))


def pack(source: SourceInput, keys: Sequence[int]) -> DataFrame:
    """A stream's or relation's rows as blobs for the partitions that have these keys."""
    prepared = prepare(source, len(keys))
    schema = pa.schema([(name, e.type) for name, e in source.columns])
    if source.stream.source.sign is not None:
        schema = schema.append(pa.field(SIGN, pa.int8()))
    packer = Packer(source.name, source.stream.name, schema, tuple(keys))
    return prepared.mapInArrow(packer.run, BLOBS)


def prepare(source: SourceInput, partitions: int) -> DataFrame:
    """What Catalyst computes: time, which rows are kept, the partition, then the pushed columns in order.

    A relation's rows end with their sign.
    """
    origin: Source = source.stream.source

    def spark(expression: Expression) -> str:
        return _spark_sql(expression, source.alias)

    keep = _keep(source, spark(source.filter) if source.filter is not None else None)
    columns = [F.expr(spark(e)) for _, e in source.columns]
    chosen = [origin.ticks.alias(TS)]
    if keep is not None:
        chosen.append(keep.alias(KEEP))
        columns = [_only_kept(c, e, keep) for c, (_, e) in zip(columns, source.columns, strict=True)]
    if partitions > 1:
        keys = [_normal(F.expr(spark(e)), e) for e in source.partition_by]
        where = F.pmod(F.xxhash64(*keys), F.lit(partitions)) if keys else F.lit(0)
        chosen.append(where.cast("int").alias(PART))
    if origin.sign is not None:
        columns.append(origin.sign)
    return origin.df.select(*chosen, *(c.alias(f"c{n}") for n, c in enumerate(columns)))


def project(
    columns: Sequence[tuple[str, Expression]], condition: Expression | None, alias: str, df: DataFrame
) -> DataFrame:
    """A constant, then the expressions over a static table, of the rows for which the condition is true."""
    kept = df if condition is None else df.where(_spark_sql(condition, alias))
    shown = (F.expr(_spark_sql(e, alias)).alias(f"c{n}") for n, (_, e) in enumerate(columns))
    return kept.select(F.lit(True), *shown)


def _spark_sql(expression: Expression, alias: str) -> str:
    return to_spark_sql(expression, lambda name: name.removeprefix(f"{alias}."))


def _keep(source: SourceInput, condition: str | None) -> Column | None:
    """Rows that go to the engine: those that pass the filter and are not mere heartbeats."""
    parts = [F.coalesce(F.expr(condition), F.lit(False))] if condition is not None else []
    if source.stream.heartbeat is not None:
        parts.append(~F.coalesce(F.expr(quote(source.stream.heartbeat)), F.lit(False)))
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]


def _only_kept(column: Column, expression: Expression, keep: Column) -> Column:
    """Strings of dropped rows are not worth carrying to Python."""
    return column if pa.types.is_primitive(expression.type) else F.when(keep, column)


def _normal(column: Column, expression: Expression) -> Column:
    """Make equal keys have equal bits: 0.0 and -0.0 are equal and hash differently."""
    if not pa.types.is_floating(expression.type):
        return column
    return column + F.lit(0.0).cast("float" if expression.type == pa.float32() else "double")


@dataclass(frozen=True)
class Packer:
    """Packs the rows of one map task; pickled into it."""

    input: str
    stream: str
    schema: pa.Schema
    keys: tuple[int, ...]
    limit: int = BLOB_LIMIT

    @readable
    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every partition gets at least one blob, with rows or with none."""
        context = TaskContext.get()
        producer = context.partitionId() if context else 0
        piece = 0
        for chunk in _chunks(batches, self.limit):
            yield from self._blobs(chunk, producer, piece)
            piece += 1
        if not piece:
            yield from self._blobs(None, producer, 0)
        settle()

    def _blobs(self, rows: pa.RecordBatch | None, producer: int, piece: int) -> Iterator[pa.RecordBatch]:
        if rows is None:
            for key in self.keys:
                yield _row(key, Envelope(self.input, producer), pa.py_buffer(b""))
            return
        least, most = self._span(rows)
        for key, part in zip(self.keys, self._parts(rows), strict=True):
            data = blob.encode(part) if part.num_rows else pa.py_buffer(b"")
            envelope = Envelope(self.input, producer, piece, part.num_rows, least, most)
            yield _row(key, envelope, data)

    def _span(self, rows: pa.RecordBatch) -> tuple[int, int]:
        ts = rows.column(rows.schema.get_field_index(TS))
        if ts.null_count:
            raise DataError(
                f"stream {self.stream!r}: {ts.null_count} of {len(ts)} rows have a NULL timestamp; filter "
                "them out of the stream's DataFrame, or give them a time, before create_stream"
            )
        bounds = pc.min_max(ts)
        return bounds["min"].as_py(), bounds["max"].as_py()

    def _parts(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The kept rows of each partition."""
        names = rows.schema.names
        if KEEP in names:
            rows = rows.filter(rows.column(names.index(KEEP)))
        payload = [i for i, name in enumerate(names) if name not in (KEEP, PART)]
        where = np.asarray(rows.column(names.index(PART))) if PART in names else np.zeros(0)
        schema = pa.schema([pa.field(TS, pa.int64()), *self.schema])
        columns = [rows.column(i) for i in payload]
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        if schema.names[-1] == SIGN and typed[-1].null_count:
            raise DataError(
                f"relation {self.stream!r}: {typed[-1].null_count} rows are marked neither '+' nor '-'; "
                "mend the column that CHANGE BY names"
            )
        return split_by(batch_of(typed, schema, rows.num_rows), where, len(self.keys))


def _chunks(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The batches glued together, up to about ``limit`` bytes at a time; nothing for no rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= limit:
            yield _glue(held)
            held, size = [], 0
    if held:
        yield _glue(held)


def _glue(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _row(key: int, envelope: Envelope, data: pa.Buffer) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([key], pa.int32()), pa.array([envelope.to_json()]), binary_column([data])],
        names=["partition", "envelope", "blob"],
    )
