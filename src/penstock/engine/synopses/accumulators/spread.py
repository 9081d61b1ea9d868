"""VARIANCE and STDDEV, of a sample or of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels.hashing import validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, masked
from penstock.engine.synopses.accumulators.sums import Sum


class Spread(Accumulator):
    """VARIANCE and STDDEV, from exact sums of the values and of their squares."""

    saved = ("_sum", "_squares", "_rests")

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._sum = Sum((pa.float64(),), pa.float64(), self.grows)
        self._squares = Sum((pa.float64(),), pa.float64(), self.grows)
        self._rests = Sum((pa.float64(),), pa.float64(), self.grows)

    _sample, _root = True, False

    def room_for(self, groups: int) -> None:
        for part in (self._sum, self._squares, self._rests):
            part.room_for(groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        (column,) = columns
        values = column.cast(pa.float64())
        plain = np.asarray(values.fill_null(0.0))
        squares, rests = _exact_squares(plain)
        mask = ~validity(column)
        sums, counts = self._sum.around(segments, values)
        high, _ = self._squares.around(segments, pa.array(squares, mask=mask))
        low, _ = self._rests.around(segments, pa.array(rests, mask=mask))
        return self._show(sums[0], high[0], low[0], counts[0]), self._show(
            sums[1], high[1], low[1], counts[1]
        )

    def _show(self, sums: np.ndarray, squares: np.ndarray, rests: np.ndarray, counts: Int64s) -> pa.Array:
        freedom = counts - 1 if self._sample else counts
        valid = (counts > 0) & (freedom > 0)
        n = np.maximum(counts, 1).astype(np.longdouble)
        total = sums.astype(np.longdouble).sum(axis=1)
        with np.errstate(invalid="ignore"):
            off = (
                squares.astype(np.longdouble).sum(axis=1)
                + rests.astype(np.longdouble).sum(axis=1)
                - total * total / n
            )
            spread = np.maximum(off, 0) / np.maximum(freedom, 1)
            spread = np.where(np.isnan(off), np.nan, spread)
        return masked((np.sqrt(spread) if self._root else spread).astype(np.float64), valid, self.result)

    def keep(self, groups: Int64s) -> None:
        for part in (self._sum, self._squares, self._rests):
            part.keep(groups)

    def nbytes(self) -> int:
        return sum(part.nbytes() for part in (self._sum, self._squares, self._rests))


def _exact_squares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares as two doubles each: the rounded one and what rounding left out (Dekker)."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = values * values
        high = values * 134217729.0
        high = high - (high - values)
        low = values - high
        rests = ((high * high - squares) + 2.0 * high * low) + low * low
    return squares, np.where(np.isfinite(rests) & np.isfinite(squares), rests, 0.0)


class SpreadOfAll(Spread):
    """VAR_POP."""

    _sample = False


class Deviation(Spread):
    """STDDEV."""

    _root = True


class DeviationOfAll(Spread):
    """STDDEV_POP."""

    _sample, _root = False, True
