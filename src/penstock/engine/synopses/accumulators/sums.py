"""COUNT, and SUM and AVG of integers and decimals: exact, so that a value that leaves has no effect later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import exact_sums
from penstock.engine.kernels.hashing import as_integers, fixed_values, validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, masked
from penstock.errors import DataError
from penstock.schema import sql_name

_EXACT = 1 << 53
"""The largest whole number up to which all are doubles."""


class Count(Accumulator):
    """COUNT(*), and COUNT(x, ...) of the rows in which none is NULL."""

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        valid = np.ones(len(segments.sign), np.bool_)
        for column in columns:
            valid &= validity(column)
        before, after = self._count(segments, valid)
        return pa.array(before), pa.array(after)


class WholeSum(Accumulator):
    """SUM of integers, decimals and intervals in 192 bits, which no sum of them exceeds."""

    saved = ("_counts", "_totals")

    def __init__(
        self,
        arguments: tuple[pa.DataType, ...],
        result: pa.DataType,
        grows: bool,
        constants: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(arguments, result, grows, constants)
        self._totals = np.zeros((0, exact_sums.WIDE), np.int64)

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._totals = extended(self._totals, groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        (column,) = columns
        valid = validity(column)
        before, after = self._count(segments, valid)
        place = (segments.bounds, segments.groups, segments.sign, valid)
        old, new = exact_sums.sums_of_integers(*place, *_words(column), self._totals)
        return self._show(old, before), self._show(new, after)

    def _show(self, totals: np.ndarray, counts: Int64s) -> pa.Array:
        return _number("a SUM", totals, counts > 0, self.result)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._totals = self._totals[groups]

    def nbytes(self) -> int:
        return super().nbytes() + int(self._totals.nbytes)


class WholeAverage(WholeSum):
    """AVG of integers and decimals: the exact sum over the count."""

    def _show(self, totals: np.ndarray, counts: Int64s) -> pa.Array:
        valid = counts > 0
        if pa.types.is_decimal(self.result) or pa.types.is_duration(self.result):
            return self._exactly(totals, counts)
        low, high = totals[:, 0], totals[:, 1]
        shown = low / np.maximum(counts, 1)
        for row in np.flatnonzero((high != low >> 63) | (np.abs(low) > _EXACT)):
            shown[row] = _integer(totals[row]) / max(int(counts[row]), 1)  # Python rounds once
        return masked(shown, valid, self.result)

    def _exactly(self, totals: np.ndarray, counts: Int64s) -> pa.Array:
        """Quotients rounded half up, as Spark rounds them."""
        decimal = pa.types.is_decimal(self.result)
        factor = 10 ** (self.result.scale - self.arguments[0].scale) if decimal else 1
        shown = np.zeros((len(totals), exact_sums.WIDE), np.int64)
        for row in np.flatnonzero(counts > 0):
            total = _integer(totals[row]) * factor
            count = int(counts[row])
            rounded = (2 * abs(total) + count) // (2 * count)
            number = rounded if total >= 0 else -rounded
            shown[row] = np.frombuffer(number.to_bytes(8 * exact_sums.WIDE, "little", signed=True), np.int64)
        return _number("an AVG", shown, counts > 0, self.result)


def _integer(words: Int64s) -> int:
    return int.from_bytes(words.tobytes(), "little", signed=True)


def _words(column: pa.Array) -> tuple[Int64s, Int64s]:
    """A column of integers or decimals as 128-bit (low, high)."""
    if pa.types.is_decimal128(column.type):
        words = fixed_values(column)
        return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])
    integers = as_integers(column)
    assert integers is not None
    return np.ascontiguousarray(integers), integers >> 63


def _number(what: str, words: np.ndarray, valid: Bools, kind: pa.DataType) -> pa.Array:
    """Numbers of a type, NULL where not valid; an error where one is too large for it."""
    low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
    decimal = pa.types.is_decimal(kind)
    bound = 10**kind.precision if decimal else 1 << 63
    fits = (words[:, 2] == high >> 63) & _less(words, bound) & ~_less(words, 1 - bound if decimal else -bound)
    if not fits[valid].all():
        instead = "cast its argument to DOUBLE" if decimal else "cast its argument to DECIMAL(38, 0)"
        advice = "" if pa.types.is_duration(kind) else f"; {instead}"
        raise DataError(f"{what} is too large for {sql_name(kind)}{advice}")
    if not decimal:
        return masked(low, valid, kind)
    mask = pa.array(valid).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(words[:, :2]))
    return pa.Array.from_buffers(kind, len(words), [mask, data])


def _less(words: np.ndarray, bound: int) -> Bools:
    """Which 128-bit numbers are less than a bound."""
    low, high = bound & (2**64 - 1), bound >> 64
    above = words[:, 1]
    return (above < high) | ((above == high) & (words[:, 0].view(np.uint64) < np.uint64(low)))
