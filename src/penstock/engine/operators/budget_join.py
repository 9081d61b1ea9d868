"""budget-join: the join of two time windows that keeps only as many tuples as it may.

What is right: every tuple probes the other window when it comes. A pair is found by the later of the two
(of one instant, by that of the second input) if the other was still kept. What is found is there for the
whole of its life, as in the exact join.

How: which tuples are kept is decided one arrival after the other, in the order of time, by a keeper; what
it learns from it uses from the next epoch on, a stretch of stream time of fixed length. So the same input
gives the same results, however it is cut into steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.budget import CLUSTER, WEIGHT
from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s, Pattern, batch_of
from penstock.engine.joins.shedding import slot_bytes
from penstock.engine.joins.tuples import Tuples
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.mjoin import JoinOperator, MJoin
from penstock.engine.snapshot import Pickled, State
from penstock.measurement import Reading

SAMPLED = pa.schema([(WEIGHT, pa.float64()), (CLUSTER, pa.int64())])


@dataclass(frozen=True)
class Arrivals:
    """Tuples of one window in the order of time: their numbers, lives, and keys (0 without one)."""

    seq: Int64s
    starts: Int64s
    ends: Int64s
    keys: Int64s


@dataclass(frozen=True)
class Results:
    """Which pairs are results, and of a sample their weights and clusters."""

    found: Bools
    weights: np.ndarray
    clusters: Int64s


class Keeper(Protocol):
    """Decides which tuples of two windows stay in memory."""

    epoch: int

    def step(self, arrivals: Sequence[Arrivals], begin: int, slot_bytes: float, clock: Clock) -> None:
        """Decide on tuples that come; ``begin`` is the instant from which the step runs.

        ``slot_bytes``: what a slot for a row takes. The clock has the part of the budget that is this
        partition's.
        """

    def results(self, pairs: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """Decide on pairs that join, given the numbers and times of both tuples."""

    def kept(self, i: int, now: int) -> Int64s:
        """The numbers of the tuples of window i that are needed after ``now``, in order."""

    def passed(self, now: int) -> None:
        """An epoch is over."""

    def bytes(self) -> int:
        """Memory used by what is known of tuples and streams."""

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """What is kept, lost and expected."""


class Keeps(Protocol):
    """How to keep, before it runs."""

    @property
    def sampled(self) -> bool:
        """Whether results carry weights."""

    def start(self) -> Keeper:
        """With nothing known."""


@dataclass(frozen=True)
class BudgetJoin(MJoin):
    """Two inputs with known ends of life, and what decides on their tuples."""

    keeps: Keeps | None = None

    name = "budget-join"

    @property
    def schema(self) -> pa.Schema:
        """The output columns; of a sample also weight and cluster."""
        own = super().schema
        return pa.schema([*own, *SAMPLED]) if self.keeps and self.keeps.sampled else own

    @property
    def waits(self) -> bool:
        """Who came first matters."""
        return True

    def describe(self) -> str:
        """The predicates it joins on, and the budget."""
        return f"{super().describe()}, {self.keeps}"

    def start(self, context: StartContext) -> Operator:
        """With empty windows."""
        return _BudgetJoin(self)


class _BudgetJoin(JoinOperator):
    _node: BudgetJoin

    _given = 1

    def __init__(self, node: BudgetJoin) -> None:
        super().__init__(node, None)
        assert node.keeps is not None
        self._keeper = node.keeps.start()
        self._arrived = [0, 0]
        self._epoch: int | None = None

    def state(self) -> dict[str, State]:
        return {"all": Pickled.of(vars(self))}

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        out = []
        for begin, end, parts in self._epochs([c.in_order() for c in inputs], clock.now):
            out.append(self._part(parts, begin, end, clock))
        self._inputs.reconsider()
        joined = Chunk.concat(out, self._schema)
        return joined

    def _epochs(self, inputs: Sequence[Chunk], now: int) -> Iterator[tuple[int, int, list[Chunk]]]:
        """The step, cut where epochs end: begin, end and elements of each part."""
        length = self._keeper.epoch
        numbers = [c.ts // length for c in inputs]
        for epoch in np.unique(np.concatenate(numbers)):
            self._close(int(epoch))
            cuts = [(np.searchsorted(n, epoch, "left"), np.searchsorted(n, epoch, "right")) for n in numbers]
            parts = [c.slice(int(a), int(b)) for c, (a, b) in zip(inputs, cuts, strict=True)]
            first = min(int(c.ts[0]) for c in parts if len(c))
            yield first, min((int(epoch) + 1) * length, max(now, first + 1)), parts
        if self._epoch is not None and now < FOREVER:
            self._close(now // length)
            for i in range(2):
                self._forget(i, now)

    def _close(self, epoch: int) -> None:
        """Time has come to another epoch: what was learned in those before is used now."""
        if self._epoch is not None and epoch > self._epoch:
            self._keeper.passed(epoch * self._keeper.epoch)
        self._epoch = epoch if self._epoch is None else max(epoch, self._epoch)

    def _part(self, inputs: Sequence[Chunk], begin: int, now: int, clock: Clock) -> Chunk:
        rows, found = [], []
        for i, chunk in enumerate(inputs):
            numbers = np.arange(self._arrived[i], self._arrived[i] + len(chunk))
            self._arrived[i] += len(chunk)
            rows.append(self._inputs.insert(i, replace(chunk, rid=numbers)))
            found += self._pipeline(i, rows[i])
        arrivals = [self._arrivals(i, r) for i, r in enumerate(rows)]
        self._keeper.step(arrivals, begin, slot_bytes(self._inputs), clock)
        chunk = self._decided(_concat(found))
        for i in range(2):
            self._forget(i, now)
        return chunk

    def _arrivals(self, i: int, rows: Int64s) -> Arrivals:
        starts, ends = self._inputs.life(i, rows)
        keys = self._inputs.key(i, 0, rows)[0] if self._node.classes else np.zeros(len(rows), np.int64)
        return Arrivals(self._inputs.ids(i, rows), starts, ends, keys)

    def _decided(self, tuples: Tuples) -> Chunk:
        """The pairs that are results."""
        pairs = [self._inputs.ids(i, tuples.rows[i]) for i in range(2)]
        times = [self._inputs.life(i, tuples.rows[i])[0] for i in range(2)]
        results = self._keeper.results(pairs, times)
        found = tuples.where(results.found)
        columns = [self._inputs.gather(found, c) for c in self._node.output]
        if self._node.keeps and self._node.keeps.sampled:
            columns += [pa.array(a[results.found]) for a in (results.weights, results.clusters)]
        payload = batch_of(columns, self._schema, len(found))
        end = found.ends if self._node.pattern is Pattern.EXPIRING else None
        return Chunk.of(found.starts, payload, end=end)

    def _forget(self, i: int, now: int) -> None:
        store = self._inputs.stubs[i].store
        alive = store.alive(now)
        numbers, kept = self._inputs.ids(i, alive), self._keeper.kept(i, now)
        at = np.minimum(np.searchsorted(kept, numbers), max(len(kept) - 1, 0))
        gone = kept[at] != numbers if len(kept) else np.ones(len(numbers), np.bool_)
        store.drop(alive[gone])
        store.expire(now)

    def horizon(self) -> int:
        # What was given up is not known from the rows of the windows: all of the past is needed.
        return int(BEFORE_TIME)

    def bytes(self) -> int:
        return super().bytes() + self._keeper.bytes()

    def _measure_budget(self) -> Iterator[Reading]:
        return self._keeper.measure(self._node.labels)


def _concat(parts: Sequence[Tuples]) -> Tuples:
    rows = {i: np.concatenate([p.rows[i] for p in parts]) for i in range(2)}
    starts, ends = (np.concatenate([getattr(p, n) for p in parts]) for n in ("starts", "ends"))
    return Tuples(rows, starts, ends, parts[0].min_ends)
