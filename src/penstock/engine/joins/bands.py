"""Bands: two columns of different inputs that must lie near each other, for probes by range.

A pair satisfies a band if ``right + least <= left <= right + most``; None is no bound. ``A.x BETWEEN B.y - 5
AND B.y + 5`` is one band with both bounds, ``A.x < B.y`` one with ``most`` alone. Either side can probe the
other, with the inequalities reversed.

The columns are kept as int64 keys that sort as their values do. Over integers and times a band is the
predicate itself. Over doubles sums are rounded, so its bounds are wider by more than the rounding and the
predicate is evaluated as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.hashing import as_integers, validity
from penstock.engine.synopses.order_keys import IntegerKeys

Side = tuple[int, str]
"""Number of the input, name of its column."""

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_ROUNDING = 64 * np.finfo(np.float64).eps
"""A few sums of doubles are off by less than this share of what is summed."""


@dataclass(frozen=True)
class Band:
    """``right + least <= left <= right + most``. ``slack``: the allowance for rounding."""

    left: Side
    right: Side
    least: float | None
    most: float | None
    floating: bool = False
    slack: float = 0.0

    def __str__(self) -> str:
        left, right = self.left[1], self.right[1]
        if self.least is not None and self.most is not None:
            return f"{left} BETWEEN {_sum(right, self.least)} AND {_sum(right, self.most)}"
        if self.least is not None:
            return f"{left} >= {_sum(right, self.least)}"
        assert self.most is not None
        return f"{left} <= {_sum(right, self.most)}"

    @property
    def inputs(self) -> set[int]:
        return {self.left[0], self.right[0]}

    @property
    def both(self) -> bool:
        """Whether both bounds are given."""
        return self.least is not None and self.most is not None

    def seen_from(self, j: int) -> Band:
        """The same band with input j on the left."""
        if self.left[0] == j:
            return self
        least = None if self.most is None else -self.most
        most = None if self.least is None else -self.least
        return replace(self, left=self.right, right=self.left, least=least, most=most)

    def and_also(self, other: Band) -> Band:
        """The intersection of two bands over the same columns."""
        other = other.seen_from(self.left[0])
        least = [b for b in (self.least, other.least) if b is not None]
        most = [b for b in (self.most, other.most) if b is not None]
        return replace(
            self,
            least=max(least, default=None),
            most=min(most, default=None),
            slack=max(self.slack, other.slack),
        )

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """The least and greatest left key that may match each of these right keys."""
        if self.floating:
            return self._rough(keys, self.least, -1), self._rough(keys, self.most, 1)
        lows, highs = np.full(len(keys), _LEAST, np.int64), np.full(len(keys), _MOST, np.int64)
        if self.least is not None:
            lows, beyond = _added(keys, int(self.least), _MOST)
            highs[beyond] = _LEAST
        if self.most is not None:
            most, beyond = _added(keys, int(self.most), _LEAST)
            highs = np.minimum(highs, most)
            lows[beyond] = _MOST
        return lows, highs

    def _rough(self, keys: Int64s, offset: float | None, outward: int) -> Int64s:
        if offset is None:
            return np.full(len(keys), _LEAST if outward < 0 else _MOST, np.int64)
        values = np.where(keys < 0, keys ^ _MOST, keys).view(np.float64)
        with np.errstate(all="ignore"):
            rounding = _ROUNDING * (np.abs(values) + abs(offset) + self.slack)
            bound = values + (offset + outward * rounding)
        # Non-finite values are compared by the predicate alone.
        bound = np.where(np.isfinite(bound), bound, np.nan if outward > 0 else -np.inf)
        return order_keys_of(pa.array(bound, pa.float64()))[0]


def order_keys_of(column: pa.Array) -> tuple[Int64s, Bools]:
    """A column as keys that sort as its values do, and where it is not NULL."""
    return IntegerKeys(column.type).encode(column), validity(column)


def orders(kind: pa.DataType) -> bool:
    """Whether values of a type have such keys."""
    return as_integers(pa.nulls(0, kind)) is not None


def _added(keys: Int64s, offset: int, end: int) -> tuple[Int64s, Bools]:
    """Sums that saturate at the ends of int64 instead of wrapping, and which are beyond the given end."""
    over = keys > _MOST - max(offset, 0)
    under = keys < _LEAST - min(offset, 0)
    with np.errstate(over="ignore"):
        sums = keys + np.int64(offset)
    return np.where(over, _MOST, np.where(under, _LEAST, sums)), over if end == _MOST else under


def _sum(column: str, offset: float) -> str:
    if offset == 0:
        return column
    return f"{column} {'+' if offset > 0 else '-'} {abs(offset)}"
