"""The filters of the thesis's experiments: hash probes into relations of about 10,000 tuples (4.7).

A probe costs the same whether it finds its tuple or not, as in the thesis, where all relations have the same
size: what a filter takes must not change with its selectivity. So the index is a table without collisions: a
value's place is a permutation of its bits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.compiled import njit
from penstock.streamon.profiler import Evaluate
from penstock.workloads.filters import FilterWorkload

EMPTY = -1
ROUNDS = 4


@njit(inline="always")
def place(value, mask, half):
    """Where a value is: every round is a bijection of the table's places."""
    x = value & mask
    for _ in range(ROUNDS):
        x = (x * 0x2C1B3C6D + 0x297A2D39) & mask
        x ^= x >> half
    return x


@njit
def fill(slots, half, values):
    """Put values into their places."""
    for value in values:
        slots[place(value, len(slots) - 1, half)] = value


@njit
def probe(slots, half, tuples, rows, cost, out):
    """Whether the table holds the tuples of these rows; ``cost`` probes each, all but one for the work."""
    mask = len(slots) - 1
    for i in range(len(rows)):
        value = np.int64(tuples[rows[i]])
        others = 0
        for k in range(1, cost):
            others += slots[place(value + 7919 * k, mask, half)]
        # The others never sum up to this, but the compiler does not know.
        out[i] = (slots[place(value, mask, half)] == value) | (others == -(1 << 62))


@lru_cache(maxsize=4)
def _indexes(workload: FilterWorkload) -> tuple[list[np.ndarray], int]:
    """The indexes of all relations, and half the bits of a place.

    The same ones for all who take turns: with copies of their own each would find them out of the processor's
    caches whenever its turn comes.
    """
    holds = workload.holds()
    values = np.arange(len(holds), dtype=np.int64)
    bits = int(np.ceil(np.log2(len(holds))))
    half = (bits + 1) // 2
    tables = []
    for f in range(workload.n):
        slots = np.full(1 << bits, EMPTY, np.int32)
        fill(slots, half, values[holds[:, f]])
        tables.append(slots)
    return tables, half


class Probes:
    """n relations with a hash index each, and the tuples that are looked up in them.

    ``like[f]`` is the relation that filter f probes: a change of characteristics permutes it. Counts the
    tuples that each filter is evaluated on.
    """

    def __init__(self, workload: FilterWorkload) -> None:
        self._tables, self._half = _indexes(workload)
        self.costs = tuple(workload.times.astype(int).tolist())
        self.like = np.arange(workload.n)
        self.tuples = np.empty(0, np.int32)
        self.evaluated = np.zeros(workload.n, np.int64)

    def __call__(self, f: int, rows: np.ndarray) -> np.ndarray:
        out = np.empty(len(rows), np.bool_)
        probe(self._tables[self.like[f]], self._half, self.tuples, rows, self.costs[f], out)
        self.evaluated[f] += len(rows)
        return out

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Tuples that are profiled when others have come."""
        return self.tuples[rows]

    def joined(self, parts: list[np.ndarray]) -> Evaluate:
        """The filters for all tuples that were taken."""
        taken = np.concatenate(parts)

        def evaluate(f: int, rows: np.ndarray) -> np.ndarray:
            now, self.tuples = self.tuples, taken
            passes = self(f, rows)
            self.tuples = now
            return passes

        return evaluate
