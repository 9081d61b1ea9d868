"""Accumulators: the state of one aggregate function for all groups, and its value around each instant.

Adding a function: a class with ``update``, and a line in ``ACCUMULATORS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import aggregation, heaps
from penstock.engine.kernels.hashing import as_integers, fixed_values, validity
from penstock.engine.synopses.order_keys import order_keys
from penstock.errors import DataError


@dataclass(frozen=True)
class Segments:
    """Events sorted by group and instant, cut into one segment for each (group, instant)."""

    bounds: Int64s
    groups: Int64s
    sign: np.ndarray


Values = tuple[pa.Array, pa.Array]
"""A function's value before and after each segment."""


class Accumulator(ABC):
    """One function over one argument, for all groups."""

    def __init__(self, argument: pa.DataType | None, result: pa.DataType, grows: bool) -> None:
        self.argument, self.result, self.grows = argument, result, grows
        self._counts = np.zeros(0, np.int64)

    def room_for(self, groups: int) -> None:
        """Make the state cover so many groups."""
        self._counts = _extended(self._counts, groups)

    def _count(self, segments: Segments, valid: Bools) -> tuple[Int64s, Int64s]:
        return aggregation.count(segments.bounds, segments.groups, segments.sign, valid, self._counts)

    @abstractmethod
    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        """Take in the events; the argument's column is in their order."""

    def keep(self, groups: Int64s) -> None:
        """Forget all groups but these, numbered anew in this order."""
        self._counts = self._counts[groups]

    def nbytes(self) -> int:
        """Memory used."""
        return int(self._counts.nbytes)


