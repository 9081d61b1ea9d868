"""Hashing rows of Arrow columns to one int64 each.

NULL hashes to a constant of its own, -0.0 as 0.0, every NaN alike: two rows that SQL groups together
hash alike. Kernels take plain arrays; the Python functions around them take Arrow apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s

_NULL = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: a bijection that spreads every bit."""
    x = np.uint64(x)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit
def hash_integers(values: Int64s, out: np.ndarray) -> None:
    """Fold a column of int64 into the running row hashes."""
    for i in range(len(values)):
        out[i] = mix(out[i] * np.uint64(31) + np.uint64(values[i]) + _NULL)


@njit
def hash_nulls(valid: Bools, before: np.ndarray, out: np.ndarray) -> None:
    """Give rows that are NULL in this column the hash of NULL instead."""
    for i in range(len(valid)):
        if not valid[i]:
            out[i] = mix(before[i] * np.uint64(31) + np.uint64(1))


@njit
def hash_bytes(offsets: Int64s, data: np.ndarray, out: np.ndarray) -> None:
    """Fold a column of byte strings into the running row hashes, eight bytes at a time."""
    for i in range(len(offsets) - 1):
        h = out[i] * np.uint64(31) + np.uint64(offsets[i + 1] - offsets[i])
        at, stop = offsets[i], offsets[i + 1]
        while at + 8 <= stop:
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(data[at + k]) << np.uint64(8 * k)
            h = mix(h ^ word)
            at += 8
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < stop:
            word |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += 1
        out[i] = mix(h ^ word ^ _NULL)


def hash_rows(columns: Sequence[pa.Array], length: int, seed: int = 0) -> Int64s:
    """One hash a row over all columns; rows that are equal as SQL groups them hash alike."""
    out = np.full(length, mix(np.uint64(seed)), np.uint64)
    for column in columns:
        _fold(column, out)
    return out.view(np.int64)


def _fold(column: pa.Array, out: np.ndarray) -> None:
    before = out.copy() if column.null_count else out
    integers = as_integers(column)
    if integers is not None:
        hash_integers(integers, out)
    else:
        hash_bytes(*as_bytes(column), out)
    if column.null_count:
        hash_nulls(validity(column), before, out)


def validity(column: pa.Array) -> Bools:
    """True where a column is not NULL."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))


def as_integers(column: pa.Array) -> Int64s | None:
    """A column as int64 that are equal just where its values are; None if its values do not fit one.

    What stands in the place of a NULL is arbitrary.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_floating(kind):
        floats = fixed_values(column).astype(np.float64)
        floats = np.where(np.isnan(floats), np.nan, floats + 0.0)
        return floats.view(np.int64)
    if kind.id in _INTEGER_LIKE:
        return fixed_values(column).astype(np.int64, copy=False)
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        # Little-endian 128-bit; the low word is the whole value when it has at most 18 digits.
        return np.ascontiguousarray(fixed_values(column)[:, 0])
    return None


_INTEGER_LIKE = {
    t.id
    for t in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.duration("us"),
    )
}  # fmt: skip


def fixed_values(column: pa.Array) -> np.ndarray:
    """The data buffer of a fixed-width column as NumPy sees it (decimals as rows of two int64)."""
    kind, width = column.type, 1
    if pa.types.is_decimal128(kind):
        dtype, width = np.dtype(np.int64), 2
    else:
        dtype = np.dtype(kind.to_pandas_dtype() if pa.types.is_floating(kind) else f"i{kind.bit_width // 8}")
    buffer, count = column.buffers()[1], (len(column) + column.offset) * width
    if buffer is None or len(column) == 0:
        values = np.zeros(len(column) * width, dtype)
    else:  # a buffer may be longer than its values
        values = np.frombuffer(buffer, dtype, count=count)[column.offset * width :]
    return values.reshape(-1, 2) if width == 2 else values


def as_bytes(column: pa.Array) -> tuple[Int64s, np.ndarray]:
    """Offsets and bytes of a column whose values are of varying width (others are made so)."""
    kind = column.type
    if pa.types.is_list(kind):
        # A list has the bytes of its elements' hashes.
        hashes = hash_rows([column.values], len(column.values))
        data = np.zeros(1, np.uint8) if len(hashes) == 0 else hashes.view(np.uint8)
        return np.asarray(column.offsets).astype(np.int64) * 8, data
    if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
        column = _to_binary(column)
    _, offsets, data = column.buffers()
    count = column.offset + len(column) + 1
    where = np.frombuffer(offsets, np.int64, count=count)[column.offset :]
    empty = data is None or data.size == 0
    return where, np.zeros(1, np.uint8) if empty else np.frombuffer(data, np.uint8)


def _to_binary(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()).cast(pa.large_binary())
    raise TypeError(f"columns of type {kind} cannot be keys yet; cast them to a string")
