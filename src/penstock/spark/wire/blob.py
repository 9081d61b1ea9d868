"""Record batches as blobs: one Arrow IPC stream, integers narrowed, LZ4.

Sorted timestamps and keys hardly compress with LZ4 alone, and every byte is written to the shuffle, to a
socket and to the state store. So an integer column is first stored as the distance to its least value in
the narrowest unsigned type that holds it (frame of reference), or, where that is narrower, as the steps from
one value to the next (times and numbers that count up). Both cost less than they save.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import batch_of
from penstock.spark.settings import NARROWED_ROWS, NARROWING_SAMPLE_ROWS

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_LEAST, _FIRST, _ROWS, _SCHEMA, _COPIES = (
    f"penstock.{k}".encode() for k in ("least", "first", "rows", "schema", "copies")
)
_NO_COPIES = pa.schema([])
_NARROW = ((1 << 8, pa.uint8()), (1 << 16, pa.uint16()), (1 << 32, pa.uint32()))


def encode(batch: pa.RecordBatch, copies: pa.Schema = _NO_COPIES) -> pa.Buffer:
    """The batch as one blob; ``decode`` returns it, with its first column repeated for each of ``copies``.

    >>> batch = pa.record_batch({"a": [1_000_000 + i for i in range(100)]})
    >>> decode(encode(batch)).equals(batch)
    True
    """
    columns = [_narrow(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
    metadata = {_ROWS: str(batch.num_rows).encode(), _SCHEMA: batch.schema.serialize().to_pybytes()}
    if len(copies):
        metadata[_COPIES] = copies.serialize().to_pybytes()
    schema = pa.schema([f for _, f in columns], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, schema, options=_OPTIONS if batch.num_rows > NARROWED_ROWS else _PLAIN
    ) as writer:
        if columns:
            writer.write_batch(pa.RecordBatch.from_arrays([c for c, _ in columns], schema=schema))
    return sink.getvalue()


def decode(blob: pa.Buffer | memoryview | bytes) -> pa.RecordBatch:
    """The inverse of ``encode``."""
    with pa.ipc.open_stream(blob) as reader:
        stored = reader.schema
        rows = int(stored.metadata[_ROWS])
        schema = pa.ipc.read_schema(pa.py_buffer(stored.metadata[_SCHEMA]))
        arrays = reader.read_next_batch().columns if len(stored) else []
    columns = [_widen(a, s, f) for a, s, f in zip(arrays, stored, schema, strict=True)]
    if _COPIES in stored.metadata:
        copies = pa.ipc.read_schema(pa.py_buffer(stored.metadata[_COPIES]))
        columns += [columns[0].view(f.type) for f in copies]
        schema = pa.schema([*schema, *copies])
    return batch_of(columns, schema, rows)


def _narrow(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    plain = column, pa.field(field.name, field.type)
    integers = _as_integers(column)
    if integers is None or len(column) < NARROWED_ROWS or column.null_count == len(column):
        return plain
    bounds = pc.min_max(integers)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    narrow = _narrowest(most - least, integers.type)
    values, metadata = _values(integers), {_LEAST: str(least).encode()}
    steps = None if column.null_count else _steps(values, narrow)
    if steps is not None:
        values, least, narrow = steps
        metadata = {_LEAST: str(least).encode(), _FIRST: str(_values(integers)[0]).encode()}
    if narrow == integers.type:
        return plain
    stored = pa.array((values - values.dtype.type(least)).astype(narrow.to_pandas_dtype()))
    if column.null_count:
        stored = pa.Array.from_buffers(narrow, len(stored), [_validity(column), stored.buffers()[1]])
    return stored, pa.field(field.name, narrow, metadata=metadata)


def _narrowest(distance: int, kind: pa.DataType) -> pa.DataType:
    """The narrowest type for differences up to ``distance``, or the type itself."""
    fit = (t for limit, t in _NARROW if distance < limit and t.bit_width < kind.bit_width)
    return next(fit, kind)


def _steps(values: np.ndarray, than: pa.DataType) -> tuple[np.ndarray, int, pa.DataType] | None:
    """The steps to each value from the one before, the least of them and their type, if narrower; else None.

    A difference too large for its type wraps around, and so does the sum that reverses it.
    """
    if than.bit_width == 8:
        return None
    for some in (values[:NARROWING_SAMPLE_ROWS], values):
        steps = np.diff(some)
        least, most = int(steps.min()), int(steps.max())
        kind = _narrowest(most - least, than)
        if kind == than:
            return None
    return np.concatenate((steps[:1], steps)), least, kind


def _widen(column: pa.Array, stored: pa.Field, field: pa.Field) -> pa.Array:
    metadata = stored.metadata or {}
    if _LEAST not in metadata:
        return column
    integer = np.dtype(f"int{field.type.bit_width}")
    wide = np.asarray(_values(column)).astype(integer) + integer.type(int(metadata[_LEAST]))
    if _FIRST in metadata:
        wide[0] = int(metadata[_FIRST])
        wide = np.cumsum(wide, dtype=integer)
    validity = _validity(column) if column.null_count else None
    return pa.Array.from_buffers(field.type, len(column), [validity, pa.py_buffer(wide)])


def _as_integers(column: pa.Array) -> pa.Array | None:
    """The column viewed as 32 or 64 bit integers, if it is stored so."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_int64(kind) or pa.types.is_duration(kind):
        return column.view(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_int32(kind):
        return column.view(pa.int32())
    return None


def _values(column: pa.Array) -> np.ndarray:
    """The values buffer as NumPy, with arbitrary values where the column is NULL."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _validity(column: pa.Array) -> pa.Buffer:
    """The validity bitmap from bit 0."""
    return pa.array(column.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]


def split(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about ``limit`` bytes, at least one, so that blobs stay bounded."""
    pieces = max(1, -(-batch.nbytes // limit))
    rows = max(1, -(-batch.num_rows // pieces))
    yield batch.slice(0, rows)
    for start in range(rows, batch.num_rows, rows):
        yield batch.slice(start, rows)
