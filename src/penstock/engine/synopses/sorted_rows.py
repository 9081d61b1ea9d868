"""Distinct rows in order, with counts: by the columns of a group, then by sort keys, then by all columns.

Every value gets an int64 that sorts as it does (``order_keys``), every row the codes of its columns from left
to right. New rows find their places by binary search and are merged in once per step. What is kept is the
rows and their counts; codes and order follow from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels import ranking
from penstock.engine.kernels.hashing import validity
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.directory import Directory
from penstock.engine.synopses.order_keys import mapped, order_keys


@dataclass(frozen=True)
class SortKey:
    """A column to sort by."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        usual = self.nulls_first is not self.descending
        nulls = "" if usual else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.column}{' DESC' * self.descending}{nulls}"


class SortedRows(Stateful):
    """Rows of a schema, by ``groups`` columns, then ``keys``, then all columns as they stand."""

    saved = ("_rows", "counts")

    def __init__(self, schema: pa.Schema, groups: Sequence[str], keys: Sequence[SortKey]) -> None:
        every = [*(SortKey(g) for g in groups), *keys, *(SortKey(n) for n in schema.names)]
        first = {k.column: k for k in reversed(every)}
        self._keys = list({k.column: first[k.column] for k in every}.values())
        self._places = [schema.get_field_index(k.column) for k in self._keys]
        self._types = schema.types
        self._group_width = 2 * len(set(groups))
        self._class_width = 2 * len({*groups, *(k.column for k in keys)})
        self._rows = Directory(schema.types)
        self.counts = np.zeros(0, np.int64)
        self._clear()

    def _clear(self) -> None:
        self._encoders = [order_keys(self._types[p]) for p in self._places]
        self._codes = np.zeros((0, 2 * len(self._keys)), np.int64)
        self.order = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.order)

    def assign(self, columns: Sequence[pa.Array], length: int) -> Int64s:
        """The numbers of rows; new ones take their places in the order."""
        numbers = self._rows.assign(columns, length)
        known = len(self.counts)
        new = np.arange(known, len(self._rows))
        if len(new):
            self.counts = np.r_[self.counts, np.zeros(len(new), np.int64)]
            self._insert(new)
        return numbers

    def _insert(self, new: Int64s) -> None:
        self._codes = np.concatenate([self._codes, self._encoded(self._rows.rows(new))])
        new = new[np.lexsort(self._codes[new].T[::-1])]
        self.order = np.insert(self.order, ranking.places(self._codes, self.order, new), new)

    def _encoded(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Per column to sort by, whether the value is NULL and its code, turned where the order is."""
        count = len(columns[0]) if columns else 0
        codes = np.zeros((count, 2 * len(self._keys)), np.int64)
        for at, (key, place) in enumerate(zip(self._keys, self._places, strict=True)):
            valid, values = validity(columns[place]), self._encoders[at].encode(columns[place])
            self._move(at, key.descending)
            codes[:, 2 * at] = valid == key.nulls_first
            codes[valid, 2 * at + 1] = (~values if key.descending else values)[valid]
        return codes

    def _move(self, at: int, descending: bool) -> None:
        """Follow an encoder that has given its values new codes."""
        moved = self._encoders[at].moved()
        if moved is None:
            return
        old, new = (~m[::-1] if descending else m for m in moved)
        valid = self._codes[:, 2 * at] == self._keys[at].nulls_first
        self._codes[valid, 2 * at + 1] = mapped(self._codes[valid, 2 * at + 1], old, new)

    def groups(self) -> Int64s:
        """The first positions of the groups, and the end of the last."""
        return ranking.starts(self._codes, self.order, self._group_width)

    def classes(self) -> Int64s:
        """The first positions of rows that are equal in the keys, and the end of the last."""
        return ranking.starts(self._codes, self.order, self._class_width)

    def rows(self, positions: Int64s) -> list[pa.Array]:
        return self._rows.rows(self.order[positions])

    def keep(self, positions: Int64s) -> None:
        """Keep only the rows at these positions, which are in order."""
        numbers = self.order[positions]
        self._rows.keep(numbers)
        self._codes, self.counts = self._codes[numbers], self.counts[numbers]
        self.order = np.arange(len(numbers))
        for at, (key, encoder) in enumerate(zip(self._keys, self._encoders, strict=True)):
            valid = self._codes[:, 2 * at] == key.nulls_first
            values = self._codes[valid, 2 * at + 1]
            encoder.keep(~values if key.descending else values)

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._clear()
        self._insert(np.arange(len(self._rows)))

    def nbytes(self) -> int:
        own = self._codes.nbytes + self.order.nbytes + self.counts.nbytes
        return int(own) + self._rows.nbytes() + sum(e.nbytes() for e in self._encoders)
