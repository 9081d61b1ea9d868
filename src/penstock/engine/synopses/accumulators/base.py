"""The accumulator contract: takes segments of events, returns the values before and after each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import aggregation
from penstock.engine.overflow import filled
from penstock.engine.snapshot import Stateful


@dataclass(frozen=True)
class Segments:
    """Events sorted by group and instant, cut into one segment for each (group, instant)."""

    bounds: Int64s
    groups: Int64s
    sign: np.ndarray


Values = tuple[pa.Array, pa.Array]
"""A function's value before and after each segment."""


class Accumulator(Stateful, ABC):
    """One function for all groups.

    ``arguments`` are the types of its argument columns, ``constants`` the values of arguments that are the
    same for all rows. ``grows``: nothing is ever removed.
    """

    saved: ClassVar[tuple[str, ...]] = ("_counts",)

    def __init__(
        self,
        arguments: tuple[pa.DataType, ...],
        result: pa.DataType,
        grows: bool,
        constants: tuple[Any, ...] = (),
    ) -> None:
        self.arguments, self.result, self.grows, self.constants = arguments, result, grows, constants
        self._counts = np.zeros(0, np.int64)

    def room_for(self, groups: int) -> None:
        """Extend the state to this many groups."""
        self._counts = extended(self._counts, groups)

    def _count(self, segments: Segments, valid: Bools) -> tuple[Int64s, Int64s]:
        return aggregation.count(segments.bounds, segments.groups, segments.sign, valid, self._counts)

    @abstractmethod
    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        """Apply the events; the arguments' columns are in their order."""

    def keep(self, groups: Int64s) -> None:
        """Keep only these groups, renumbered in this order."""
        self._counts = self._counts[groups]

    def tidy(self) -> None:
        """Remove what no value depends on: a snapshot has only the rest."""
        return

    def nbytes(self) -> int:
        return int(self._counts.nbytes)


def renumbered(owners: Int64s, groups: Int64s) -> Int64s:
    """The new number of each owner if these groups are kept in this order; -1 for others.

    >>> renumbered(np.array([4, 2, 7]), np.array([7, 2])).tolist()
    [-1, 1, 0]
    """
    numbers = np.full(max(owners.max(initial=-1), groups.max(initial=-1)) + 1, -1, np.int64)
    numbers[groups] = np.arange(len(groups))
    return np.asarray(numbers[owners])


def extended(array: np.ndarray, groups: int, fill: int = 0) -> np.ndarray:
    """State with room for at least this many groups."""
    if groups <= len(array):
        return array
    larger = filled((2 * groups, *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def masked(values: np.ndarray, valid: Bools, kind: pa.DataType) -> pa.Array:
    """Values of a type, NULL where not valid."""
    return pa.array(values, mask=~valid).cast(kind)
