"""SUM, AVG, VARIANCE and STDDEV of doubles, from exact sums of the values and of their squares.

The result is that of real arithmetic, rounded at the end: it does not depend on the order in which values
come and leave, nor on the partitions they come to, and large values leave no trace when they are gone.
Between the two phases of an aggregate travels a *state*: the sums themselves, as BINARY.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Int64s
from penstock.engine.kernels import exact_sums
from penstock.engine.kernels.exact_sums import (
    AVERAGE,
    DEVIATION,
    DEVIATION_OF_ALL,
    FAR,
    FAR_SQUARES,
    HEAD,
    NEAR,
    NEAR_SQUARES,
    STATE,
    SUM,
    UNPLACED,
    VARIANCE,
    VARIANCE_OF_ALL,
)
from penstock.engine.kernels.hashing import as_bytes, fixed_values, validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended, masked


class Doubles(Accumulator):
    """A function of exact sums; ``squares``: of the squares too. Its argument is doubles or states."""

    saved = (
        "_counts", "_specials", "_first", "_far_of", "_near", "_far", "_near_squares", "_far_squares",
    )  # fmt: skip

    def __init__(
        self,
        kind: int,
        squares: bool,
        arguments: tuple[pa.DataType, ...],
        result: pa.DataType,
        grows: bool,
        constants: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(arguments, result, grows, constants)
        self._kind = kind
        self._specials = np.zeros((0, 3), np.int64)
        self._first, self._far_of = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._near, self._far = np.zeros((0, NEAR), np.int64), np.zeros((0, FAR), np.int64)
        self._near_squares = np.zeros((0, NEAR_SQUARES * squares), np.int64)
        self._far_squares = np.zeros((0, FAR_SQUARES * squares), np.int64)

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._specials, self._near = extended(self._specials, groups), extended(self._near, groups)
        self._near_squares = extended(self._near_squares, groups)
        self._first = extended(self._first, groups, UNPLACED)
        self._far_of = extended(self._far_of, groups, UNPLACED)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        (column,) = columns
        valid = validity(column)
        groups = np.repeat(segments.groups, np.diff(segments.bounds))
        read, place, add = _reading(column)
        wanted = place(groups, valid, *read, self._first, self._far_of)
        if len(wanted):
            self._move_far(wanted)
        shown = self._added(add, segments, valid, read)
        self._reset(segments.groups)
        return shown

    def _added(
        self, add: Callable[..., None], segments: Segments, valid: np.ndarray, read: tuple[np.ndarray, ...]
    ) -> Values:
        count = len(segments.groups)
        counts, shown = np.zeros((count, 2), np.int64), np.zeros((count, 2))
        states = self._room_for_states(segments.groups) if self._kind == STATE else np.zeros(0, np.int64)
        ends = np.zeros(2 * count, np.int64)
        rows = (self._near, self._far, self._near_squares, self._far_squares)
        place = (segments.bounds, segments.groups, segments.sign, valid, *read)
        state = (self._counts, self._specials, self._first, self._far_of, *rows)
        add(*place, *state, self._kind, counts, shown, ends, states)
        if self._kind == STATE:
            written, before = _states(states, ends, counts), np.arange(0, 2 * count, 2)
            return written.take(pa.array(before)), written.take(pa.array(before + 1))
        least = 2 if self._kind in (VARIANCE, DEVIATION) else 1
        known = counts >= least
        return masked(shown[:, 0], known[:, 0], self.result), masked(shown[:, 1], known[:, 1], self.result)

    def _room_for_states(self, groups: Int64s) -> Int64s:
        near = HEAD + 1 + self._near.shape[1] + self._near_squares.shape[1]
        far = HEAD + 1 + self._far.shape[1] + self._far_squares.shape[1]
        return np.zeros(2 * int(np.where(self._far_of[groups] >= 0, far, near).sum()), np.int64)

    def _move_far(self, wanted: Int64s) -> None:
        taken = self._far_of[self._far_of >= 0]
        need = len(taken) + len(wanted)
        self._far, self._far_squares = extended(self._far, need), extended(self._far_squares, need)
        free = np.setdiff1d(np.arange(len(self._far)), taken)[: len(wanted)]
        near = (self._near, self._far, self._near_squares, self._far_squares)
        exact_sums.move(wanted, free, self._first, self._far_of, *near)

    def _reset(self, groups: Int64s) -> None:
        """Groups without values can begin anywhere again."""
        empty = groups[self._counts[groups] == 0]
        self._first[empty] = self._far_of[empty] = UNPLACED

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._specials, self._near = self._specials[groups], self._near[groups]
        self._near_squares = self._near_squares[groups]
        self._first, self._far_of = self._first[groups], self._far_of[groups]

    def nbytes(self) -> int:
        arrays = (self._specials, self._first, self._far_of, self._near, self._far, self._near_squares)
        return super().nbytes() + sum(int(a.nbytes) for a in (*arrays, self._far_squares))


Reading = tuple[tuple[np.ndarray, ...], Callable[..., Int64s], Callable[..., None]]


def _reading(column: pa.Array) -> Reading:
    """The argument as a kernel takes it, the kernel that finds room for it, and the one that adds it."""
    if pa.types.is_binary(column.type):
        return _state_words(column), exact_sums.place_states, exact_sums.sums_of_states
    typed = column.cast(pa.float64()) if pa.types.is_null(column.type) else column
    bits = fixed_values(typed).astype(np.float64).view(np.uint64)
    return (bits,), exact_sums.place, exact_sums.sums_of_doubles


def _state_words(column: pa.Array) -> tuple[Int64s, Int64s]:
    """States as offsets, in words, and words."""
    offsets, data = as_bytes(column)
    start = int(offsets[0])
    words = np.frombuffer(data[start : int(offsets[-1])].tobytes(), np.int64)
    return (offsets - start) // 8, words


def _states(words: Int64s, ends: Int64s, counts: np.ndarray) -> pa.Array:
    """States as BINARY, NULL where there is no value."""
    offsets = pa.py_buffer(np.concatenate([[0], 8 * ends]).astype(np.int64))
    known = pa.array(counts.ravel() > 0).buffers()[1]
    whole = pa.Array.from_buffers(pa.large_binary(), len(ends), [known, offsets, pa.py_buffer(words)])
    return whole.cast(pa.binary())


DOUBLES: dict[str, Callable[..., Accumulator]] = {
    "sum": partial(Doubles, SUM, False),
    "avg": partial(Doubles, AVERAGE, False),
    "sum_state": partial(Doubles, STATE, False),
    "variance": partial(Doubles, VARIANCE, True),
    "var_pop": partial(Doubles, VARIANCE_OF_ALL, True),
    "stddev": partial(Doubles, DEVIATION, True),
    "stddev_pop": partial(Doubles, DEVIATION_OF_ALL, True),
    "spread_state": partial(Doubles, STATE, True),
}
"""The functions of doubles, and the states that their first phases return."""
