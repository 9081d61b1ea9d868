"""COUNT, SUM and AVG: exact sums, so that a value that leaves has no effect on later results."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import aggregation
from penstock.engine.kernels.hashing import as_integers, fixed_values, validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, masked
from penstock.errors import DataError


class Count(Accumulator):
    """COUNT(*) and COUNT(x)."""

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        valid = np.ones(len(segments.sign), np.bool_)
        for column in columns:
            valid &= validity(column)
        before, after = self._count(segments, valid)
        return pa.array(before), pa.array(after)


class Sum(Accumulator):
    """SUM of integers and decimals in 128 bits, of doubles in two doubles."""

    saved = ("_counts", "_totals", "_specials")

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._float = pa.types.is_floating(arguments[0])
        self._totals = np.zeros((0, 2), np.float64 if self._float else np.int64)
        self._specials = np.zeros((0, 3), np.int64)

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._totals = extended(self._totals, groups)
        if self._float:
            self._specials = extended(self._specials, groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        totals, counts = self.around(segments, *columns)
        return self._show(totals[0], counts[0] > 0), self._show(totals[1], counts[1] > 0)

    def around(
        self, segments: Segments, column: pa.Array
    ) -> tuple[tuple[np.ndarray, np.ndarray], tuple[Int64s, Int64s]]:
        """Totals and counts, each before and after every segment."""
        valid = validity(column)
        counts = self._count(segments, valid)
        place = (segments.bounds, segments.groups, segments.sign, valid)
        if not self._float:
            return aggregation.sum_wide(*place, *_words(column), self._totals), counts
        values = fixed_values(column).astype(np.float64)
        return aggregation.sum_float(*place, values, self._totals, self._specials), counts

    def _show(self, totals: np.ndarray, valid: Bools) -> pa.Array:
        if self._float:
            return masked(totals[:, 0] + totals[:, 1], valid, self.result)
        if pa.types.is_decimal(self.result):
            return _decimals(totals, valid, self.result)
        low = np.ascontiguousarray(totals[:, 0])
        if bool(((low >> 63) != totals[:, 1])[valid].any()):
            raise DataError("a SUM is too large for BIGINT; cast its argument to DECIMAL(38, 0)")
        return masked(low, valid, self.result)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._totals = self._totals[groups]
        if self._float:
            self._specials = self._specials[groups]

    def nbytes(self) -> int:
        return super().nbytes() + int(self._totals.nbytes + self._specials.nbytes)


class SumLow(Sum):
    """The rounding error of a SUM of doubles in one double; with it partial sums add up exactly."""

    def _show(self, totals: np.ndarray, valid: Bools) -> pa.Array:
        high = totals[:, 0] + totals[:, 1]
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(high), (totals[:, 0] - high) + totals[:, 1], 0.0)
        return masked(low, valid, self.result)


class Avg(Sum):
    """AVG as the exact sum over the count."""

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        totals, counts = self.around(segments, *columns)
        return self._average(totals[0], counts[0]), self._average(totals[1], counts[1])

    def _average(self, totals: np.ndarray, counts: Int64s) -> pa.Array:
        valid = counts > 0
        divisor = np.where(valid, counts, 1)
        if self._float:
            return masked((totals[:, 0] + totals[:, 1]) / divisor, valid, self.result)
        if pa.types.is_decimal(self.result):
            return self._decimal_average(totals, divisor, valid)
        wide = totals[:, 1].astype(np.float64) * 2.0**64 + totals[:, 0].view(np.uint64)
        small = (totals[:, 0] >> 63) == totals[:, 1]
        return masked(np.where(small, totals[:, 0].astype(np.float64), wide) / divisor, valid, self.result)

    def _decimal_average(self, totals: np.ndarray, divisor: Int64s, valid: Bools) -> pa.Array:
        unit = Decimal(1).scaleb(-self.result.scale)
        sums = _decimals(totals, valid, pa.decimal128(38, self.arguments[0].scale)).to_pylist()
        shown = [
            None if s is None else (s / int(n)).quantize(unit) for s, n in zip(sums, divisor, strict=True)
        ]
        return pa.array(shown, self.result)


def _words(column: pa.Array) -> tuple[np.ndarray, Int64s]:
    """A column of integers or decimals as 128-bit (low, high)."""
    if pa.types.is_decimal128(column.type):
        words = fixed_values(column)
        return np.ascontiguousarray(words[:, 0]).view(np.uint64), np.ascontiguousarray(words[:, 1])
    integers = as_integers(column)
    assert integers is not None
    return np.ascontiguousarray(integers).view(np.uint64), integers >> 63


def _decimals(words: np.ndarray, valid: Bools, kind: pa.DataType) -> pa.Array:
    mask = pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(words), [mask, pa.py_buffer(np.ascontiguousarray(words))])
