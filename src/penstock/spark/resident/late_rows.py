"""Late rows as a stream of their own: files that the engines write beside the query.

A row is late where a query's time has passed it, so which rows are late is known to the engines alone. A
step's late rows go into a file named after the query, the engine and the step. A step that is taken again,
after whatever failure, gives the same file, so a reader of the directory sees each late row once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from penstock.catalog import RelationDef, StreamDef
from penstock.engine.stage import SIGN, TS
from penstock.errors import EngineError
from penstock.plan.physical import PlannedStage, SourceInput
from penstock.spark.relay.result import operation


@dataclass(frozen=True)
class Declared:
    """What a late row of an input is called and typed like: the stream and its declaration."""

    stream: str
    alias: str
    schema: pa.Schema
    timestamp: str
    change: str | None = None

    @staticmethod
    def of(source: SourceInput) -> Declared:
        """That of a source."""
        stream = source.stream
        assert stream.timestamp is not None
        change = stream.change if isinstance(stream, RelationDef) else None
        return Declared(stream.name, source.alias, late_schema(stream), stream.timestamp, change)

    def rows(self, late: pa.RecordBatch) -> pa.Table:
        """The columns that the query reads, under their own names, and the time."""
        named = {n.removeprefix(f"{self.alias}."): late.column(n) for n in late.schema.names}
        named[self.timestamp] = late.column(TS)
        if self.change is not None:
            named[self.change] = operation(late.column(SIGN))
        fields = [f for f in self.schema if f.name in named]
        return pa.table([_as(named[f.name], f.type) for f in fields], schema=pa.schema(fields))


@dataclass(frozen=True)
class LateRows:
    """Where the late rows of a stage's inputs go."""

    directory: str
    inputs: Mapping[str, Declared] = field(default_factory=dict)

    @staticmethod
    def of(directory: str | None, planned: PlannedStage) -> LateRows | None:
        """Those of a planned stage; None if nobody wants them."""
        if directory is None:
            return None
        sources = [i for i in planned.inputs if isinstance(i, SourceInput) and i.stream.timestamp]
        return LateRows(directory, {i.name: Declared.of(i) for i in sources})

    def write(self, late: Mapping[str, pa.RecordBatch], step: str) -> None:
        """Write an engine's late rows of a step, input by input."""
        for number, (name, declared) in enumerate(self.inputs.items()):
            if name in late:
                rows = declared.rows(late[name])
                try:
                    _write(f"{self.directory}/{declared.stream}", f"{step}-i{number}.parquet", rows)
                except OSError as error:
                    raise EngineError(
                        f"late rows of stream {declared.stream!r} cannot be written to {self.directory}: "
                        f"{error}; make room there, or SET penstock.late_rows to another directory"
                    ) from None


def late_schema(stream: StreamDef | RelationDef) -> pa.Schema:
    """The columns of a stream's late rows: all that are declared."""
    schema = stream.schema
    if stream.timestamp and stream.timestamp not in schema.names:
        schema = schema.append(pa.field(stream.timestamp, stream.time.ts_type))
    if isinstance(stream, RelationDef) and stream.change and stream.change not in schema.names:
        schema = schema.append(pa.field(stream.change, pa.string()))
    return schema


def opened(directory: str) -> tuple[Any, str]:
    """The file system of a path or address, and the path there; it exists from now on."""
    address = directory if "://" in directory else os.path.abspath(directory)
    filesystem, path = pyarrow.fs.FileSystem.from_uri(address)
    filesystem.create_dir(path, recursive=True)
    return filesystem, path


def _write(directory: str, name: str, rows: pa.Table) -> None:
    """Whole or not at all: Spark's readers pass over names that begin with a dot."""
    if rows.num_rows:
        filesystem, root = opened(directory)
        pq.write_table(rows, f"{root}/.{name}", filesystem=filesystem)
        filesystem.move(f"{root}/.{name}", f"{root}/{name}")


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
