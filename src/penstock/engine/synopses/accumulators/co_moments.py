"""COVAR_POP, COVAR_SAMP and CORR."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels import co_moments as kernel
from penstock.engine.kernels.hashing import validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, masked


class CovarPop(Accumulator):
    """COVAR_POP, of the pairs in which both are not NULL."""

    saved = ("_counts", "_specials", "_sums")
    _kind: ClassVar[int] = kernel.COVAR_POP
    _least: ClassVar[int] = 1

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._specials = np.zeros(0, np.int64)
        self._sums = np.zeros((0, kernel.SUMS))

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._specials, self._sums = extended(self._specials, groups), extended(self._sums, groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        valid = validity(columns[0]) & validity(columns[1])
        xs, ys = (np.asarray(c.fill_null(0.0)) for c in columns)
        place = (segments.bounds, segments.groups, segments.sign, valid, xs, ys)
        state = (self._counts, self._specials, self._sums)
        shown, known = kernel.co_moments(*place, *state, self._kind, self._least)
        before, after = (masked(shown[:, n], known[:, n], self.result) for n in range(2))
        return before, after

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._specials, self._sums = self._specials[groups], self._sums[groups]

    def nbytes(self) -> int:
        return super().nbytes() + int(self._specials.nbytes + self._sums.nbytes)


class CovarSamp(CovarPop):
    """COVAR_SAMP."""

    _kind, _least = kernel.COVAR_SAMP, 2


class Corr(CovarPop):
    """CORR."""

    _kind, _least = kernel.CORR, 2
