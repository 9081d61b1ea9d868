"""The rows that a join with constraints looks at when it collects garbage, an object per input.

A row has marks, a number whose lower bits are the inputs toward which it is closed for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.kernels.marks import close_toward, closed_toward, rows_held
from penstock.engine.kernels.membership import joined_rows

TESTED, SEEN = 1 << 61, 1 << 62
"""Marks of rows: passed the filters of their input; looked at before. Lower bits are inputs."""
INPUTS = (1 << 30) - 1


class HeldRows:
    """The rows kept of input ``number``, and their marks; ``alive``: those that are not dropped."""

    def __init__(
        self, inputs: JoinInputs, number: int, rows: Int64s, starts: Int64s, ends: Int64s, marks: Int64s,
        alive: Bools,
    ) -> None:  # fmt: skip
        self._inputs, self.number = inputs, number
        self.rows, self.starts, self.ends, self.marks, self.alive = rows, starts, ends, marks, alive
        self.closed_now = marks & INPUTS
        """As bits by input, those toward which the rows are closed."""
        self.new = marks & SEEN == 0
        """The rows that are looked at for the first time."""
        self.dead = np.zeros(len(rows), np.bool_)
        """The rows that can join nothing."""
        self.gone = np.zeros(len(rows), np.bool_)
        """These and the rows whose results are all found."""
        self._keys: dict[tuple[int, ...], np.ndarray] = {}

    @staticmethod
    def of(inputs: JoinInputs, i: int, after: int) -> HeldRows:
        """The rows of an input that are there ``after`` an instant."""
        stub = inputs.stubs[i]
        store = stub.store
        until = min(stub.frontier, store.next)
        rows, starts, ends, marks = rows_held(
            store.lives, stub.lives, store.all_marks, store.base, until, store.mask, after
        )
        if stub.longer:
            ends += stub.longer
        usable = inputs.usable(i, rows)
        alive = np.ones(len(rows), np.bool_)
        if len(usable) < len(rows):
            alive[:] = False
            alive[np.searchsorted(rows, usable)] = True
        return HeldRows(inputs, i, rows, starts, ends, marks, alive)

    def where(self, some: Bools) -> HeldRows:
        """Some of the rows."""
        if some.all():
            return self
        rows, starts, ends, marks = (a[some] for a in (self.rows, self.starts, self.ends, self.marks))
        return HeldRows(self._inputs, self.number, rows, starts, ends, marks, self.alive[some])

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, c: int) -> Int64s:
        """The keys of a class."""
        return self.keys((c,))[:, 0]

    def keys(self, classes: Sequence[int]) -> np.ndarray:
        """The keys of some classes, a line for each row; read once."""
        wanted = tuple(classes)
        if wanted not in self._keys:
            self._keys[wanted] = keys_of(self._inputs, self.number, wanted, self.rows)
        return self._keys[wanted]

    def joins(self, classes: Sequence[int], asking: Bools, other: HeldRows, there: Bools) -> Bools:
        """Which of the rows that ask have the keys of some row of another input that is there."""
        return joined_rows(other.keys(classes), there, self.keys(classes), asking)

    def closed(self, j: int) -> Bools:
        return closed_toward(self.closed_now, j)

    def close(self, j: int, which: Bools, lasting: bool = True) -> None:
        """Close rows toward an input; ``lasting``: for ever."""
        close_toward(self.closed_now, which, j)
        if lasting:
            close_toward(self.marks, which, j)


def keys_of(inputs: JoinInputs, i: int, classes: Sequence[int], rows: Int64s) -> np.ndarray:
    """The keys of rows of an input, a line for each."""
    if len(classes) == 1:
        return inputs.key(i, classes[0], rows)[0].reshape(-1, 1)
    return np.ascontiguousarray(np.stack([inputs.key(i, c, rows)[0] for c in classes], axis=1))
