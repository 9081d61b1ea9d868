"""A conjunction whose predicates are tried in any order, as long as they do not fail.

One that failed on some row may be guarded by another (``b <> 0 AND a / b > 1``): from then on it is *guarded*
and comes behind those that never did. A row is an error only if a predicate fails on it and none drops it, so
whether a query fails does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.evaluate import true_mask
from penstock.errors import DataError
from penstock.expression import Expression, columns

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
        """Which rows a free predicate lets through; ``Failed`` if it cannot tell of one."""
        try:
            return _on_rows(self.free[predicate], read, rows)
        except DataError:
            raise Failed(predicate) from None

    def guard(self, predicate: int) -> None:
        """Let a predicate come behind from now on."""
        failed = self.free.pop(predicate)
        self.guarded = [c for c in self._written if c in (*self.guarded, failed)]

    def passes_guarded(self, read: Read, rows: Int64s) -> Bools:
        """Which rows the guarded predicates let through."""
        return passes_all(self.guarded, read, rows)


def passes_all(conjuncts: Sequence[Expression], read: Read, rows: Int64s) -> Bools:
    """Which rows a conjunction lets through; fails if one fails on a row that none of the others drops."""
    left = np.arange(len(rows))
    try:
        for conjunct in conjuncts:
            left = left[_on_rows(conjunct, read, rows[left])]
    except DataError as error:
        return _passes_each(conjuncts, read, rows, error)
    passes = np.zeros(len(rows), np.bool_)
    passes[left] = True
    return passes


def _passes_each(conjuncts: Sequence[Expression], read: Read, rows: Int64s, error: DataError) -> Bools:
    """The same, each on its own."""
    told = [_careful(conjunct, read, rows) for conjunct in conjuncts]
    dropped = np.logical_or.reduce([~passes & ~fails for passes, fails in told])
    if bool((np.logical_or.reduce([fails for _, fails in told]) & ~dropped).any()):
        raise error
    return np.asarray(~dropped)


def _on_rows(conjunct: Expression, read: Read, rows: Int64s) -> Bools:
    known = {name: read(name, rows) for name in columns(conjunct)}
    return np.asarray(true_mask(conjunct, known, len(rows)))


def _careful(conjunct: Expression, read: Read, rows: Int64s) -> tuple[Bools, Bools]:
    """Which rows a predicate lets through, and on which it fails."""
    try:
        return _on_rows(conjunct, read, rows), np.zeros(len(rows), np.bool_)
    except DataError:
        if len(rows) == 1:
            return np.zeros(1, np.bool_), np.ones(1, np.bool_)
    passes, fails = zip(*(_careful(conjunct, read, half) for half in np.array_split(rows, 2)), strict=True)
    return np.concatenate(passes), np.concatenate(fails)
