"""BIT_AND, BIT_OR and BIT_XOR: for each bit, how many values of a group have it, so that values can leave."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import as_integers, validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, masked


class Bits(Accumulator):
    """A function of how many values have each bit, and of how many values there are."""

    saved: ClassVar[tuple[str, ...]] = ("_counts", "_ones")

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._ones = np.zeros((0, arguments[0].bit_width), np.int64)

    @abstractmethod
    def _is_set(self, ones: Int64s, counts: Int64s) -> Bools:
        """Whether a bit is set that so many of so many values have."""

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._ones = extended(self._ones, groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        (column,) = columns
        valid = validity(column)
        counts = self._count(segments, valid)
        integers = as_integers(column)
        assert integers is not None
        sign = np.where(valid, segments.sign, 0).astype(np.int64)
        shown = [np.zeros(len(segments.groups), np.int64) for _ in counts]
        for bit in range(self._ones.shape[1]):
            old, new = self._totals(segments, bit, sign * (integers >> bit & 1))
            for result, ones, count in zip(shown, (old, new), counts, strict=True):
                result |= self._is_set(ones, count).astype(np.int64) << bit
        before, after = (self._typed(r, c > 0) for r, c in zip(shown, counts, strict=True))
        return before, after

    def _totals(self, segments: Segments, bit: int, changes: Int64s) -> tuple[Int64s, Int64s]:
        """How many values have a bit, before and after each segment."""
        groups, ones = segments.groups, self._ones[:, bit]
        sums = np.r_[0, np.cumsum(changes)][segments.bounds]
        first = np.r_[True, groups[1:] != groups[:-1]]
        # A group's segments are in sequence: what changed since its first one began.
        start = sums[:-1][np.maximum.accumulate(np.where(first, np.arange(len(groups)), 0))]
        old, new = ones[groups] + sums[:-1] - start, ones[groups] + sums[1:] - start
        last = np.r_[first[1:], True]
        self._ones[groups[last], bit] = new[last]
        return old, new

    def _typed(self, values: Int64s, valid: Bools) -> pa.Array:
        """Values of the argument's width, whose highest bit is the sign."""
        width = self._ones.shape[1]
        return masked(values.astype(f"int{width}"), valid, self.result)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._ones = self._ones[groups]

    def nbytes(self) -> int:
        return super().nbytes() + int(self._ones.nbytes)


class BitAnd(Bits):
    """BIT_AND: the bits that all values have."""

    def _is_set(self, ones: Int64s, counts: Int64s) -> Bools:
        return ones == counts


class BitOr(Bits):
    """BIT_OR: the bits that any value has."""

    def _is_set(self, ones: Int64s, counts: Int64s) -> Bools:
        return ones > 0


class BitXor(Bits):
    """BIT_XOR: the bits that an odd number of values have."""

    def _is_set(self, ones: Int64s, counts: Int64s) -> Bools:
        return ones % 2 == 1
