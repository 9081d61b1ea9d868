"""Functions of a group's rows in order: PERCENTILE, MIN_BY and the like, lists, and sketches of them.

A row is the int64 keys of its values. Exact functions keep the keys of all rows with the times that each
occurs; a sketch keeps coarser keys, of which there are only so many, however many rows there are. Either way
a row that leaves is taken out of what it was added to.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Int64s
from penstock.engine.kernels import fenwick, sorted_bags
from penstock.engine.kernels.hashing import validity
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, masked, renumbered
from penstock.engine.synopses.order_keys import IntegerKeys, LabelKeys, mapped, order_keys

Spans = tuple[Int64s, Int64s]
"""Where the rows of each segment's group start and end."""


class SortedBag(Accumulator):
    """The rows of each group, sorted. Rows are left out whose last argument is NULL."""

    saved: ClassVar[tuple[str, ...]] = ("_rows", "_times")

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._rows = np.zeros((0, 1 + self._width()), np.int64)
        self._times = np.zeros(0, np.int64)

    @abstractmethod
    def _width(self) -> int:
        """The number of keys of a row."""

    @abstractmethod
    def _encode(self, columns: tuple[pa.Array, ...]) -> list[Int64s]:
        """The keys of rows."""

    @abstractmethod
    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        """Values before and after each segment.

        ``rows`` are all rows, those that enter too, ``times`` those before the step, ``places`` the row of
        each event, -1 for none; ``spans`` are the rows of each segment's group. ``times`` may be changed.
        """

    def room_for(self, groups: int) -> None:
        """Nothing to do: every row has its group."""

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        here = (segments.sign != 0) & validity(columns[-1])
        groups = np.repeat(segments.groups, np.diff(segments.bounds))
        events = np.stack([groups, *self._encode(columns)], axis=1)[here]
        order = np.lexsort(events.T[::-1])
        rows, times, found = sorted_bags.merge(self._rows, self._times, events, order)
        places = np.full(len(groups), -1, np.int64)
        places[here] = found
        owners = np.ascontiguousarray(rows[:, 0])
        spans = (np.searchsorted(owners, segments.groups), np.searchsorted(owners, segments.groups, "right"))
        shown = self._show(segments, places, spans, rows, times.copy())
        np.add.at(times, found, segments.sign[here].astype(np.int64))
        self._store(rows[times > 0], times[times > 0])
        return shown

    def _store(self, rows: np.ndarray, times: Int64s) -> None:
        self._rows, self._times = rows, times

    def keep(self, groups: Int64s) -> None:
        numbers = renumbered(self._rows[:, 0], groups)
        here = numbers >= 0
        rows, times = self._rows[here], self._times[here]
        rows[:, 0] = numbers[here]
        order = np.lexsort(rows.T[::-1])
        self._rows, self._times = rows[order], times[order]

    def nbytes(self) -> int:
        return int(self._rows.nbytes + self._times.nbytes)


class Ordered(SortedBag):
    """Rows in the order of some arguments, of which the last is the value shown.

    A key has two columns: whether the value is not NULL, and its order. In descending order both are turned.
    """

    saved = ("_rows", "_times", "_keys")

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._keys = [self._keys_of(arguments[a]) for a, _ in self._order()]

    def _order(self) -> list[tuple[int, bool]]:
        """The arguments by which rows are ordered, and whether in descending order."""
        return [(a, False) for a in range(len(self.arguments))]

    def _keys_of(self, kind: pa.DataType) -> IntegerKeys | LabelKeys:
        return order_keys(kind)

    def _width(self) -> int:
        return 2 * len(self._order())

    def _encode(self, columns: tuple[pa.Array, ...]) -> list[Int64s]:
        encoded = []
        for k, (argument, turned) in enumerate(self._order()):
            valid = validity(columns[argument])
            keys = np.where(valid, self._keys[k].encode(columns[argument]), 0)
            self._follow(k, turned)
            encoded += [_turned(valid.astype(np.int64), turned), _turned(keys, turned)]
        return encoded

    def _follow(self, k: int, turned: bool) -> None:
        """Stored labels of values follow where they moved."""
        moved = self._keys[k].moved()
        if moved is not None:
            known = _turned(self._rows[:, 1 + 2 * k], turned) == 1
            labels = mapped(_turned(self._rows[:, 2 + 2 * k], turned), *moved)
            self._rows[:, 2 + 2 * k] = _turned(np.where(known, labels, 0), turned)

    def _values(self, rows: np.ndarray, places: Int64s) -> pa.Array:
        """The values of rows, NULL where there is no place."""
        chosen = np.r_[rows, np.zeros((1, rows.shape[1]), np.int64)][places]
        _, turned = self._order()[-1]
        known = (places >= 0) & (_turned(chosen[:, -2], turned) == 1)
        return self._keys[-1].decode(np.ascontiguousarray(_turned(chosen[:, -1], turned)), known)

    def _store(self, rows: np.ndarray, times: Int64s) -> None:
        super()._store(rows, times)
        for k, (_, turned) in enumerate(self._order()):
            if self._keys[k].size() > 2 * len(rows) + COMPACT_ROWS:
                self._keys[k].keep(_turned(rows[:, 2 + 2 * k], turned))

    def nbytes(self) -> int:
        return super().nbytes() + sum(k.nbytes() for k in self._keys)


