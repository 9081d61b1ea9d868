"""The map side of a stage, in Spark's Python workers: rows become a few big blobs, one per partition.

The envelope has the least and largest timestamp of *all* rows, including those that are dropped or go to
other partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from penstock.engine.shares import Epochs
from penstock.engine.stage import SIGN, SOURCE, TS
from penstock.errors import DataError
from penstock.routing import (
    Route,
    coordinates,
    deliver,
    disorder_of,
    keys_of,
    partition_numbers,
    split_by,
    total_rows,
    totals_by_epoch,
)
from penstock.spark.process import (
    freeze_loaded_objects,
    generator_without_traceback,
    keep_freed_memory,
    quiet_worker,
)
from penstock.spark.settings import BLOB_BYTES, SHOWN_ROW_CHARS
from penstock.spark.wire import blob
from penstock.spark.wire.record import Envelope, binary_column

KEEP, PART = "__keep", "__part"
"""Columns for the packer only, with a ``PART`` per dimension; so are those that start with ``__key``."""


@dataclass(frozen=True)
class Split:
    """The columns that determine a row's coordinate: its key, and those that identify a row.

    Both are empty if a column ``PART`` is the coordinate.
    """

    keys: tuple[str, ...] = ()
    row: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packer:
    """Packs rows for one input of a stage.

    ``schema`` is that of the input, ``copies`` are columns that the engine copies from the timestamp.
    ``ties``: the columns that order rows of equal timestamps, which rows have everywhere.
    ``epochs``: those by which rows are counted, if that is so.
    ``split``: per dimension that splits the stream, the columns that determine the coordinate (without any, a
    column ``PART`` is the coordinate). ``route``: the partitions that follow from the coordinates. ``keys``:
    the partitions' grouping keys.
    """

    input: str
    stream: str
    schema: pa.Schema
    copies: pa.Schema
    split: tuple[Split, ...]
    route: Route
    keys: tuple[int, ...]
    ties: tuple[str, ...] = ()
    epochs: Epochs | None = None

    def pack(self, rows: pa.RecordBatch | None, producer: int, piece: int) -> Iterator[pa.RecordBatch]:
        """The blobs of some rows, or of a task without any; every partition gets one."""
        yield from self._blobs(None if rows is None else self._typed(rows), producer, piece)

    def report(self, progress: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """The progress of producers, for every partition; as a piece of its own before their rows."""
        for producer, reached in progress.items():
            for key in self.keys:
                yield _row(key, Envelope(self.input, producer, -1, progress=reached), pa.py_buffer(b""))

    def _blobs(self, rows: pa.RecordBatch | None, producer: int, piece: int) -> Iterator[pa.RecordBatch]:
        if rows is None:
            for key in self.keys:
                yield _row(key, Envelope(self.input, producer), pa.py_buffer(b""))
            return
        least, most = self._span(rows)
        disorder = disorder_of(np.asarray(rows.column(TS)))
        parts = list(self._parts(rows))
        total = total_rows(self.input, parts)
        by_epoch = None if self.epochs is None else totals_by_epoch(self.input, parts, self.epochs, TS)
        empty = Envelope(
            self.input, producer, piece, 0, least, most, total=total, disorder=disorder, epochs=by_epoch
        )
        for targets, part in parts:
            data = blob.encode(part, self.copies) if part.num_rows else pa.py_buffer(b"")
            for number in targets:
                envelope = replace(empty, rows=part.num_rows, copy=number != targets[0])
                yield _row(self.keys[number], envelope, data)
        # A route may lead to fewer partitions than the stage has; the time reaches all of them.
        for number in set(range(len(self.keys))).difference(*(targets for targets, _ in parts)):
            yield _row(self.keys[number], empty, pa.py_buffer(b""))
        for number, axis in enumerate(self.route.own):
            if axis.by_source:
                yield from self._checked_keys(rows, number, producer, piece)

    def _checked_keys(
        self, rows: pa.RecordBatch, number: int, producer: int, piece: int
    ) -> Iterator[pa.RecordBatch]:
        """The keys of a source that is declared as partitioned, each sent to the engine that checks it."""
        axis, names = self.route.own[number], self.split[number].keys
        columns = [*(rows.column(n) for n in names), rows.column(f"{PART}{number}")]
        table = pa.table(columns, names=[*map(str, axis.keys), SOURCE])
        (keys,) = table.group_by(table.column_names).aggregate([]).combine_chunks().to_batches()
        homes = partition_numbers(keys.columns[:-1], len(self.keys), keys.num_rows)
        input = keys_of(self.input, self.route.axes.index(axis))
        for home, part in enumerate(split_by(keys, homes, len(self.keys))):
            if part.num_rows:
                yield _row(
                    self.keys[home], Envelope(input, producer, piece, part.num_rows), blob.encode(part)
                )

    def _span(self, rows: pa.RecordBatch) -> tuple[int, int]:
        ts = rows.column(TS)
        if ts.null_count:
            raise DataError(
                f"stream {self.stream!r}: {ts.null_count} of {len(ts)} rows have a NULL timestamp, the first "
                f"of them is {self._shown(rows, ts.is_null())}; correct them, or declare the stream ON BAD "
                "ROWS COUNT to leave such rows out and count them"
            )
        bounds = pc.min_max(ts)
        return bounds["min"].as_py(), bounds["max"].as_py()

    def _shown(self, rows: pa.RecordBatch, bad: pa.Array) -> str:
        """The first bad row, as far as it was sent."""
        (row,) = rows.filter(bad).slice(0, 1).to_pylist()
        sent = {n.removeprefix("__key ").partition(".")[2]: v for n, v in row.items()}
        return ", ".join(f"{n} = {v!r}" for n, v in sent.items() if n)[:SHOWN_ROW_CHARS] or "without columns"

    def _typed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = zip(rows.columns, self.schema, strict=True)
        typed = [c if c.type == f.type else _cast(c, f.type) for c, f in columns]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)

    def _parts(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[int, ...], pa.RecordBatch]]:
        """The kept rows, with the columns that the engine gets, and the partitions that get them."""
        names = self.schema.names
        if KEEP in names:
            rows = rows.filter(rows.column(KEEP))
        if SIGN in names and rows.column(SIGN).null_count:
            unmarked = rows.column(SIGN).is_null()
            raise DataError(
                f"relation {self.stream!r}: {rows.column(SIGN).null_count} rows are marked neither '+' nor "
                f"'-', the first of them is {self._shown(rows, unmarked)}; correct the column that CHANGE BY "
                "names"
            )
        shown = [n for n in names if n != KEEP and not n.startswith((PART, "__key"))]
        where = [self._where(rows, number) for number in range(len(self.split))]
        return deliver(self.route, self.input, rows.select(shown), where, (TS, SIGN, *self.ties))

    def _where(self, rows: pa.RecordBatch, number: int) -> np.ndarray:
        """The rows' coordinates in the dimension of that number among those that split the stream."""
        if f"{PART}{number}" in self.schema.names:
            where = np.asarray(rows.column(f"{PART}{number}")).astype(np.int64)
            return where % self.route.own[number].share if self.route.own[number].by_source else where
        split = self.split[number]
        keys, row = ([rows.column(n) for n in names] for names in (split.keys, split.row))
        return coordinates(self.route.own[number], keys, row, rows.num_rows)


