"""A join of two windows inside a budget: some rows do not probe, some are not kept.

What is right: a pair of rows that join is found by the later of the two (of rows of one instant, by that of
the second input), if that one probes and the other was kept. So what is lost depends on the choices alone,
not on how rows fall into steps.

To say what share of the results is found, the join of a small share of the keys is computed whole beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from penstock.engine.element import Bools, Chunk, Int64s
from penstock.engine.joins.inputs import JoinInputs, KeyClass
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.operator import Clock, Operator
from penstock.engine.settings import MONITORED_KEYS
from penstock.engine.synopses.store import KeyOf
from penstock.measurement import Property, Reading


class Sheds(Protocol):
    """Chooses the rows that probe and that are kept."""

    def arrived(self, starts: Sequence[Int64s], slot_bytes: float, share: float) -> None:
        """Count what arrived, and share the budget anew, of which this partition has the part ``share``."""

    def probing(self, i: int, starts: Int64s) -> Bools:
        """Which rows that entered window i probe the other."""

    def keeping(self, i: int, probing: Bools) -> Bools:
        """Which rows that entered window i are kept there, of which these probe."""

    def surplus(self, sizes: Sequence[int]) -> tuple[int, int]:
        """How many rows must still leave windows of these sizes."""

    def victims(self, i: int, rows: Int64s, count: int) -> Int64s:
        """So many of the rows of window i, by chance."""

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """What is short, what was left out."""


class ShedsRows(Protocol):
    """How to shed, before it runs."""

    def start(self) -> Sheds:
        """With nothing counted."""


def later(inputs: JoinInputs, i: int, own: Int64s, others: Int64s) -> Bools:
    """Of pairs of a row of input i and one of the other input: where the first is the later."""
    start, other = inputs.life(i, own)[0], inputs.life(1 - i, others)[0]
    return np.asarray((other < start) | ((other == start) & (i == 1)))


def slot_bytes(inputs: JoinInputs) -> float:
    """What a slot for a row takes."""
    stores = inputs.owned
    return sum(s.nbytes() for s in stores) / sum(s.capacity for s in stores)


def choose_probing(
    sheds: Sheds, inputs: JoinInputs, starts: Sequence[Int64s], share: float
) -> list[tuple[Bools, Bools]]:
    """Of the rows that begin at these instants: which probe, and which enter their windows."""
    sheds.arrived(starts, slot_bytes(inputs), share)
    probing = [sheds.probing(i, s) for i, s in enumerate(starts)]
    return [(p, sheds.keeping(i, p)) for i, p in enumerate(probing)]


class ShedStep:
    """The choices for the rows of one step."""

    def __init__(self, sheds: Sheds, inputs: JoinInputs, rows: list[Int64s], share: float) -> None:
        self._inputs, self._stores, self._rows = inputs, inputs.owned, rows
        stores = self._stores
        self._firsts = [s.next - len(r) for s, r in zip(stores, rows, strict=True)]
        starts = [s.life(r)[0] for s, r in zip(stores, rows, strict=True)]
        chosen = choose_probing(sheds, inputs, starts, share)
        self._probing, self._kept = [p for p, _ in chosen], [k for _, k in chosen]

    def probing(self, i: int) -> Int64s:
        """The rows of input i that probe."""
        return self._rows[i][self._probing[i]]

    def found(self, i: int, own: Int64s, others: Int64s) -> Bools:
        """Which pairs of a row of input i that probes and one of the other input are found so."""
        j = 1 - i
        new = others >= self._firsts[j]
        kept = np.ones(len(others), np.bool_)
        kept[new] = self._kept[j][others[new] - self._firsts[j]]
        return later(self._inputs, i, own, others) & kept

    def forget(self, sheds: Sheds, now: int) -> None:
        """Let rows go that are not kept, and whatever is still too much."""
        for store, rows, kept in zip(self._stores, self._rows, self._kept, strict=True):
            store.drop(rows[~kept])
        if not any(sheds.surplus([len(s) for s in self._stores])):
            return
        # Some of them may be dead already, only not at the front.
        alive = [s.alive(now) for s in self._stores]
        for i, count in enumerate(sheds.surplus([len(rows) for rows in alive])):
            if count:
                self._stores[i].drop(sheds.victims(i, alive[i], count))


def monitored(keys: Int64s) -> Bools:
    """Which keys are joined whole."""
    hashes = np.zeros(len(keys), np.uint64)
    hash_integers(keys, hashes)
    return np.asarray(hashes % np.uint64(MONITORED_KEYS) == 0)


class Monitor:
    """Joins some of the keys whole, and counts how many of their results the join finds."""

    def __init__(self, whole: Operator, key: KeyClass, inputs: JoinInputs) -> None:
        self._whole, self._inputs = whole, inputs
        self._columns = [KeyOf("value" if inputs.exact[0] else "hash", column) for _, column in sorted(key)]
        self._all = self._found = 0

    def arrived(self, inputs: Sequence[Chunk], clock: Clock) -> None:
        """Join the monitored elements of a step."""
        keys = [k.of(c.column(k.column))[0] for k, c in zip(self._columns, inputs, strict=True)]
        some = [c.where(monitored(k)) for c, k in zip(inputs, keys, strict=True)]
        self._all += int((self._whole.run(some, clock).sign > 0).sum())

    def found(self, i: int, rows: Int64s) -> None:
        """Results with these rows of input i were found."""
        self._found += int(monitored(self._inputs.key(i, 0, rows)[0]).sum())

    def rows(self) -> int:
        """Rows held for it."""
        return self._whole.rows()

    def bytes(self) -> int:
        """Bytes held for it."""
        return self._whole.bytes()

    def measure(self) -> Iterator[Reading]:
        """The share of results that was found, of those that are known."""
        if self._all:
            yield Reading(Property.MEASURED_RECALL, self._found / self._all)
        yield Reading(Property.MONITORED_RESULTS, self._all)
        yield Reading(Property.MONITORED_ROWS, self.rows())
