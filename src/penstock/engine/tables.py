"""Static tables: what an engine holds of them, and how they change.

A table is whole in every partition and the same at all instants until a command changes it. The change is the
bag difference of the rows, + and −, and happens at one instant, the first that is not complete when the step
with the command begins: rows of earlier instants meet the old table, whenever they arrive. What an engine
holds of its tables is part of its state: hosts keep it beside the log (``Engine.tables``).

>>> old, new = pa.record_batch({"k": [1, 2, 2]}), pa.record_batch({"k": [2, 3]})
>>> [column.to_pylist() for column in difference(old, new).columns]
[[-1, -1, 1], [1, 2, 3]]
>>> changed(old, difference(old, new)).to_pydict()
{'k': [2, 3]}
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.command import TABLES, Command
from penstock.engine.element import Int64s, batch_of, take_rows
from penstock.engine.snapshot import decode, encode
from penstock.engine.stage import SIGN
from penstock.engine.synopses.directory import Directory
from penstock.errors import EngineError

Tables = Mapping[str, pa.RecordBatch]
"""Rows by the name of the stage's input."""


def as_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a table in the columns of a stage's input."""
    columns = [table.column(f.name).combine_chunks() for f in schema]
    return batch_of(columns, schema, table.num_rows)


def difference(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that leave and those that enter, with the column ``SIGN`` first."""
    return _net([(old, np.full(old.num_rows, -1)), (new, np.full(new.num_rows, 1))])


def combined(changes: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Changes of one table, one after the other, as one change: a row that came and left is in neither."""
    return _net([(c.drop_columns([SIGN]), np.asarray(c.column(SIGN))) for c in changes])


def _net(parts: Sequence[tuple[pa.RecordBatch, Int64s]]) -> pa.RecordBatch:
    """The net change of rows with signs, with the column ``SIGN`` first."""
    schema = parts[0][0].schema
    directory = Directory(schema.types)
    numbers = np.concatenate([directory.assign(rows.columns, rows.num_rows) for rows, _ in parts])
    counts = np.zeros(len(directory), np.int64)
    np.add.at(counts, numbers, np.concatenate([signs for _, signs in parts]))
    rows = np.repeat(np.arange(len(directory)), np.abs(counts))
    sign = np.repeat(np.sign(counts), np.abs(counts)).astype(np.int8)
    rows, sign = rows[np.argsort(sign, kind="stable")], np.sort(sign)
    signed = pa.schema([pa.field(SIGN, pa.int8()), *schema])
    return batch_of([pa.array(sign), *directory.rows(rows)], signed, len(rows))


def changed(old: pa.RecordBatch, change: pa.RecordBatch) -> pa.RecordBatch:
    """The rows after a change."""
    sign = np.asarray(change.column(SIGN))
    rows = change.drop_columns([SIGN])
    gone, more = take_rows(rows, np.flatnonzero(sign < 0)), take_rows(rows, np.flatnonzero(sign > 0))
    kept = take_rows(old, _without(old, gone)) if gone.num_rows else old
    return pa.concat_batches([kept, more.cast(old.schema)]) if more.num_rows else kept


def _without(old: pa.RecordBatch, gone: pa.RecordBatch) -> Int64s:
    """The places of the rows that stay when one row leaves for each of ``gone``."""
    directory = Directory(old.schema.types)
    numbers, leaving = (directory.assign(b.columns, b.num_rows) for b in (old, gone))
    counts = np.bincount(leaving, minlength=len(directory))
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(directory)))
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers)) - starts[numbers[order]]
    stays = rank >= counts[numbers]
    if int((~stays).sum()) != gone.num_rows:
        raise EngineError("a change of a static table removes rows that the table does not have")
    return np.flatnonzero(stays)


def payload(changes: Tables) -> dict[str, Any]:
    """The payload of the command that changes tables."""
    return {"changes": {name: base64.b64encode(_ipc(batch)).decode() for name, batch in changes.items()}}


def changes_of(commands: Iterable[Command]) -> dict[str, pa.RecordBatch]:
    """The changes that commands make, by input; several of one table are one change."""
    found: dict[str, list[pa.RecordBatch]] = {}
    for command in commands:
        if command.kind == TABLES:
            for name, data in command.payload["changes"].items():
                found.setdefault(name, []).append(_batch(base64.b64decode(data)))
    return {name: b[0] if len(b) == 1 else combined(b) for name, b in found.items()}


def after(tables: Tables, changes: Tables) -> Tables:
    """The tables after changes; those of tables that are not there are ignored."""
    new = {n: changed(tables[n], change) for n, change in changes.items() if n in tables}
    return {**tables, **new} if new else tables


def to_bytes(tables: Tables) -> bytes:
    """Tables as they are stored."""
    return encode(dict(tables))


def from_bytes(data: bytes) -> Tables:
    """The inverse of ``to_bytes``."""
    return dict(decode(data))


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _batch(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