def _extended(array: np.ndarray, groups: int, fill: int = 0) -> np.ndarray:
    if groups <= len(array):
        return array
    larger = np.full((2 * groups, *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def _masked(values: np.ndarray, valid: Bools, kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~valid).cast(kind)


class Count(Accumulator):
    """COUNT(*) and COUNT(x)."""

    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        valid = np.ones(len(segments.sign), np.bool_) if column is None else validity(column)
        before, after = self._count(segments, valid)
        return pa.array(before), pa.array(after)


class Sum(Accumulator):
    """SUM of integers and decimals in 128 bits, of doubles in two doubles: what leaves leaves no trace."""

    def __init__(self, argument: pa.DataType | None, result: pa.DataType, grows: bool) -> None:
        super().__init__(argument, result, grows)
        assert argument is not None
        self._float = pa.types.is_floating(argument)
        self._totals = np.zeros((0, 2), np.float64 if self._float else np.int64)
        self._specials = np.zeros((0, 3), np.int64)

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._totals = _extended(self._totals, groups)
        if self._float:
            self._specials = _extended(self._specials, groups)

    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        totals, counts = self._around(segments, column)
        return self._show(totals[0], counts[0] > 0), self._show(totals[1], counts[1] > 0)

    def _around(
        self, segments: Segments, column: pa.Array | None
    ) -> tuple[tuple[np.ndarray, np.ndarray], tuple[Int64s, Int64s]]:
        """Totals and counts, each before and after every segment."""
        assert column is not None
        valid = validity(column)
        counts = self._count(segments, valid)
        place = (segments.bounds, segments.groups, segments.sign, valid)
        if not self._float:
            return aggregation.sum_wide(*place, *_words(column), self._totals), counts
        values = fixed_values(column).astype(np.float64)
        return aggregation.sum_float(*place, values, self._totals, self._specials), counts

    def _show(self, totals: np.ndarray, valid: Bools) -> pa.Array:
        if self._float:
            return _masked(totals[:, 0] + totals[:, 1], valid, self.result)
        if pa.types.is_decimal(self.result):
            return _decimals(totals, valid, self.result)
        low = np.ascontiguousarray(totals[:, 0])
        if bool(((low >> 63) != totals[:, 1])[valid].any()):
            raise DataError("a SUM is too large for BIGINT; cast its argument to DECIMAL(38, 0)")
        return _masked(low, valid, self.result)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._totals = self._totals[groups]
        if self._float:
            self._specials = self._specials[groups]

    def nbytes(self) -> int:
        return super().nbytes() + int(self._totals.nbytes + self._specials.nbytes)


class SumLow(Sum):
    """What rounding a SUM of doubles to one double leaves out; lets partial sums add up exactly."""

    def _show(self, totals: np.ndarray, valid: Bools) -> pa.Array:
        high = totals[:, 0] + totals[:, 1]
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(high), (totals[:, 0] - high) + totals[:, 1], 0.0)
        return _masked(low, valid, self.result)


class Avg(Sum):
    """AVG as the exact sum over the count."""

    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        totals, counts = self._around(segments, column)
        return self._average(totals[0], counts[0]), self._average(totals[1], counts[1])

    def _average(self, totals: np.ndarray, counts: Int64s) -> pa.Array:
        valid = counts > 0
        divisor = np.where(valid, counts, 1)
        if self._float:
            return _masked((totals[:, 0] + totals[:, 1]) / divisor, valid, self.result)
        if pa.types.is_decimal(self.result):
            return self._decimal_average(totals, divisor, valid)
        wide = totals[:, 1].astype(np.float64) * 2.0**64 + totals[:, 0].view(np.uint64)
        small = (totals[:, 0] >> 63) == totals[:, 1]
        return _masked(np.where(small, totals[:, 0].astype(np.float64), wide) / divisor, valid, self.result)

    def _decimal_average(self, totals: np.ndarray, divisor: Int64s, valid: Bools) -> pa.Array:
        assert self.argument is not None
        unit = Decimal(1).scaleb(-self.result.scale)
        sums = _decimals(totals, valid, pa.decimal128(38, self.argument.scale)).to_pylist()
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


class Min(Accumulator):
    """MIN, and MAX with the order turned round. A heap a group where values leave."""

    _turned = False

    def __init__(self, argument: pa.DataType | None, result: pa.DataType, grows: bool) -> None:
        super().__init__(argument, result, grows)
        assert argument is not None
        self._keys = order_keys(argument)
        self._best = np.zeros(0, np.int64)
        self._heaps = None if grows else _Heaps()

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._best = _extended(self._best, groups, heaps.NONE)
        if self._heaps is not None:
            self._heaps.room_for_groups(groups)

    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        assert column is not None
        valid = validity(column)
        counts = self._count(segments, valid)
        keys = self._encode(column)
        if self._heaps is None:
            place = (segments.bounds, segments.groups, segments.sign, valid, keys)
            best = aggregation.extreme_growing(*place, self._best)
        else:
            best = self._heaps.update(segments, valid, keys)
        shown = (self._decode(best[0], counts[0] > 0), self._decode(best[1], counts[1] > 0))
        if self._heaps is not None and self._heaps.tidy():
            self._keys.keep(self._turn(self._heaps.keys()))
        return shown

    def _turn(self, keys: Int64s) -> Int64s:
        return ~keys if self._turned else keys

    def _encode(self, column: pa.Array) -> Int64s:
        keys = self._turn(self._keys.encode(column))
        moved = self._keys.moved()
        if moved is not None:
            old, new = (self._turn(m) for m in moved)
            order = np.argsort(old)
            self._best = _mapped(self._best, old[order], new[order])
            if self._heaps is not None:
                self._heaps.rename(old[order], new[order])
        return keys

    def _decode(self, keys: Int64s, valid: Bools) -> pa.Array:
        return self._keys.decode(self._turn(keys), valid)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._best = self._best[groups]
        if self._heaps is not None:
            self._heaps.keep(groups)

    def nbytes(self) -> int:
        own = int(self._best.nbytes) + self._keys.nbytes()
        return super().nbytes() + own + (self._heaps.nbytes() if self._heaps is not None else 0)


class Max(Min):
    """MAX."""

    _turned = True


def _mapped(keys: Int64s, old: Int64s, new: Int64s) -> Int64s:
    at = np.minimum(np.searchsorted(old, keys), len(old) - 1) if len(old) else np.zeros(len(keys), np.int64)
    known = old[at] == keys if len(old) else np.zeros(len(keys), np.bool_)
    return np.where(known, new[at] if len(old) else 0, keys)


class _Heaps:
    """The arrays that ``kernels.heaps`` works on."""

    def __init__(self) -> None:
        self._roots = np.full(0, -1, np.int64)
        self._clear(1024)

    def _clear(self, capacity: int) -> None:
        self._nodes = np.zeros((capacity, 6), np.int64)
        self._heads = np.full(capacity, -1, np.int64)
        self._free = np.full(capacity, -1, np.int64)
        self._room = np.array([0, -1], np.int64)

    def _state(self) -> tuple[np.ndarray, Int64s, Int64s, Int64s, Int64s]:
        return self._nodes, self._heads, self._roots, self._free, self._room

    def room_for_groups(self, groups: int) -> None:
        self._roots = _extended(self._roots, groups, -1)

    def update(self, segments: Segments, valid: Bools, keys: Int64s) -> tuple[Int64s, Int64s]:
        need = int(self._room[0]) + int((segments.sign > 0).sum())
        if need > len(self._nodes):
            self._rebuild(2 * need)
        place = (segments.bounds, segments.groups, segments.sign, valid, keys)
        return heaps.extreme_changing(*place, *self._state())

    def _used(self) -> np.ndarray:
        nodes = self._nodes[: self._room[0]]
        return nodes[(nodes[:, heaps.GROUP] >= 0) & (nodes[:, heaps.COUNT] > 0)]

    def keys(self) -> Int64s:
        return self._used()[:, heaps.KEY]

    def tidy(self) -> bool:
        """Rebuild when values that are there no more are the greater part."""
        used = int(self._room[0])
        if used < 1024 or used < len(self._nodes) // 2:
            return False
        self._rebuild(2 * len(self._used()))
        return True

    def _rebuild(self, capacity: int) -> None:
        used = self._used().copy()
        self._clear(1 << max(10, int(max(capacity, 2 * len(used))).bit_length()))
        self._roots[:] = -1
        self._fill(used)

    def _fill(self, used: np.ndarray) -> None:
        group, key, count = (np.ascontiguousarray(used[:, c]) for c in (heaps.GROUP, heaps.KEY, heaps.COUNT))
        heaps.fill(group, key, count, *self._state())

    def rename(self, old: Int64s, new: Int64s) -> None:
        used = self._used().copy()
        used[:, heaps.KEY] = _mapped(np.ascontiguousarray(used[:, heaps.KEY]), old, new)
        self._clear(len(self._nodes))
        self._roots[:] = -1
        self._fill(used)

    def keep(self, groups: Int64s) -> None:
        used = self._used().copy()
        number = np.full(len(self._roots), -1, np.int64)
        number[groups] = np.arange(len(groups))
        used[:, heaps.GROUP] = number[used[:, heaps.GROUP]]
        self._clear(len(self._nodes))
        self._roots = np.full(max(len(groups), 1), -1, np.int64)
        self._fill(used[used[:, heaps.GROUP] >= 0])

    def nbytes(self) -> int:
        return int(self._nodes.nbytes + self._heads.nbytes + self._free.nbytes + self._roots.nbytes)


ACCUMULATORS: dict[str, type[Accumulator]] = {
    "count": Count,
    "sum": Sum,
    "sum_low": SumLow,
    "avg": Avg,
    "min": Min,
    "max": Max,
}


def accumulators(
    calls: Sequence[tuple[str, pa.DataType | None, pa.DataType]], grows: bool
) -> list[Accumulator]:
    """Fresh accumulators for (function, argument type, result type)."""
    return [ACCUMULATORS[function](argument, result, grows) for function, argument, result in calls]
