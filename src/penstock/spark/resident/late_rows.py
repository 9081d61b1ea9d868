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

from penstock.engine.element import operation
from penstock.engine.stage import SIGN, TS
from penstock.errors import EngineError


@dataclass(frozen=True)
class Declared:
    """Names and types of an input's late rows: the stream and its declaration."""

    stream: str
    alias: str
    schema: pa.Schema
    timestamp: str
    change: str | None = None

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
    """The destination of the late rows of a stage's inputs."""

    directory: str
    inputs: Mapping[str, Declared] = field(default_factory=dict)

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


def opened(directory: str) -> tuple[Any, str]:
    """The file system of a path or address, and the path in it; makes the directory."""
    address = directory if "://" in directory else os.path.abspath(directory)
    filesystem, path = pyarrow.fs.FileSystem.from_uri(address)
    filesystem.create_dir(path, recursive=True)
    return filesystem, path


def _write(directory: str, name: str, rows: pa.Table) -> None:
    """Write a file atomically: Spark's readers ignore names that begin with a dot."""
    if rows.num_rows:
        filesystem, root = opened(directory)
        pq.write_table(rows, f"{root}/.{name}", filesystem=filesystem)
        filesystem.move(f"{root}/.{name}", f"{root}/{name}")


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