@dataclass(frozen=True)
class Packers:
    """Packs the rows of one map task for all inputs that read them; pickled into it.

    Each packer comes with the numbers of the columns that it takes.
    """

    packers: tuple[tuple[Packer, tuple[int, ...]], ...]
    limit: int = BLOB_BYTES
    reports: int | None = None
    """The first of the two columns by which the query whose rows these are reports its progress."""

    @property
    def stream(self) -> str:
        return self.packers[0][0].stream

    @generator_without_traceback
    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blobs of a task; every partition gets at least one of each input, even without rows."""
        keep_freed_memory()
        quiet_worker()
        context = TaskContext.get()
        producer = context.partitionId() if context else 0
        piece = 0
        for chunk in _chunks(batches, self.limit):
            if self.reports is not None:
                reports, chunk = self._apart(chunk, self.reports)
                for packer, _ in self.packers:
                    yield from packer.report(reports)
            for packer, columns in self.packers if chunk.num_rows else ():
                yield from packer.pack(chunk.select(columns), producer, piece)
            piece += 1 if chunk.num_rows else 0
        if not piece:
            for packer, _ in self.packers:
                yield from packer.pack(None, producer, 0)
        freeze_loaded_objects()

    def _apart(self, rows: pa.RecordBatch, first: int) -> tuple[dict[int, int], pa.RecordBatch]:
        """The progress by producer, and the rows that report none."""
        progress = rows.column(first + 1)
        found = rows.filter(progress.is_valid())
        reported = zip(found.column(first).to_pylist(), found.column(first + 1).to_pylist(), strict=True)
        return dict(reported), rows.filter(progress.is_null())


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def _chunks(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The batches concatenated up to about ``limit`` bytes at a time; nothing if there are no rows."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
        if size >= limit:
            yield _glue(pending)
            pending, size = [], 0
    if pending:
        yield _glue(pending)


def _glue(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _row(key: int, envelope: Envelope, data: pa.Buffer) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([key], pa.int32()), pa.array([envelope.to_json()]), binary_column([data])],
        names=["partition", "envelope", "blob"],
    )
