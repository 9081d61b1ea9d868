"""Values as int64 keys that sort as the values do, also for types that do not fit an int64.

Other values, such as strings, get labels with gaps between them; a new value takes a label in the gap where
it belongs. When a gap is used up all labels are assigned again, and holders of labels map them with
``moved``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import as_integers
from penstock.engine.snapshot import State, Stateful

_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)


class IntegerKeys(Stateful):
    """For types whose values are int64 or doubles. Doubles order as Spark orders them: NaN last."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._float = pa.types.is_floating(kind)

    def encode(self, column: pa.Array) -> Int64s:
        """Keys of values; the key of a NULL is arbitrary."""
        keys = as_integers(column)
        assert keys is not None
        return np.where(keys < 0, keys ^ _FLIP, keys) if self._float else keys

    def decode(self, keys: Int64s, valid: np.ndarray) -> pa.Array:
        if self._float:
            keys = np.where(keys < 0, keys ^ _FLIP, keys)
            return pa.array(keys.view(np.float64), mask=~valid).cast(self._kind)
        if pa.types.is_null(self._kind):
            return pa.nulls(len(keys))
        integers = pa.array(keys, mask=~valid)
        if pa.types.is_boolean(self._kind):
            return integers.cast(pa.int8()).cast(self._kind)
        if pa.types.is_decimal(self._kind):
            words = np.stack([keys, keys >> 63], axis=1)
            mask = pa.array(valid).buffers()[1]
            return pa.Array.from_buffers(
                self._kind, len(keys), [mask, pa.py_buffer(np.ascontiguousarray(words))]
            )
        return (
            integers.cast(pa.int32()).cast(self._kind)
            if pa.types.is_date32(self._kind)
            else integers.cast(self._kind)
        )

    def moved(self) -> tuple[Int64s, Int64s] | None:
        """Keys never change."""
        return None

    def size(self) -> int:
        """How many values are kept: none."""
        return 0

    def keep(self, keys: Int64s) -> None:
        """Nothing is kept."""

    def nbytes(self) -> int:
        return 0


class LabelKeys(Stateful):
    """For other ordered types. Values are kept sorted with their labels."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values = np.empty(0, object)
        self._labels = np.empty(0, np.int64)
        self._moved: tuple[Int64s, Int64s] | None = None

    def encode(self, column: pa.Array) -> Int64s:
        """Labels of values; new values get new labels."""
        encoded = column.dictionary_encode()
        values = np.array(encoded.dictionary.to_pylist(), object)
        self._learn(values)
        labels = self._labels[np.searchsorted(self._values, values)] if len(values) else np.zeros(1, np.int64)
        return labels[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]

    def _learn(self, values: np.ndarray) -> None:
        at = np.searchsorted(self._values, values)
        known = np.zeros(len(values), np.bool_)
        inside = at < len(self._values)
        known[inside] = self._values[at[inside]] == values[inside]
        new = np.sort(values[~known])
        if not len(new):
            return
        at = np.searchsorted(self._values, new)
        labels = self._labels_between(at)
        before = self._labels
        old = np.ones(len(self._values) + len(new), np.bool_)
        old[at + np.arange(len(new))] = False
        self._values = np.insert(self._values, at, new)
        if labels is not None:
            self._labels = np.insert(self._labels, at, labels)
            return
        self._labels = np.linspace(-(2.0**62), 2.0**62, len(self._values) + 2)[1:-1].astype(np.int64)
        self._moved = (before, self._labels[old])

    def _labels_between(self, at: Int64s) -> Int64s | None:
        """Evenly spaced labels in each gap; None if one is too small."""
        bounds = np.r_[-(2.0**62), self._labels.astype(np.float64), 2.0**62]
        starts = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
        sizes = np.diff(np.r_[starts, len(at)])
        turn = np.arange(len(at)) - np.repeat(starts, sizes) + 1
        width = (bounds[at + 1] - bounds[at]) / (np.repeat(sizes, sizes) + 1)
        if width.min() < 4096:  # doubles resolve 2**10 at 2**62
            return None
        return (bounds[at] + turn * width).astype(np.int64)

    def decode(self, keys: Int64s, valid: np.ndarray) -> pa.Array:
        if not len(self._values):
            return pa.nulls(len(keys), self._kind)
        places, which = np.unique(
            np.searchsorted(self._labels, np.where(valid, keys, self._labels[0])), return_inverse=True
        )
        values = pa.array(self._values[places].tolist(), self._kind)
        return pc.take(values, pa.array(which, mask=~valid))

    def moved(self) -> tuple[Int64s, Int64s] | None:
        """Labels that changed since the last call: (old, new), both ascending."""
        moved, self._moved = self._moved, None
        return moved

    def size(self) -> int:
        """How many values are kept."""
        return len(self._values)

    def keep(self, keys: Int64s) -> None:
        """Remove values whose labels are not among these."""
        here = np.isin(self._labels, keys)
        self._values, self._labels = self._values[here], self._labels[here]

    def state(self) -> dict[str, State]:
        return {"values": pa.array(self._values.tolist(), self._kind), "labels": self._labels}

    def _load(self, state: dict[str, State]) -> None:
        self._labels = state["labels"]
        self._values = np.empty(len(self._labels), object)
        self._values[:] = state["values"].to_pylist()

    def nbytes(self) -> int:
        return int(self._labels.nbytes) + 64 * len(self._values)


def order_keys(kind: pa.DataType) -> IntegerKeys | LabelKeys:
    """The order keys for a type."""
    return IntegerKeys(kind) if as_integers(pa.nulls(0, kind)) is not None else LabelKeys(kind)


def mapped(keys: Int64s, old: Int64s, new: Int64s) -> Int64s:
    """Keys after a move; ``old`` is ascending."""
    at = np.minimum(np.searchsorted(old, keys), len(old) - 1) if len(old) else np.zeros(len(keys), np.int64)
    known = old[at] == keys if len(old) else np.zeros(len(keys), np.bool_)
    return np.where(known, new[at] if len(old) else 0, keys)
