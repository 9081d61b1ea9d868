"""Approximate functions with a bounded state, from which values can be taken back.

Both are sorted bags of coarse keys with the times that each occurs. The state of a union of rows is the sum
of the states, so neither the order of rows nor where they were matters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import sorted_bags
from penstock.engine.kernels.hashing import hash_rows
from penstock.engine.settings import DISTINCT_REGISTER_BITS
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.accumulators.base import Segments, Values
from penstock.engine.synopses.accumulators.sorted_bags import PercentileDisc, SortedBag, Spans

_MIDDLE = 1 << 40
"""Added to the exponents of positive numbers, so that those of negative ones are the same with a minus."""
_INFINITE, _NAN = np.int64(1 << 60), np.int64(1 << 61)


class Buckets(Stateful):
    """Keys that doubles share only if they are within a relative error (Masson et al. 2019, DDSketch).

    A positive number has the key of the bucket (g^(i-1), g^i], which stands for 2 g^i / (g + 1).
    """

    def __init__(self, error: float) -> None:
        self._log = np.log1p(2.0 * error / (1.0 - error))

    def encode(self, column: pa.Array) -> Int64s:
        values = np.asarray(column.fill_null(0.0))
        finite = np.isfinite(values) & (values != 0)
        size = np.log(np.abs(np.where(finite, values, 1.0))) / self._log
        keys = np.where(finite, np.ceil(size).astype(np.int64) + _MIDDLE, 0)
        keys = np.where(np.isinf(values), _INFINITE, np.where(np.isnan(values), _NAN, keys))
        return np.where(values < 0, -keys, keys)

    def decode(self, keys: Int64s, valid: Bools) -> pa.Array:
        size = np.abs(keys)
        finite = (size > 0) & (size < _INFINITE)
        exponent = np.where(finite, size - _MIDDLE, 0) * self._log
        middle = np.exp(exponent + np.log(2.0) - np.log1p(np.exp(self._log)))
        values = np.where(finite, middle, np.where(size == 0, 0.0, np.where(size == _NAN, np.nan, np.inf)))
        return pa.array(np.copysign(values, keys), mask=~valid)

    def moved(self) -> None:
        """Keys never change."""

    def size(self) -> int:
        """Nothing is kept."""
        return 0

    def keep(self, keys: Int64s) -> None:
        """Nothing is kept."""

    def nbytes(self) -> int:
        return 0


class ApproxPercentile(PercentileDisc):
    """APPROX_PERCENTILE: the least value with a fraction of the values up to it, to a relative error."""

    def _keys_of(self, kind: pa.DataType) -> Any:
        return Buckets(1.0 / self.constants[1])


class ApproxCountDistinct(SortedBag):
    """APPROX_COUNT_DISTINCT: HyperLogLog that keeps how often each rank of a register occurs."""

    def _width(self) -> int:
        return 2

    def _encode(self, columns: tuple[pa.Array, ...]) -> list[Int64s]:
        hashes = hash_rows(columns, len(columns[0])).view(np.uint64)
        registers = (hashes >> np.uint64(64 - DISTINCT_REGISTER_BITS)).astype(np.int64)
        rest = hashes << np.uint64(DISTINCT_REGISTER_BITS)
        most = 64 - DISTINCT_REGISTER_BITS
        # Leading zeros by the exponent of the upper 53 bits; rarer ranks than those count as the last.
        exponent = np.frexp((rest >> np.uint64(11)).astype(np.float64))[1].astype(np.int64)
        return [registers, np.minimum(54 - exponent, most + 1)]

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        found = sorted_bags.counted(
            segments.bounds, segments.sign, places, *spans, times, rows, 1 << DISTINCT_REGISTER_BITS
        )
        whole = np.rint(found).astype(np.int64)
        return pa.array(whole[:, 0].copy()), pa.array(whole[:, 1].copy())

    def _store(self, rows: np.ndarray, times: Int64s) -> None:
        """If nothing leaves, only the largest rank of each register is needed."""
        if self.grows and len(rows):
            last = np.r_[(rows[1:, :2] != rows[:-1, :2]).any(axis=1), True]
            rows, times = rows[last], np.ones(int(last.sum()), np.int64)
        super()._store(rows, times)