def _turned(keys: Int64s, turned: bool) -> Int64s:
    return ~keys if turned else keys


class Percentile(Ordered):
    """PERCENTILE: the value at a fraction, between the two values around it."""

    _whole: ClassVar[bool] = False

    @property
    def _fraction(self) -> float:
        return float(self.constants[0])

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        tree = fenwick.tree_of(times)
        found, parts = sorted_bags.ranked(
            segments.bounds, segments.sign, places, *spans, tree, self._fraction, self._whole
        )
        return self._between(rows, found[:, :2], parts[:, 0]), self._between(rows, found[:, 2:], parts[:, 1])

    def _between(self, rows: np.ndarray, places: np.ndarray, parts: np.ndarray) -> pa.Array:
        low = self._values(rows, np.ascontiguousarray(places[:, 0]))
        if not parts.any():
            return low
        high = self._values(rows, np.ascontiguousarray(places[:, 1]))
        a, b = (np.asarray(x.fill_null(0.0)) for x in (low, high))
        with np.errstate(invalid="ignore"):
            # Between equal values is nothing, though arithmetic of doubles may say otherwise.
            values = np.where((parts > 0) & (a != b), (1.0 - parts) * a + parts * b, a)
        return pa.array(values, mask=~validity(low))


class PercentileDisc(Percentile):
    """PERCENTILE_DISC: the least value with at least a fraction of the values up to it."""

    _whole = True


class MinBy(Percentile):
    """MIN_BY: the first argument where the second is least, and of equal ones the least."""

    _fraction = 0.0

    def _order(self) -> list[tuple[int, bool]]:
        return [(1, False), (0, False)]

    def _store(self, rows: np.ndarray, times: Int64s) -> None:
        """If nothing leaves, only the row that is shown is needed."""
        if self.grows and len(rows):
            ends = np.flatnonzero(rows[1:, 0] != rows[:-1, 0])
            best = np.r_[0, ends + 1] if self._fraction == 0.0 else np.r_[ends, len(rows) - 1]
            rows, times = rows[best], np.ones(len(best), np.int64)
        super()._store(rows, times)


class MaxBy(MinBy):
    """MAX_BY: the first argument where the second is greatest, and of equal ones the greatest."""

    _fraction = 1.0


class Skewness(Ordered):
    """SKEWNESS: of the values in their order, so that it depends on nothing else; NULL of equal values."""

    _kind: ClassVar[int] = sorted_bags.SKEWNESS

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        values = np.asarray(self._values(rows, np.arange(len(rows))).fill_null(0.0))
        bags = (segments.bounds, segments.sign, places, *spans, times)
        found, known = sorted_bags.shaped(*bags, values, self._kind)
        before, after = (masked(found[:, n], known[:, n], self.result) for n in range(2))
        return before, after


class Kurtosis(Skewness):
    """KURTOSIS: that of a normal distribution is 0."""

    _kind = sorted_bags.KURTOSIS


class CollectList(Ordered):
    """COLLECT_LIST: the values, in the order of the arguments before them, then in their own."""

    _once: ClassVar[bool] = False

    def _order(self) -> list[tuple[int, bool]]:
        descending = (*self.constants[0], False) if self.constants else (False,) * len(self.arguments)
        return list(enumerate(descending))

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        ends, chosen = sorted_bags.listed(segments.bounds, segments.sign, places, *spans, times, self._once)
        values = self._values(rows, chosen)
        lists = pa.ListArray.from_arrays(pa.array(np.r_[0, ends], pa.int32()), values)
        lists = self._shown(lists)
        even = np.arange(0, len(lists), 2)
        return lists.take(pa.array(even)), lists.take(pa.array(even + 1))

    def _shown(self, lists: pa.ListArray) -> pa.Array:
        return lists.cast(self.result)


class CollectSet(CollectList):
    """COLLECT_SET: the distinct values in order."""

    _once = True


class StringAgg(CollectList):
    """STRING_AGG: the values as one text, with a separator between; NULL of none."""

    def _shown(self, lists: pa.ListArray) -> pa.Array:
        joined = pc.binary_join(lists, self.constants[1])
        return pc.if_else(pc.greater(pc.list_value_length(lists), 0), joined, pa.scalar(None, joined.type))


class Mode(CollectList):
    """MODE: the value that occurs most often, and of several the least; NULL of none."""

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        ends, chosen = sorted_bags.listed(segments.bounds, segments.sign, places, *spans, times, False)
        found = _most_frequent(ends, chosen)
        return self._values(rows, found[0::2]), self._values(rows, found[1::2])


def _most_frequent(ends: Int64s, chosen: Int64s) -> Int64s:
    """Of each list of places in order, the first of those that occur most often; -1 of an empty list."""
    owners = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    other = (chosen[1:] != chosen[:-1]) | (owners[1:] != owners[:-1])
    starts = np.flatnonzero(np.r_[True, other][: len(chosen)])
    lengths = np.diff(starts, append=len(chosen))
    best = np.lexsort((starts, -lengths, owners[starts]))
    owner = owners[starts][best]
    first = best[np.r_[True, owner[1:] != owner[:-1]][: len(best)]]
    found = np.full(len(ends), -1, np.int64)
    found[owners[starts[first]]] = chosen[starts[first]]
    return found
