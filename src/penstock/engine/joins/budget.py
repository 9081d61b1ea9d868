"""The join of two windows within a budget: some rows do not probe, some are not kept.

Two rows that join are found by the later of them (of rows of one instant, by that of the second input), if it
probes and the other is still kept. A result that is found has the same life as in the exact join; one that
was missed does not appear later.

A policy decides, in timestamp order, which rows probe (*admission*) and which the stores keep (*retention*);
a row's life does not depend on it. A policy may use what it learns from its next epoch on, a stretch of
stream time of fixed length, so that results do not depend on how the input is cut into steps.

To measure the share of the results that is found, the exact join of a small share of the keys may be computed
as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.operator import Clock
from penstock.engine.settings import MONITORED_KEYS
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.store import KeyOf
from penstock.measurement import Kind, Property, Reading, under

if TYPE_CHECKING:
    from penstock.engine.operators.mjoin import MJoin


@dataclass(frozen=True)
class Arrivals:
    """New rows of one window in timestamp order: their ids, lives, and keys (0 without one)."""

    ids: Int64s
    starts: Int64s
    ends: Int64s
    keys: Int64s


@dataclass(frozen=True)
class Admitted:
    """Which arrivals probe the other window, and which are kept for others to find."""

    probing: Bools
    kept: Bools


@dataclass(frozen=True)
class Results:
    """Which pairs are results, and for a sample their weights and clusters."""

    found: Bools
    weights: npt.NDArray[np.float64] | None = None
    clusters: Int64s | None = None


class BudgetPolicy(Protocol):
    """Decides which rows of two windows probe and which are kept. Snapshots hold its state: ``Stateful``."""

    @property
    def epoch(self) -> int | None:
        """The ticks after which ``passed`` is called; None if it decides in each step."""

    @property
    def monitored(self) -> bool:
        """Whether the exact join of some keys is computed, to measure the recall."""

    def admit(
        self, arrivals: Sequence[Arrivals], begin: int, slot_bytes: float, clock: Clock
    ) -> list[Admitted]:
        """Decide on rows that arrive from the instant ``begin`` on.

        ``slot_bytes``: bytes per row. The clock has this partition's share of the budget.
        """

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """Decide on pairs that join, given ids and times of both rows."""

    def release(self, inputs: JoinInputs, now: int) -> list[Int64s]:
        """Per window, the rows that are not kept after ``now``."""

    def passed(self, now: int) -> None:
        """An epoch is over."""

    def bytes(self) -> int:
        """Memory used by the models of rows and streams."""

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """Rows kept and lost, and the expected recall; the windows have these labels."""


class JoinBudget(Protocol):
    """The budget of a join, as part of its plan."""

    @property
    def sampled(self) -> bool:
        """Whether results carry weights."""

    @property
    def waits(self) -> bool:
        """Whether the decisions depend on the order of rows."""

    def start(self) -> BudgetPolicy:
        """The policy in its initial state."""


class BudgetedJoin(JoinOperator):
    """A running join of two windows that a policy keeps within its budget. It has its own stores."""

    saved = ("_inputs", "_policy", "_arrived", "_epoch", "_monitor")

    def __init__(self, node: MJoin, budget: JoinBudget) -> None:
        super().__init__(node, None, ids=True)
        self._budget, self._policy = budget, budget.start()
        self._arrived = [0, 0]
        self._epoch: int | None = None
        self._monitor: Monitor | None = None
        if node.classes and self._policy.monitored:
            self._monitor = Monitor(replace(node, budget=None, output=()), self._inputs)

    def _join(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        if self._monitor is not None:
            self._monitor.arrived(inputs, clock)
        parts = [self._part(*part, clock) for part in self._parts([c.in_order() for c in inputs], clock)]
        out = Chunk.concat(parts, self._schema)
        return out.in_order() if self._changing else out

    def _parts(self, inputs: Sequence[Chunk], clock: Clock) -> Iterator[tuple[Sequence[Chunk], int, int]]:
        """The step, cut where epochs end: elements, begin and end of each part."""
        length = self._policy.epoch
        if length is None:
            yield inputs, clock.before, clock.now
            return
        numbers = [c.ts // length for c in inputs]
        for epoch in np.unique(np.concatenate(numbers)):
            self._pass_to(int(epoch), length)
            cuts = [(np.searchsorted(n, epoch, "left"), np.searchsorted(n, epoch, "right")) for n in numbers]
            parts = [c.slice(int(a), int(b)) for c, (a, b) in zip(inputs, cuts, strict=True)]
            first = min(int(c.ts[0]) for c in parts if len(c))
            yield parts, first, min((int(epoch) + 1) * length, max(clock.now, first + 1))
        if self._epoch is not None and clock.now < FOREVER:
            self._pass_to(clock.now // length, length)
            self._release(clock.now)

    def _pass_to(self, epoch: int, length: int) -> None:
        """A new epoch begins: the policy may use what it learned in the ones before."""
        if self._epoch is not None and epoch > self._epoch:
            self._policy.passed(epoch * length)
        self._epoch = epoch if self._epoch is None else max(epoch, self._epoch)

    def _part(self, inputs: Sequence[Chunk], begin: int, end: int, clock: Clock) -> Chunk:
        new, ended = self._take_in(inputs)
        arrivals = [self._arrivals(i, rows) for i, rows in enumerate(new)]
        admitted = self._policy.admit(arrivals, begin, self._inputs.slot_bytes(), clock)
        found = []
        for i, rows in enumerate(new):
            self._inputs.set_probing(i, rows, admitted[i].probing)
            unkept = new[1 - i][~admitted[1 - i].kept]
            for t in self._pipeline(i, rows[admitted[i].probing]):
                found.append(t.where(self._later(i, t) & ~np.isin(t.rows[1 - i], unkept)))
                if self._monitor is not None:
                    self._monitor.found(i, found[-1].rows[i])
        chunks = [self._results_of(_concat(found))]
        # Before rows that ended probe: results that were missed do not end.
        for i, rows in enumerate(new):
            self._inputs.stubs[i].store.drop(rows[~admitted[i].kept])
        for i, rows in enumerate(ended):
            for t in self._pipeline(i, rows, self._ended_by(i, clock)):
                was = t.where(np.where(self._later(i, t), self._probed(i, t), self._probed(1 - i, t)))
                chunks.append(self._chunk(was, was.ends, -1))
        self._release(end)
        return Chunk.concat(chunks, self._schema)

    def _take_in(self, inputs: Sequence[Chunk]) -> tuple[list[Int64s], list[Int64s]]:
        """Insert + elements and end rows by − elements; returns the new rows and those that ended."""
        new, ended = [], []
        for i, chunk in enumerate(inputs):
            come = chunk.where(chunk.sign > 0)
            if come.rid is None:
                come = replace(come, rid=np.arange(self._arrived[i], self._arrived[i] + len(come)))
            self._arrived[i] += len(come)
            new.append(self._inputs.insert(i, come))
            ended.append(self._inputs.end(i, chunk.where(chunk.sign < 0))[0])
        return new, ended if self._changing else []

    def _arrivals(self, i: int, rows: Int64s) -> Arrivals:
        keys = self._inputs.key(i, 0, rows)[0] if self._node.classes else np.zeros(len(rows), np.int64)
        return Arrivals(self._inputs.ids(i, rows), *self._inputs.life(i, rows), keys)

    def _later(self, i: int, pairs: Tuples) -> Bools:
        """The pairs in which the row of input i is the later."""
        start, other = (self._inputs.life(k, pairs.rows[k])[0] for k in (i, 1 - i))
        return np.asarray((other < start) | ((other == start) & (i == 1)))

    def _probed(self, i: int, pairs: Tuples) -> Bools:
        return self._inputs.probing(i, pairs.rows[i])

    def _results_of(self, pairs: Tuples) -> Chunk:
        ids = [self._inputs.ids(i, pairs.rows[i]) for i in range(2)]
        results = self._policy.results(ids, [self._inputs.life(i, pairs.rows[i])[0] for i in range(2)])
        found, more = pairs.where(results.found), []
        if results.weights is not None and results.clusters is not None:
            more = [pa.array(a[results.found]) for a in (results.weights, results.clusters)]
        return self._chunk(found, found.starts, 1, more)

    def _release(self, now: int) -> None:
        for stub, rows in zip(self._inputs.stubs, self._policy.release(self._inputs, now), strict=True):
            stub.store.drop(rows)
        self._inputs.advance(now)

    def horizon(self) -> int:
        # The rows of the windows do not show which were dropped: all of the input is needed.
        return int(BEFORE_TIME)

    def rows(self) -> int:
        return super().rows() + (self._monitor.whole.rows() if self._monitor else 0)

    def bytes(self) -> int:
        return super().bytes() + self._policy.bytes() + (self._monitor.whole.bytes() if self._monitor else 0)

    def measure(self) -> Iterator[Reading]:
        yield from super().measure()
        yield from self._policy.measure(self._node.labels)
        if self._monitor is not None:
            yield from under("budget", Kind.ADAPTIVE, self._monitor.measure())


def _concat(parts: Sequence[Tuples]) -> Tuples:
    rows = {i: np.concatenate([p.rows[i] for p in parts]) for i in range(2)}
    starts, ends = (np.concatenate([getattr(p, n) for p in parts]) for n in ("starts", "ends"))
    return Tuples(rows, starts, ends, parts[0].min_ends)


def monitored(keys: Int64s) -> Bools:
    """Which keys are monitored."""
    hashes = np.zeros(len(keys), np.uint64)
    hash_integers(keys, hashes)
    return np.asarray(hashes % np.uint64(MONITORED_KEYS) == 0)


class Monitor(Stateful):
    """Computes the exact join of some keys, and counts how many of its results the join finds."""

    saved = ("whole", "_all", "_found")

    def __init__(self, node: MJoin, inputs: JoinInputs) -> None:
        self.whole, self._inputs = JoinOperator(node, None), inputs
        kind = "value" if inputs.exact[0] else "hash"
        self._keys = [KeyOf(kind, column) for _, column in sorted(node.classes[0])]
        self._all = self._found = 0

    def arrived(self, inputs: Sequence[Chunk], clock: Clock) -> None:
        """Join the monitored elements of a step."""
        keys = [k.of(c.column(k.column))[0] for k, c in zip(self._keys, inputs, strict=True)]
        some = [c.where(monitored(k)) for c, k in zip(inputs, keys, strict=True)]
        self._all += int((self.whole.run(some, clock).sign > 0).sum())

    def found(self, i: int, rows: Int64s) -> None:
        """Count results that were found with these rows of input i."""
        self._found += int(monitored(self._inputs.key(i, 0, rows)[0]).sum())

    def measure(self) -> Iterator[Reading]:
        """The share of the monitored results that was found."""
        if self._all:
            yield Reading(Property.MEASURED_RECALL, self._found / self._all)
        yield Reading(Property.MONITORED_RESULTS, self._all)
        yield Reading(Property.MONITORED_ROWS, self.whole.rows())
