"""Payload columns of a store: append at the end, drop at the front, gather anywhere.

Values of fixed width are in a NumPy ring addressed by row id, values of varying width in a short list of
Arrow arrays. The cost of reading and appending does not grow with the window.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import fixed_values, validity
from penstock.engine.overflow import filled, zeros
from penstock.engine.settings import MERGED_COLUMN_ROWS


def column_for(kind: pa.DataType, capacity: int) -> RingColumn | ArrowColumn:
    """The column for a type."""
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal128(kind) or pa.types.is_boolean(kind)
    return RingColumn(kind, capacity) if fixed else ArrowColumn(kind)


def ring_put(ring: np.ndarray, first: int, values: np.ndarray) -> None:
    """Write values at the slots of rows ``first, first + 1, ...``, wrapping round."""
    at = first & (len(ring) - 1)
    fits = min(len(values), len(ring) - at)
    ring[at : at + fits] = values[:fits]
    ring[: len(values) - fits] = values[fits:]


def ring_run(ring: np.ndarray, first: int, count: int) -> np.ndarray:
    """The values of rows ``first .. first + count`` as one run."""
    at = first & (len(ring) - 1)
    if at + count <= len(ring):
        return ring[at : at + count]
    return np.concatenate([ring[at:], ring[: at + count - len(ring)]])


def ring_resized(ring: np.ndarray, base: int, stop: int, capacity: int) -> np.ndarray:
    """A ring of another capacity with rows ``base .. stop`` where they now belong."""
    larger = zeros((capacity, *ring.shape[1:]), ring.dtype)
    ring_put(larger, base, ring_run(ring, base, stop - base))
    return larger


class RingColumn:
    """Values of fixed width. The ring of validity exists from the first NULL on."""

    payload = True

    def __init__(self, kind: pa.DataType, capacity: int) -> None:
        self.kind = kind
        self._values = zeros((capacity, *self._plain(pa.nulls(0, kind)).shape[1:]), self._dtype())
        self._valid: np.ndarray | None = None

    def _dtype(self) -> np.dtype:
        return self._plain(pa.nulls(0, self.kind)).dtype

    def _plain(self, array: pa.Array) -> np.ndarray:
        if pa.types.is_boolean(self.kind):
            return array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
        if pa.types.is_decimal128(self.kind) and len(array) == 0:
            return np.zeros((0, 2), np.int64)
        return fixed_values(array)

    def append(self, first: int, array: pa.Array) -> None:
        """Store the values of rows ``first, first + 1, ...``."""
        ring_put(self._values, first, self._plain(array))
        if array.null_count and self._valid is None:
            self._valid = filled((len(self._values),), True, np.bool_)
        if self._valid is not None:
            ring_put(self._valid, first, validity(array))

    def gather(self, rids: Int64s) -> pa.Array:
        slots = rids & (len(self._values) - 1)
        values = self._values[slots]
        valid = None if self._valid is None else self._valid[slots]
        if pa.types.is_boolean(self.kind):
            return pa.array(values, mask=None if valid is None else ~valid)
        mask = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(self.kind, len(rids), [mask, pa.py_buffer(np.ascontiguousarray(values))])

    def resize(self, base: int, stop: int, capacity: int) -> None:
        """Make room."""
        self._values = ring_resized(self._values, base, stop, capacity)
        if self._valid is not None:
            self._valid = ring_resized(self._valid, base, stop, capacity)

    def forget(self, base: int) -> None:
        """Nothing to do: the slots of rows before ``base`` will be overwritten."""

    def nbytes(self) -> int:
        return int(self._values.nbytes + (0 if self._valid is None else self._valid.nbytes))


class ArrowColumn:
    """Values of varying width, as Arrow arrays each of which starts at some row id.

    Small arrays are merged on arrival, so that there are few of them in any window; but none grows beyond a
    fraction of the window, since an array is dropped only with its last row.
    """

    payload = True

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._firsts: list[int] = []
        self._arrays: list[pa.Array] = []
        self._base = 0

    def append(self, first: int, array: pa.Array) -> None:
        """Store the values of rows ``first, first + 1, ...``."""
        if len(array) == 0:
            return
        self._firsts.append(first)
        self._arrays.append(array)
        most = max(MERGED_COLUMN_ROWS, (first + len(array) - self._base) // 8)
        while len(self._arrays) > 1 and _mergeable(self._arrays[-2], self._arrays[-1], most):
            last = self._arrays.pop()
            self._firsts.pop()
            self._arrays[-1] = pa.concat_arrays([self._arrays[-1], last])

    def gather(self, rids: Int64s) -> pa.Array:
        if len(rids) == 0:
            return pa.nulls(0, self.kind)
        firsts = np.array(self._firsts)
        which = np.searchsorted(firsts, rids, side="right") - 1
        hit = np.unique(which)
        if len(hit) == 1:
            return self._arrays[hit[0]].take(pa.array(rids - firsts[hit[0]]))
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], hit)
        parts = np.split(rids[order], bounds[1:])
        taken = [self._arrays[h].take(pa.array(p - firsts[h])) for h, p in zip(hit, parts, strict=True)]
        back = np.empty(len(rids), np.int64)
        back[order] = np.arange(len(rids))
        return pa.concat_arrays(taken).take(pa.array(back))

    def resize(self, base: int, stop: int, capacity: int) -> None:
        """Nothing to do: the list grows by itself."""

    def forget(self, base: int) -> None:
        """Drop the arrays that hold only rows before ``base``."""
        self._base = base
        while self._arrays and self._firsts[0] + len(self._arrays[0]) <= base:
            del self._firsts[0], self._arrays[0]

    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._arrays)


def _mergeable(older: pa.Array, newer: pa.Array, most: int) -> bool:
    return len(newer) >= len(older) and len(newer) + len(older) <= most
