"""Routing: which partitions get the rows of an input.

Partitions are the cells of a cube, which may have one dimension. In each dimension an input is either split,
so that a row has one coordinate, or replicated over all coordinates. A stream under a row window that spans
several partitions sends every partition the *places* of all its rows: the rows of other partitions have only
their timestamps, so that each partition knows which of its own rows are among the last n.

In a dimension of time, coordinates take turns at slices of time. A row goes to the slice of its timestamp,
where it is marked as the partition's own, and to those slices before in which a row that it may join can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.shares import Epochs
from penstock.expression import Expression

Int64s = npt.NDArray[np.int64]
EVERYWHERE = -1
"""The coordinate of rows that go to all."""


@dataclass(frozen=True)
class Axis:
    """A dimension of the cube for one input, with ``share`` coordinates.

    Split by the hash of ``keys``, or of the row itself with ``by_row``; replicated if neither. With
    ``by_source`` the number of the source's partition, which has all rows of a key, is the coordinate. Rows
    whose key is among ``spread`` are split by row, those whose key is among ``everywhere`` go to all
    coordinates. With ``slice`` the dimension is one of time: slices have that many ticks, and a row may join
    rows that are up to ``age`` ticks older.
    """

    share: int
    keys: tuple[Expression, ...] = ()
    by_row: bool = False
    by_source: bool = False
    spread: tuple[Any, ...] = ()
    everywhere: tuple[Any, ...] = ()
    slice: int | None = None
    age: int = 0

    @property
    def splits(self) -> bool:
        """Whether the row decides its coordinates."""
        return self.by_row or bool(self.keys) or self.slice is not None

    def homes(self, times: Int64s) -> Int64s:
        """The coordinates of the slices of some timestamps."""
        assert self.slice is not None
        return (times // self.slice) % self.share

    def covers(self, times: Int64s, at: int) -> npt.NDArray[np.bool_]:
        """Which rows go to coordinate ``at``: a slice of it is among those up to ``age`` before the row."""
        assert self.slice is not None
        first, last = (times - self.age) // self.slice, times // self.slice
        return last - (last - at) % self.share >= first


@dataclass(frozen=True)
class Route:
    """Where an input's rows go: its axes, and for a stream that sends places the columns that all partitions
    get.

    With no axes there is one partition.
    """

    axes: tuple[Axis, ...] = ()
    places: tuple[str, ...] | None = None

    @property
    def partitions(self) -> int:
        """How many there are."""
        return prod(a.share for a in self.axes)

    @property
    def own(self) -> tuple[Axis, ...]:
        """The axes in which the input is split."""
        return tuple(a for a in self.axes if a.splits)

    @property
    def copies(self) -> int:
        """How many partitions get a row."""
        return prod(a.share for a in self.axes if not a.splits)

    def cells(self) -> list[tuple[int, ...]]:
        """For each combination of its own coordinates, in order, the partitions that get those rows."""
        found = []
        for place in product(*(range(a.share) for a in self.own)):
            own = iter(place)
            ranges = [[next(own)] if a.splits else range(a.share) for a in self.axes]
            found.append(tuple(self._number(coordinates) for coordinates in product(*ranges)))
        return found

    def _number(self, coordinates: Sequence[int]) -> int:
        number = 0
        for axis, coordinate in zip(self.axes, coordinates, strict=True):
            number = number * axis.share + coordinate
        return number

    @property
    def sliced(self) -> bool:
        """Whether a dimension is one of time."""
        return any(a.slice is not None for a in self.axes)

    def masks(self, coordinates: Sequence[Int64s], rows: int) -> Iterator[npt.NDArray[np.bool_]]:
        """For each cell, which rows go to it."""
        for cell in product(*(range(a.share) for a in self.own)):
            here = np.ones(rows, np.bool_)
            for at, axis, where in zip(cell, self.own, coordinates, strict=True):
                here &= axis.covers(where, at) if axis.slice else (where == at) | (where == EVERYWHERE)
            yield here

    def at_home(self, coordinates: Sequence[Int64s], rows: int) -> Iterator[npt.NDArray[np.bool_]]:
        """For each cell, the rows of whose timestamps it has the slice."""
        for cell in product(*(range(a.share) for a in self.own)):
            here = np.ones(rows, np.bool_)
            for at, axis, where in zip(cell, self.own, coordinates, strict=True):
                here &= axis.homes(where) == at if axis.slice else True
            yield here

    def cell_of(self, coordinates: Sequence[Int64s], rows: int) -> Int64s:
        """The number of each row's cell, from its coordinates in the own axes."""
        cell = np.zeros(rows, np.int64)
        for axis, coordinate in zip(self.own, coordinates, strict=True):
            cell = cell * axis.share + coordinate
        return cell


