"""Aggregates that users register (:class:`penstock.expression.OwnAggregate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import sorted_bags
from penstock.engine.kernels.hashing import validity
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, renumbered
from penstock.engine.synopses.accumulators.sorted_bags import SortedBag, Spans
from penstock.engine.synopses.directory import Directory
from penstock.engine.user_function import call_user_function
from penstock.errors import CatalogError
from penstock.expression import OwnAggregate, PythonCall

State = list[pa.Array]
"""The columns of states, a row each, in the order of their schema."""


class Parts:
    """The functions of a registered aggregate, with what they return checked."""

    def __init__(self, own: OwnAggregate) -> None:
        self.own = own

    def none(self, length: int) -> State:
        return [pa.nulls(length, f.type) for f in self.own.state]

    def add(self, columns: Sequence[pa.Array]) -> State:
        """The state of each row."""
        return self._states("add", columns, len(columns[0]))

    def merge(self, left: State, right: State) -> State:
        """The states of both sets of rows together."""
        return self._states("merge", [self._named(left), self._named(right)], len(left[0]))

    def remove(self, whole: State, part: State) -> State:
        """The states of sets without parts of them."""
        return self._states("remove", [self._named(whole), self._named(part)], len(whole[0]))

    def finish(self, states: State, known: Bools) -> pa.Array:
        """The values, NULL where a state stands for no rows."""
        here = np.flatnonzero(known)
        some = taken(states, here)
        call = PythonCall(f"{self.own.name}.finish", (), self.own.returns, self.own.finish)
        values = (
            call_user_function(call, [self._named(some)], len(here)) if len(here) else pa.nulls(0, call.type)
        )
        places = np.full(len(known), -1)
        places[here] = np.arange(len(here))
        return values.take(pa.array(places, mask=~known))

    def _named(self, state: State) -> dict[str, pa.Array]:
        return dict(zip(self.own.state.names, state, strict=True))

    def _states(self, part: str, args: Sequence[Any], length: int) -> State:
        """A state for each row, as the function returns it: by name, or in the order of the schema."""
        if not length:
            return self.none(0)
        answer: Any = None

        def run(*given: Any) -> Any:
            nonlocal answer
            answer = getattr(self.own, part)(*given)
            return np.zeros(length)

        call_user_function(PythonCall(f"{self.own.name}.{part}", (), pa.float64(), run), args, length)
        names = self.own.state.names
        columns = [answer.get(n) for n in names] if isinstance(answer, Mapping) else list(answer)
        if len(columns) != len(names) or any(c is None for c in columns):
            raise CatalogError(
                f"{self.own.name}.{part} must return the columns {', '.join(names)} of its state"
            )
        return [
            call_user_function(
                PythonCall(f"{self.own.name}.{part}", (), f.type, lambda column: column), [c], length
            )
            for f, c in zip(self.own.state, columns, strict=True)
        ]


def taken(state: State, places: Int64s) -> State:
    """The states at some places, NULL where a place is negative."""
    picks = pa.array(places, mask=places < 0)
    return [c.take(picks) for c in state]


def put(state: State, places: Int64s, new: State) -> State:
    """The states with new ones at some places."""
    source = np.arange(len(state[0]))
    source[places] = len(source) + np.arange(len(places))
    return [pa.concat_arrays([a, b]).take(pa.array(source)) for a, b in zip(state, new, strict=True)]


def prefixes(parts: Parts, states: State, owners: Int64s) -> State:
    """The merged state of each row and all before it that have the same owner; rows are sorted by owner."""
    reach = 1
    while reach < len(owners):
        later = np.flatnonzero(owners[reach:] == owners[:-reach]) + reach
        if not len(later):
            break
        states = put(states, later, parts.merge(taken(states, later - reach), taken(states, later)))
        reach *= 2
    return states


class Recomputed(SortedBag):
    """An aggregate without ``remove``: merged again from the rows that are there."""

    saved = ("_rows", "_times", "_arguments")

    def __init__(self, own: OwnAggregate, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._parts = Parts(own)
        self._arguments = Directory(arguments)

    def _width(self) -> int:
        return 1

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        return super().update(without_nulls(segments, columns), *columns)

    def _encode(self, columns: tuple[pa.Array, ...]) -> list[Int64s]:
        return [self._arguments.assign(columns, len(columns[0]))]

    def _show(
        self, segments: Segments, places: Int64s, spans: Spans, rows: np.ndarray, times: Int64s
    ) -> Values:
        ends, chosen = sorted_bags.listed(segments.bounds, segments.sign, places, *spans, times, False)
        owners = np.repeat(np.arange(len(ends)), np.diff(np.r_[0, ends]))
        states = (
            self._parts.add(self._arguments.rows(rows[chosen, 1])) if len(chosen) else self._parts.none(0)
        )
        merged = prefixes(self._parts, states, owners)
        known = np.diff(np.r_[0, ends]) > 0
        values = self._parts.finish(taken(merged, np.where(known, ends - 1, -1)), known)
        even = np.arange(0, len(ends), 2)
        return values.take(pa.array(even)), values.take(pa.array(even + 1))

    def _store(self, rows: np.ndarray, times: Int64s) -> None:
        super()._store(rows, times)
        here = np.unique(rows[:, 1])
        if len(self._arguments) > 2 * len(here) + COMPACT_ROWS:
            self._arguments.keep(here)
            rows[:, 1] = np.searchsorted(here, rows[:, 1])

    def tidy(self) -> None:
        here = self._arguments.in_order(np.unique(self._rows[:, 1]))
        rows = np.c_[self._rows[:, 0], renumbered(self._rows[:, 1], here)]
        self._arguments.keep(here)
        order = np.lexsort(rows.T[::-1])
        self._rows, self._times = rows[order], self._times[order]

    def nbytes(self) -> int:
        return super().nbytes() + self._arguments.nbytes()


class Running(Accumulator):
    """An aggregate with ``remove``, or over what only grows: a state per group that follows its rows."""

    saved = ("_counts", "_state")

    def __init__(self, own: OwnAggregate, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._parts = Parts(own)
        self._state = self._parts.none(0)

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        missing = len(self._counts) - len(self._state[0])
        if missing > 0:
            self._state = [
                pa.concat_arrays([a, b]) for a, b in zip(self._state, self._parts.none(missing), strict=True)
            ]

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        segments = without_nulls(segments, columns)
        groups, places = segments.groups, np.arange(len(segments.groups))
        first = np.r_[True, groups[1:] != groups[:-1]]
        before, after = self._count(segments, np.ones(len(segments.sign), np.bool_))
        there = before[np.maximum.accumulate(np.where(first, places, 0))] > 0
        initial = taken(self._state, groups)
        states = self._with(initial, there, *self._so_far(segments, columns, 1))
        removed, any_removed = self._so_far(segments, columns, -1)
        fewer = np.flatnonzero(any_removed)
        less = self._parts.remove(taken(states, fewer), taken(removed, fewer))
        states = put(states, fewer, less)
        shown = self._parts.finish(states, after > 0)
        ends = np.flatnonzero(np.r_[first[1:], True])
        self._state = put(self._state, groups[ends], taken(states, np.where(after[ends] > 0, ends, -1)))
        old = self._parts.finish(initial, there & first)
        return pc.if_else(pa.array(first), old, shown.take(pa.array(np.maximum(places - 1, 0)))), shown

    def _so_far(self, segments: Segments, columns: Sequence[pa.Array], sign: int) -> tuple[State, Bools]:
        """For each segment the state of the rows of a sign so far in this step, and whether there are any."""
        rows = np.flatnonzero(segments.sign == sign)
        owners = np.repeat(segments.groups, np.diff(segments.bounds))[rows]
        some = [c.take(pa.array(rows)) for c in columns]
        merged = prefixes(self._parts, self._parts.add(some), owners)
        last = np.searchsorted(rows, segments.bounds[1:]) - 1
        known = (last >= 0) & (np.r_[owners, -1][last] == segments.groups)
        return taken(merged, np.where(known, last, -1)), known

    def _with(self, states: State, there: Bools, more: State, any_more: Bools) -> State:
        both, only = np.flatnonzero(there & any_more), np.flatnonzero(~there & any_more)
        merged = self._parts.merge(taken(states, both), taken(more, both))
        return put(put(states, both, merged), only, taken(more, only))

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._state = taken(self._state, groups)

    def nbytes(self) -> int:
        return super().nbytes() + sum(c.nbytes for c in self._state)


def without_nulls(segments: Segments, columns: Sequence[pa.Array]) -> Segments:
    """The segments without the events that have a NULL argument."""
    valid = np.ones(len(segments.sign), np.bool_)
    for column in columns:
        valid &= validity(column)
    return Segments(segments.bounds, segments.groups, np.where(valid, segments.sign, 0).astype(np.int8))


def own_accumulator(own: OwnAggregate, arguments: tuple[pa.DataType, ...], grows: bool) -> Accumulator:
    """The accumulator of a registered aggregate."""
    kind = Recomputed if own.remove is None and not grows else Running
    return kind(own, arguments, own.returns, grows)
