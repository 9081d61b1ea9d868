"""Joined tuples in the pipeline of a join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import Bools, Int64s

if TYPE_CHECKING:
    from penstock.engine.joins.drop_probing import DropProbing


@dataclass
class Tuples:
    """Tuples by columns: the row of each bound input, and the common life of these rows."""

    rows: dict[int, Int64s]
    starts: Int64s
    ends: Int64s
    min_ends: Sequence[int]
    """By input: rows that ended before it do not count."""
    unsure: frozenset[int] = frozenset()
    """Inputs of which an own predicate failed: all of theirs are tried again when the tuple is whole."""
    paths: DropProbing | None = None
    """What drop probing found for these tuples, and ``at``, by input on a path, the entry of each tuple."""
    at: Mapping[int, Int64s] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, mask: Bools) -> Tuples:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, places: Int64s) -> Tuples:
        return self._at(places, self.starts[places], self.ends[places])

    def joined(self, j: int, places: Int64s, rows: Int64s, starts: Int64s, ends: Int64s) -> Tuples:
        """The tuples at the given places, each with a row of input j, and the life that is left of it."""
        found = self._at(places, starts, ends)
        found.rows[j] = rows
        return found

    def _at(self, places: Int64s, starts: Int64s, ends: Int64s) -> Tuples:
        rows = {i: r[places] for i, r in self.rows.items()}
        at = {i: r[places] for i, r in self.at.items()}
        return Tuples(rows, starts, ends, self.min_ends, self.unsure, self.paths, at)