def coordinates(axis: Axis, keys: Sequence[pa.Array], row: Sequence[pa.Array], rows: int) -> Int64s:
    """The coordinates of rows in a dimension that splits them, by their keys or by whole rows.

    In a dimension of time, their timestamps, which are first in a row.
    """
    if axis.slice is not None:
        return np.asarray(row[0]).astype(np.int64)
    if axis.by_row:
        return partition_numbers(row, axis.share, rows)
    where = partition_numbers(keys, axis.share, rows)
    if axis.spread:
        heavy = is_among(keys[0], axis.spread)
        where = np.where(heavy, partition_numbers(row, axis.share, rows), where)
    if axis.everywhere:
        where = np.where(is_among(keys[0], axis.everywhere), EVERYWHERE, where)
    return where


def is_among(key: pa.Array, values: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Which keys are among some values; -0.0 equals 0.0, unlike in Arrow's ``is_in``."""
    among = pa.array(values, key.type)
    if pa.types.is_floating(key.type):
        key, among = pc.add(key, 0.0), pc.add(among, 0.0)
    return np.asarray(pc.is_in(key, value_set=among))


def keys_of(input: str, axis: int) -> str:
    """The input with the keys of a stream that is partitioned by its source in this dimension."""
    return f"{input}#keys{axis}"


def own_column(input: str) -> str:
    """The column that marks a partition's own rows, for an input that sends places."""
    return f"{input}#own"


def is_own(column: str) -> bool:
    """Whether a column is such a mark."""
    return column.endswith("#own")


def own_rows(input: str, batch: pa.RecordBatch) -> int:
    """How many of a partition's rows are its own and not places."""
    if own_column(input) not in batch.schema.names:
        return int(batch.num_rows)
    return int(pc.sum(batch.column(own_column(input)), min_count=0).as_py())


def own_times(input: str, batch: pa.RecordBatch, ts: str) -> Int64s:
    """The timestamps, in the column ``ts``, of a partition's rows that are not places."""
    times: Int64s = np.asarray(batch.column(ts))
    mark = own_column(input)
    return times[np.asarray(batch.column(mark))] if mark in batch.schema.names else times


def totals_by_epoch(
    input: str, parts: Sequence[tuple[tuple[int, ...], pa.RecordBatch]], epochs: Epochs, ts: str
) -> list[list[int]]:
    """As ``total_rows``, by epoch: pairs of its number and the rows."""
    found = Counter[int]()
    for targets, part in parts:
        for number, rows in epochs.counts(own_times(input, part, ts)).items():
            found[number] += len(targets) * rows
    return [list(pair) for pair in sorted(found.items())]


def total_rows(input: str, parts: Sequence[tuple[tuple[int, ...], pa.RecordBatch]]) -> int:
    """How many rows all partitions get together, counting each copy, from the result of ``deliver``."""
    return sum(len(targets) * own_rows(input, part) for targets, part in parts)


def deliver(
    route: Route, input: str, batch: pa.RecordBatch, coordinates: Sequence[Int64s], always: Sequence[str] = ()
) -> Iterator[tuple[tuple[int, ...], pa.RecordBatch]]:
    """Groups of partitions with the rows that they get; each partition is in one group.

    Rows that are only places have the columns ``always`` and those that the route names.
    """
    cells = route.cells()
    if route.sliced:
        yield from _sliced(route, input, batch, coordinates)
        return
    if route.places is None and not any((c == EVERYWHERE).any() for c in coordinates):
        cell = route.cell_of(coordinates, batch.num_rows)
        yield from zip(cells, split_by(batch, cell, len(cells)), strict=True)
        return
    shown = {*always, *(route.places or ())}
    for targets, here in zip(cells, route.masks(coordinates, batch.num_rows), strict=True):
        own = pa.array(here)
        if route.places is None:
            yield targets, batch.filter(own)
            continue
        columns = [
            column if name in shown else pc.if_else(own, column, pa.scalar(None, column.type))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        names = [*batch.schema.names, own_column(input)]
        yield targets, pa.RecordBatch.from_arrays([*columns, own], names=names)


def disorder_of(ts: Int64s) -> int:
    """The most that a row of a producer is behind one that came before it.

    >>> disorder_of(np.array([3, 9, 4, 10, 8]))
    5
    """
    return int((np.maximum.accumulate(ts) - ts).max()) if len(ts) else 0


def _sliced(
    route: Route, input: str, batch: pa.RecordBatch, coordinates: Sequence[Int64s]
) -> Iterator[tuple[tuple[int, ...], pa.RecordBatch]]:
    """As ``deliver`` for a route with a dimension of time: rows are marked where their slice is."""
    rows, names = batch.num_rows, [*batch.schema.names, own_column(input)]
    masks, homes = route.masks(coordinates, rows), route.at_home(coordinates, rows)
    for targets, here, home in zip(route.cells(), masks, homes, strict=True):
        part = batch.filter(pa.array(here))
        own = pa.array(home[here])
        yield targets, pa.RecordBatch.from_arrays([*part.columns, own], names=names)


def split_by(batch: pa.RecordBatch, where: np.ndarray, partitions: int) -> list[pa.RecordBatch]:
    """The rows of each partition, in their order."""
    if partitions == 1:
        return [batch]
    if len(where) and where.min() == where.max():
        return [batch if number == where[0] else batch.slice(0, 0) for number in range(partitions)]
    order = np.argsort(where.astype(np.uint8 if partitions <= 256 else np.uint16), kind="stable")
    sorted_batch = batch.take(pa.array(order))
    ends = np.cumsum(np.bincount(where, minlength=partitions)[:partitions])
    starts = ends - np.diff(ends, prepend=0)
    return [sorted_batch.slice(int(s), int(e - s)) for s, e in zip(starts, ends, strict=True)]


_NULL = np.uint64(0x9E3779B97F4A7C15)


def partition_numbers(keys: Sequence[pa.Array], partitions: int, rows: int) -> npt.NDArray[np.int64]:
    """For every row the partition its key belongs to; with no key, partition 0.

    Equal keys of equal types get equal numbers: -0.0 is 0.0, every NaN is the same, NULL is one value.

    >>> a, b = partition_numbers([pa.array([-0.0, 0.0])], 1 << 16, 2)
    >>> bool(a == b)
    True
    """
    total = np.zeros(rows, np.uint64)
    for key in keys:
        total = _mix(total * np.uint64(31) + _mix(_words(key)))
    return (total % np.uint64(partitions)).astype(np.int64) if keys else np.zeros(rows, np.int64)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer: every bit of the input reaches every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(key: pa.Array) -> npt.NDArray[np.uint64]:
    """One 64-bit word per row; equal values have equal words."""
    kind = key.type
    if pa.types.is_floating(kind):
        words = _float_words(key)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        words = _integers(key.cast(pa.int64()))
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
        words = _integers(key.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).cast(pa.int64()))
    else:
        words = _text_words(key)
    return np.where(np.asarray(key.is_null()), _NULL, words) if key.null_count else words


def _integers(key: pa.Array) -> npt.NDArray[np.uint64]:
    return np.asarray(key.fill_null(0)).astype(np.int64).view(np.uint64)


def _float_words(key: pa.Array) -> npt.NDArray[np.uint64]:
    values = np.asarray(key.cast(pa.float64()).fill_null(0.0)) + 0.0
    return np.where(np.isnan(values), np.nan, values).view(np.uint64)


def _text_words(key: pa.Array) -> npt.NDArray[np.uint64]:
    """Strings (possibly invalid UTF-8), binary values and decimals, by their bytes."""
    # Numba takes a moment to load, so it is where there is something for it to do.
    from penstock.engine.kernels.hashing import as_bytes, hash_bytes

    words = np.zeros(len(key), np.uint64)
    hash_bytes(*as_bytes(key), words)
    return words
