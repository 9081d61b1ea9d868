"""Any function of the distinct values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels import aggregation
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, renumbered
from penstock.engine.synopses.directory import Directory


class DistinctValues(Accumulator):
    """A function of distinct values: a value enters with its first and leaves with its last occurrence."""

    saved = ("_inner", "_values", "_times")

    def __init__(self, inner: Accumulator) -> None:
        super().__init__(inner.arguments, inner.result, inner.grows, inner.constants)
        self._inner = inner
        self._clear()

    def _clear(self) -> None:
        self._values = Directory([pa.int64(), *self.arguments])
        self._times = np.zeros(0, np.int64)

    def room_for(self, groups: int) -> None:
        self._inner.room_for(groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        groups = np.repeat(segments.groups, np.diff(segments.bounds))
        numbers = self._values.assign([pa.array(groups), *columns], len(groups))
        self._times = extended(self._times, len(self._values))
        sign = aggregation.first_and_last(numbers, segments.sign, self._times)
        shown = self._inner.update(Segments(segments.bounds, segments.groups, sign), *columns)
        self._tidy()
        return shown

    def _tidy(self) -> None:
        known = len(self._values)
        here = np.flatnonzero(self._times[:known])
        if known > COMPACT_ROWS and 2 * len(here) < known:
            self._values.keep(here)
            self._times = self._times[here]

    def keep(self, groups: Int64s) -> None:
        self._inner.keep(groups)
        here = np.flatnonzero(self._times[: len(self._values)])
        owners, *values = self._values.rows(here)
        times = self._times[here]
        where = renumbered(np.asarray(owners), groups)
        self._clear()
        numbers = self._values.assign([pa.array(where), *values], len(here))
        self._times = np.zeros(len(here), np.int64)
        self._times[numbers] = times

    def tidy(self) -> None:
        self._inner.tidy()
        here = self._values.in_order(np.flatnonzero(self._times[: len(self._values)]))
        self._values.keep(here)
        self._times = self._times[here]

    def nbytes(self) -> int:
        return self._inner.nbytes() + self._values.nbytes() + int(self._times.nbytes)
