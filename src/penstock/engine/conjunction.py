"""A conjunction whose predicates are tried in any order, as long as they do not fail (thesis chapter 4).

A predicate that failed on some row may be guarded by another (``b <> 0 AND a / b > 1``): from then on it is
*guarded* and is evaluated after those that never failed. A row is an error only if a predicate fails on it
and none drops it, so whether a query fails does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Chunk, Int64s, values_at
from penstock.engine.evaluate import true_mask
from penstock.engine.knobs import Knobs
from penstock.errors import DataError
from penstock.expression import Expression, columns
from penstock.measurement import Kind, Reading, order, under
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.profiler import Evaluate

Read = Callable[[str, Int64s], pa.Array]
"""A column of the rows at the given places."""


class Failed(Exception):
    """A predicate fails on some row."""

    def __init__(self, predicate: int) -> None:
        self.predicate = predicate


class Predicates:
    """``free`` ones are numbered 0, 1, ...; ``guarded`` ones are in the order they are written in."""

    def __init__(self, conjuncts: Sequence[Expression]) -> None:
        self._written = tuple(conjuncts)
        self.free = list(conjuncts)
        self.guarded: list[Expression] = []

    def passes(self, predicate: int, read: Read, rows: Int64s) -> Bools:
        """Which rows pass a free predicate; raises ``Failed`` if it fails on one."""
        try:
            return _on_rows(self.free[predicate], read, rows)
        except DataError:
            raise Failed(predicate) from None

    def guard(self, predicate: int) -> None:
        """Evaluate a predicate after the free ones from now on."""
        failed = self.free.pop(predicate)
        self.guarded = [c for c in self._written if c in (*self.guarded, failed)]

    def passes_guarded(self, read: Read, rows: Int64s) -> Bools:
        """Which rows pass the guarded predicates."""
        return passes_all(self.guarded, read, rows)


def passes_all(conjuncts: Sequence[Expression], read: Read, rows: Int64s) -> Bools:
    """Which rows pass a conjunction; raises if a predicate fails on a row that none of the others drops.

    If one fails, the rows are halved until those are alone on which it does: of a predicate that fails on
    every row, the first of them already decides.
    """
    left = np.arange(len(rows))
    try:
        for conjunct in conjuncts:
            left = left[_on_rows(conjunct, read, rows[left])]
    except DataError:
        if len(conjuncts) == 1:
            raise
        if len(rows) == 1:
            return _passes_each(conjuncts, read, rows)
        return np.concatenate([passes_all(conjuncts, read, half) for half in np.array_split(rows, 2)])
    passes = np.zeros(len(rows), np.bool_)
    passes[left] = True
    return passes


def _passes_each(conjuncts: Sequence[Expression], read: Read, row: Int64s) -> Bools:
    """The same for one row, with every predicate evaluated on it."""
    failure = None
    for conjunct in conjuncts:
        try:
            if not _on_rows(conjunct, read, row)[0]:
                return np.zeros(1, np.bool_)
        except DataError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return np.ones(1, np.bool_)


def _on_rows(conjunct: Expression, read: Read, rows: Int64s) -> Bools:
    known = {name: read(name, rows) for name in columns(conjunct)}
    return np.asarray(true_mask(conjunct, known, len(rows)))


class _Kept:
    """Sampled rows of a chunk, kept while later chunks are processed."""

    def __init__(self, chunk: Chunk, predicates: Predicates) -> None:
        self._chunk, self._predicates = chunk, predicates

    def take(self, rows: Int64s) -> dict[str, pa.Array]:
        """Keep the columns that predicates read."""
        names = {name for predicate in self._predicates.free for name in columns(predicate)}
        return {name: self._chunk.column(name).take(pa.array(rows)) for name in names}

    def joined(self, parts: list[dict[str, pa.Array]]) -> Evaluate:
        """Which of all kept rows pass a predicate."""
        whole = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}

        def read(name: str, rows: Int64s) -> pa.Array:
            return values_at(whole[name], rows)

        return lambda f, rows: self._predicates.passes(f, read, rows)


class Conjunction:
    """Evaluates each predicate on the rows that pass the ones before it; ``algorithm`` orders them.

    ``fixed``: the order is part of the plan, and no setting changes it.
    """

    def __init__(self, conjuncts: Sequence[Expression], algorithm: str, fixed: bool = False) -> None:
        self._algorithm, self._fixed = algorithm, fixed
        self._knobs = Knobs()
        self._single = conjuncts[0] if len(conjuncts) == 1 else None
        self._predicates = Predicates(conjuncts)
        self._filters = PipelinedFilters(len(conjuncts), algorithm)

    def configure(self, knobs: Knobs) -> None:
        """Order the predicates by another algorithm, or profile them at another rate."""
        self._knobs = knobs
        if self._predicates.free and not self._fixed:
            self._filters = self._filters.anew(knobs.filters or self._algorithm, knobs.profiling)

    def rows(self, chunk: Chunk) -> Int64s:
        """The places of the rows for which every predicate is true."""

        def read(name: str, rows: Int64s) -> pa.Array:
            return values_at(chunk.column(name), rows)

        if self._single is not None:  # there is nothing to order
            return np.flatnonzero(true_mask(self._single, chunk.mapping(), len(chunk)))
        kept = self._passing(len(chunk), read, _Kept(chunk, self._predicates))
        if self._predicates.guarded and len(kept):
            kept = kept[self._predicates.passes_guarded(read, kept)]
        return kept

    def _passing(self, count: int, read: Read, keep: _Kept) -> Int64s:
        while self._predicates.free:
            try:
                return self._filters.run(
                    count, lambda f, rows: self._predicates.passes(f, read, rows), keep=keep
                )
            except Failed as failed:
                self._predicates.guard(failed.predicate)
                self._filters = PipelinedFilters(len(self._predicates.free), self._algorithm)
                self.configure(self._knobs)
        return np.arange(count)

    def measure(self) -> Iterator[Reading]:
        """The current order and its reasons, if there are several predicates to order."""
        free, guarded = self._predicates.free, self._predicates.guarded
        if len(free) + len(guarded) < 2:
            return
        now = order([*(free[f] for f in self._filters.order), *guarded])
        why = self._filters.measure([str(c) for c in free])
        yield from under("filters", Kind.ADAPTIVE, [*now, *why])
