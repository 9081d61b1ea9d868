"""Distinct rows in order, with counts: by the columns of a group, then by sort keys, then by all columns.

Every value gets an int64 that sorts as it does (``order_keys``), every row the codes of its columns from left
to right. New rows find their places by binary search and are merged in once per step. Columns behind groups
and keys only matter to rows that are equal in those, and only such rows have codes of them. What is kept is
the rows and their counts; codes and order follow from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Chunk, Int64s
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


def sort_codes(keys: Sequence[SortKey], chunk: Chunk) -> np.ndarray:
    """Codes of the rows of a chunk that sort as its rows do by these keys, two columns for each key."""
    codes = np.zeros((len(chunk), 2 * len(keys)), np.int64)
    for at, key in enumerate(keys):
        column = chunk.column(key.column)
        _encode(codes[:, 2 * at : 2 * at + 2], key, column, order_keys(column.type).encode(column))
    return codes


def _encode(codes: np.ndarray, key: SortKey, column: pa.Array, values: Int64s) -> None:
    """Whether the value is NULL and its code, turned where the order is."""
    valid = validity(column)
    codes[:, 0] = valid == key.nulls_first
    codes[valid, 1] = (~values if key.descending else values)[valid]


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
        self._whole = np.zeros(0, np.bool_)
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
        codes = np.zeros((len(new), 2 * len(self._keys)), np.int64)
        for at in range(self._class_width // 2):
            codes[:, 2 * at : 2 * at + 2] = self._encoded(at, new)
        self._codes = np.concatenate([self._codes, codes])
        self._whole = np.r_[self._whole, np.zeros(len(new), np.bool_)]
        new, places = self._sorted(new)
        tied = self._tied(new, places)
        if len(tied):
            for at in range(self._class_width // 2, len(self._keys)):
                self._codes[tied, 2 * at : 2 * at + 2] = self._encoded(at, tied)
            self._whole[tied] = True
            new, places = self._sorted(new)
        self.order = np.insert(self.order, places, new)

    def _sorted(self, new: Int64s) -> tuple[Int64s, Int64s]:
        """New rows by their codes, and where they belong."""
        new = new[np.lexsort(self._codes[new].T[::-1])]
        return new, ranking.places(self._codes, self.order, new)

    def _tied(self, new: Int64s, places: Int64s) -> Int64s:
        """The rows that are equal to others in groups and keys and lack the codes of the other columns.

        Of rows that are there already only one that was alone may lack them, and that is next to the place.
        """
        beside = np.r_[-1, self.order, -1]
        found = []
        for ones, others in ((new, beside[places]), (new, beside[places + 1]), (new[1:], new[:-1])):
            alike = (others >= 0) & self._alike(ones, others)
            found += [ones[alike], others[alike]]
        rows = np.unique(np.concatenate(found))
        return rows[~self._whole[rows]]

    def _alike(self, ones: Int64s, others: Int64s) -> Bools:
        lead = self._codes[:, : self._class_width]
        return np.asarray((lead[ones] == lead[others]).all(axis=1))

    def _encoded(self, at: int, rows: Int64s) -> np.ndarray:
        """The codes of rows in a column to sort by."""
        key, column = self._keys[at], self._rows.column(self._places[at], rows)
        values = self._encoders[at].encode(column)
        self._move(at, key.descending)
        codes = np.zeros((len(rows), 2), np.int64)
        _encode(codes, key, column, values)
        return codes

    def _move(self, at: int, descending: bool) -> None:
        """Follow an encoder that has given its values new codes."""
        moved = self._encoders[at].moved()
        if moved is None:
            return
        old, new = (~m[::-1] if descending else m for m in moved)
        known = self._known(at)
        self._codes[known, 2 * at + 1] = mapped(self._codes[known, 2 * at + 1], old, new)

    def _known(self, at: int) -> Bools:
        """The rows whose code in a column stands for a value."""
        valid = self._codes[:, 2 * at] == self._keys[at].nulls_first
        return valid if 2 * at < self._class_width else valid & self._whole

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
        self._whole = self._whole[numbers]
        self.order = np.arange(len(numbers))
        for at, (key, encoder) in enumerate(zip(self._keys, self._encoders, strict=True)):
            values = self._codes[self._known(at), 2 * at + 1]
            encoder.keep(~values if key.descending else values)

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._clear()
        self._insert(np.arange(len(self._rows)))

    def nbytes(self) -> int:
        own = self._codes.nbytes + self._whole.nbytes + self.order.nbytes + self.counts.nbytes
        return int(own) + self._rows.nbytes() + sum(e.nbytes() for e in self._encoders)
