"""A hash of key columns that is the same in every process, for sending rows to partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NULL = np.uint64(0x9E3779B97F4A7C15)


def partition_numbers(keys: Sequence[pa.Array], partitions: int, rows: int) -> npt.NDArray[np.int64]:
    """For every row the partition its key belongs to; with no key, partition 0.

    Equal keys of equal types get equal numbers: -0.0 is 0.0, every NaN is the same, NULL is one value.

    >>> a, b = partition_numbers([pa.array([-0.0, 0.0])], 1 << 16, 2)
    >>> bool(a == b)
    True
    """
    total = np.zeros(rows, np.uint64)
    for key in keys:
        total = _mix(total * np.uint64(31) + _mix(_words(key)))
    return (total % np.uint64(partitions)).astype(np.int64) if keys else np.zeros(rows, np.int64)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer: every bit of the input reaches every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(key: pa.Array) -> npt.NDArray[np.uint64]:
    """One 64 bit word a row; equal values have equal words."""
    kind = key.type
    if pa.types.is_floating(kind):
        words = _float_words(key)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        words = _integers(key.cast(pa.int64()))
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
        words = _integers(key.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).cast(pa.int64()))
    else:
        words = _text_words(key)
    return np.where(np.asarray(key.is_null()), _NULL, words) if key.null_count else words


def _integers(key: pa.Array) -> npt.NDArray[np.uint64]:
    return np.asarray(key.fill_null(0)).astype(np.int64).view(np.uint64)


def _float_words(key: pa.Array) -> npt.NDArray[np.uint64]:
    values = np.asarray(key.cast(pa.float64()).fill_null(0.0)) + 0.0
    return np.where(np.isnan(values), np.nan, values).view(np.uint64)


def _text_words(key: pa.Array) -> npt.NDArray[np.uint64]:
    """Strings, which may be no UTF-8, binary, decimals: by their bytes."""
    # Numba takes a moment to load, so it is where there is something for it to do.
    from penstock.engine.kernels.hashing import as_bytes, hash_bytes

    words = np.zeros(len(key), np.uint64)
    hash_bytes(*as_bytes(key), words)
    return words
