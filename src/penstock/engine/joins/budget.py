"""The join of two windows within a budget: some rows do not probe, some are not kept.

Two rows that join are found by the later of them (of rows of one instant, by that of the second input), if it
probes and the other is still kept. A result that is found has the same life as in the exact join; one that
was missed does not appear later.

A policy decides, in timestamp order, which rows probe (*admission*) and which the stores keep (*retention*);
a row's life does not depend on it. Results do not depend on how the input is cut into steps: a policy may use
what it learns, and the budget may become another, from the next epoch with rows on, a stretch of stream time
of fixed length; and what it decides on a row follows from the rows before it, those of one instant in the
order of their columns.

The budget is kept at all times: a row enters its window when the policy has made room for it. While rows
arrive they are apart from the windows, a few thousand at a time (``ARRIVING_ROWS``).

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
import pyarrow.compute as pc

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.joins.pipeline import Pipeline
from penstock.engine.joins.retention import Retention
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.operator import Clock
from penstock.engine.settings import ARRIVING_PARTS, ARRIVING_ROWS, MONITORED_KEYS, SLOTS_PER_ROW
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.store import KeyOf
from penstock.engine.ties import in_tie_order
from penstock.measurement import Kind, Property, Reading, under

if TYPE_CHECKING:
    from penstock.engine.operators.mjoin import MJoin


Part = tuple[Sequence[Chunk], int, int]
"""Elements of both inputs, and the instants at which they begin and end."""


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


class Rows(Protocol):
    """Rows of one window: their ids, and when they leave."""

    def __len__(self) -> int: ...

    @property
    def ids(self) -> Int64s: ...

    @property
    def ends(self) -> Int64s: ...


class BudgetPolicy(Protocol):
    """Decides which rows of two windows probe and which are kept. Snapshots hold its state: ``Stateful``."""

    @property
    def epoch(self) -> int:
        """The ticks after which ``passed`` is called."""

    @property
    def monitored(self) -> bool:
        """Whether the exact join of some keys is computed, to measure the recall."""

    def admit(
        self, arrivals: Sequence[Arrivals], begin: int, row_bytes: float, clock: Clock
    ) -> list[Admitted]:
        """Decide on rows that arrive from the instant ``begin`` on.

        ``row_bytes``: what a row takes that is kept. The clock has this partition's share of the budget.
        """

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """Decide on pairs that join, given ids and times of both rows."""

    def room(self, row_bytes: float, clock: Clock) -> int | None:
        """The rows that both windows may hold together; None if there is no limit."""

    def retain(self, held: Sequence[Rows], new: Sequence[Rows], now: int) -> list[tuple[Bools, Bools]]:
        """Per window, which of the rows that it holds and of the new ones are kept after ``now``."""

    def passed(self, now: int) -> None:
        """The epochs before ``now`` are over; at this instant or later in its epoch the next rows come."""

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
    def epoch(self) -> int:
        """The ticks of its epochs."""

    def start(self) -> BudgetPolicy:
        """The policy in its initial state."""


class WithinBudget(Retention):
    """Keeps the rows that the policy of a budget chooses, which is asked while rows arrive."""

    is_replayable = False  # the rows of the windows do not show which were dropped
    saved = ("policy",)

    def __init__(self, inputs: JoinInputs, policy: BudgetPolicy) -> None:
        super().__init__(inputs)
        self.policy = policy

    def make_room(self, arriving: JoinInputs, new: Sequence[Int64s], now: int) -> list[Int64s]:
        """Make room for new rows of ``arriving`` that are kept after ``now``; returns those."""
        held = [stub.alive(max(now, int(BEFORE_TIME) + 1) - 1) for stub in self._inputs.stubs]
        rows = [_Rows(self._inputs, i, r) for i, r in enumerate(held)]
        come = [_Rows(arriving, i, r) for i, r in enumerate(new)]
        stay = []
        for i, (old, fresh) in enumerate(self.policy.retain(rows, come, now)):
            self._inputs.stubs[i].store.drop(held[i][~old])
            stay.append(new[i][fresh])
        return stay

    def bytes(self) -> int:
        return self.policy.bytes()

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        return self.policy.measure(labels)


class BudgetedJoin(JoinOperator):
    """A running join of two windows that a policy keeps within its budget. It has its own stores.

    ``_inputs`` are the rows that are kept, never more than the budget allows. Rows that arrive are apart from
    them, some at a time, until the policy has decided on them: they meet the rows that are kept
    (``_pipelines``) and one another (``_among``), then some of them take the place of others.
    """

    retention: WithinBudget
    saved = ("_inputs", "retention", "_arrived", "_epoch", "_monitor", "_share", "_widths", "_width", "_room")
    format = 3

    def __init__(self, node: MJoin) -> None:
        super().__init__(node, None, ids=True)
        self._policy = self.retention.policy
        self._arriving = self._new_inputs(None, ids=True)
        self._arriving.probes, self._arriving.matches = self._inputs.probes, self._inputs.matches
        self._meeting = [self._inputs.with_rows_of(self._arriving, i) for i in range(2)]
        self._ending = self._pipelines
        self._pipelines = [Pipeline(inputs, i, node.filters) for i, inputs in enumerate(self._meeting)]
        self._among = [Pipeline(self._arriving, i, node.filters) for i in range(2)]
        self._arrived = [0, 0]
        self._epoch: int | None = None
        self._share: float | None = None
        self._room: int | None = None
        # Of an empty store, since how much it grows and has indexed depends on what was measured.
        self._slot_bytes = self._inputs.slot_bytes()
        self._widths = [0, 0]
        self._width = 0.0
        self._monitor: Monitor | None = None
        if node.classes and self._policy.monitored:
            self._monitor = Monitor(replace(node, budget=None, output=()), self._inputs.exact[0])

    def _new_retention(self) -> Retention:
        assert self._node.budget is not None
        return WithinBudget(self._inputs, self._node.budget.start())

    def _join(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        if self._monitor is not None:
            self._monitor.arrived(inputs, clock)
        chunks = [_ordered(c) for c in inputs]
        parts = [self._part(*part, self._own(clock)) for part in self._parts(chunks, clock)]
        out = Chunk.concat(parts, self._schema)
        return out.in_order() if self._changing else out

    def _own(self, clock: Clock) -> Clock:
        """The clock with the share of this epoch."""
        share = clock.share if self._share is None else self._share
        return replace(clock, share=share * clock.budget)

    @property
    def _row_bytes(self) -> float:
        """What a row takes, with the average width of the values of rows in past epochs."""
        return SLOTS_PER_ROW * self._slot_bytes + self._width

    def _parts(self, inputs: Sequence[Chunk], clock: Clock) -> Iterator[Part]:
        """The step, cut where epochs end, and before more rows are there than may arrive at a time."""
        length = self._policy.epoch
        numbers = [c.ts // length for c in inputs]
        none, since = [c.slice(0, 0) for c in inputs], clock.before
        if clock.shares is None:
            self._share = clock.share
        yield from self._less_room(none, clock.before, clock)
        for epoch in np.unique(np.concatenate(numbers)).tolist():
            yield from self._new_shares(none, since, epoch * length, clock)
            since = epoch * length + 1
            cuts = [(np.searchsorted(n, epoch, "left"), np.searchsorted(n, epoch, "right")) for n in numbers]
            parts = [c.slice(int(a), int(b)) for c, (a, b) in zip(inputs, cuts, strict=True)]
            first = min(int(c.ts[0]) for c in parts if len(c))
            if epoch != self._epoch:
                self._begin(epoch, first, parts)
                self._room = self._policy.room(self._row_bytes, self._own(clock))
            end = min((epoch + 1) * length, max(clock.now, first + 1))
            yield from self._slices(parts, first, end, clock)
            self._measure_widths(parts)
        yield from self._new_shares(none, since, clock.now, clock)
        if clock.now < FOREVER:
            self.retention.make_room(self._arriving, [np.empty(0, np.int64)] * 2, clock.now)
            self._inputs.advance(clock.now)

    def _new_shares(self, none: Sequence[Chunk], since: int, until: int, clock: Clock) -> Iterator[Part]:
        """The shares in epochs that begin between two instants; where one is less, a part that makes room.

        They are the same in all partitions, whether they have rows in an epoch or not: together they keep to
        the budget.
        """
        shares, length = clock.shares, self._policy.epoch
        if shares is None:
            return
        if self._share is None:
            self._share = shares.values[0]
        changes = [clock.before, *(n * shares.ticks for n in shares.numbers)]
        begins = {-(-instant // length) * length for instant in changes}
        for begin in sorted(b for b in begins if since <= b <= until):
            self._share = shares.at(begin)
            yield from self._less_room(none, begin, clock)

    def _less_room(self, none: Sequence[Chunk], begin: int, clock: Clock) -> Iterator[Part]:
        """A part without rows, in which rows are given up, if from an instant on there is less room."""
        before, self._room = self._room, self._policy.room(self._row_bytes, self._own(clock))
        if before is not None and self._room is not None and self._room < before and self._epoch is not None:
            yield none, begin - 1, begin

    def _begin(self, epoch: int, first: int, parts: Sequence[Chunk]) -> None:
        """A new epoch begins, with rows at its instant ``first``: what was learned before may be used.

        An epoch without rows does not begin, since time may pass it in any number of steps.
        """
        if self._epoch is None:
            # Of the first epoch no width is known but that of its first rows.
            self._measure_widths([c.slice(0, int(np.searchsorted(c.ts, first, "right"))) for c in parts])
            self._width, self._widths = self._average_width(), [0, 0]
        else:
            self._policy.passed(epoch * self._policy.epoch)
            self._width = self._average_width()
        self._epoch = epoch

    def _average_width(self) -> float:
        """The bytes per row of values of varying width."""
        total, rows = self._widths
        return total / rows if rows else self._width

    def _measure_widths(self, parts: Sequence[Chunk]) -> None:
        for chunk in (c.where(c.sign > 0) for c in parts):
            self._widths[0] += sum(map(_width, chunk.columns.columns))
            self._widths[1] += len(chunk)

    def _slices(self, inputs: Sequence[Chunk], begin: int, end: int, clock: Clock) -> Iterator[Part]:
        """A part of the step in slices of whole instants."""
        room = self._policy.room(self._row_bytes, self._own(clock))
        most = max(ARRIVING_ROWS, room // ARRIVING_PARTS) if room is not None else 0
        ts = np.sort(np.concatenate([c.ts for c in inputs]))
        at = 0
        while room is not None and len(ts) - at > most:
            cut = int(np.searchsorted(ts, ts[at + most], "left"))
            cut = cut if cut > at else int(np.searchsorted(ts, ts[at], "right"))
            if cut == len(ts):
                break
            edge = int(ts[cut])
            ends = [int(np.searchsorted(c.ts, edge, "left")) for c in inputs]
            yield [c.slice(0, n) for c, n in zip(inputs, ends, strict=True)], begin, edge
            inputs = [c.slice(n, len(c)) for c, n in zip(inputs, ends, strict=True)]
            begin, at = edge, cut
        yield inputs, begin, end

    def _part(self, inputs: Sequence[Chunk], begin: int, end: int, clock: Clock) -> Chunk:
        come = [self._numbered(i, c.where(c.sign > 0)) for i, c in enumerate(inputs)]
        gone = [c.where(c.sign < 0) for c in inputs]
        ended = [self._inputs.end(i, c) for i, c in enumerate(gone)]
        left = [c.where(~found) for c, (_, found) in zip(gone, ended, strict=True)]
        new = [self._arriving.insert(i, c) for i, c in enumerate(come)]
        for i, chunk in enumerate(left):
            self._arriving.end(i, chunk)
        arrivals = [self._arrivals(i, rows) for i, rows in enumerate(new)]
        admitted = self._policy.admit(arrivals, begin, self._row_bytes, clock)
        chunks = [self._results_of(list(self._found(new, admitted)))]
        kept = [rows[a.kept] for rows, a in zip(new, admitted, strict=True)]
        stay = self.retention.make_room(self._arriving, kept, end)
        if not self._changing:
            self._inputs.advance(end)  # expired rows make room, too
        for i, rows in enumerate(stay):
            self._keep(i, come[i], rows, new[i][admitted[i].probing])
        if self._changing:
            # Also rows that arrived and left in this part.
            both = [np.concatenate([e, self._inputs.end(i, left[i])[0]]) for i, (e, _) in enumerate(ended)]
            chunks += self._ended(both, replace(clock, before=begin, now=end))
        for stub in self._arriving.stubs:
            stub.store.clear()
        return Chunk.concat(chunks, self._schema)

    def _ended(self, gone: Sequence[Int64s], clock: Clock) -> Iterator[Chunk]:
        """The ends of results whose rows left, if they were found."""
        for i, rows in enumerate(gone):
            for t in self._ending[i].run(rows, self._ended_by(i, clock)):
                was = t.where(np.where(self._later(self._inputs, i, t), *self._probed(i, t)))
                yield self._chunk(was, was.ends, -1)

    def _numbered(self, i: int, come: Chunk) -> Chunk:
        """New rows with ids."""
        first, self._arrived[i] = self._arrived[i], self._arrived[i] + len(come)
        return come if come.rid is not None else replace(come, rid=np.arange(first, self._arrived[i]))

    def _found(
        self, new: Sequence[Int64s], admitted: Sequence[Admitted]
    ) -> Iterator[tuple[JoinInputs, Tuples]]:
        """The pairs that new rows find among the rows that are kept, and among one another.

        Of two new rows the later one finds the other, if that is admitted to its window.
        """
        always = [int(BEFORE_TIME)] * 2
        for i, rows in enumerate(new):
            probing, unkept = rows[admitted[i].probing], new[1 - i][~admitted[1 - i].kept]
            pairs = [(self._meeting[i], t) for t in self._pipelines[i].run(probing, always)]
            for t in self._among[i].run(probing, always):
                seen = self._later(self._arriving, i, t) & ~np.isin(t.rows[1 - i], unkept)
                pairs.append((self._arriving, t.where(seen)))
            for inputs, t in pairs:
                if self._monitor is not None:
                    self._monitor.found(inputs.key(i, 0, t.rows[i])[0])
                yield inputs, t

    def _keep(self, i: int, come: Chunk, rows: Int64s, probing: Int64s) -> None:
        """Put new rows, by their ids in the store of arrivals, into their window."""
        assert come.rid is not None
        ids = self._arriving.ids(i, rows)
        kept = self._inputs.insert(i, come.where(np.isin(come.rid, ids)))
        self._inputs.set_probing(i, kept, np.isin(rows, probing))

    def _arrivals(self, i: int, rows: Int64s) -> Arrivals:
        keys = self._arriving.key(i, 0, rows)[0] if self._node.classes else np.zeros(len(rows), np.int64)
        return Arrivals(self._arriving.ids(i, rows), *self._arriving.life(i, rows), keys)

    @staticmethod
    def _later(inputs: JoinInputs, i: int, pairs: Tuples) -> Bools:
        """The pairs in which the row of input i is the later."""
        start, other = (inputs.life(k, pairs.rows[k])[0] for k in (i, 1 - i))
        return np.asarray((other < start) | ((other == start) & (i == 1)))

    def _probed(self, i: int, pairs: Tuples) -> tuple[Bools, Bools]:
        """Whether the rows of input i probed, and whether those of the other did."""
        own, other = (self._inputs.probing(k, pairs.rows[k]) for k in (i, 1 - i))
        return own, other

    def _results_of(self, found: Sequence[tuple[JoinInputs, Tuples]]) -> Chunk:
        if not found:
            return Chunk.concat([], self._schema)
        ids = [np.concatenate([inputs.ids(i, t.rows[i]) for inputs, t in found]) for i in range(2)]
        times = [np.concatenate([inputs.life(i, t.rows[i])[0] for inputs, t in found]) for i in range(2)]
        results = self._policy.results(ids, times)
        chunks, at = [], 0
        for inputs, t in found:
            here = slice(at, at + len(t))
            at += len(t)
            shown, more = t.where(results.found[here]), []
            if results.weights is not None and results.clusters is not None:
                some = results.found[here]
                more = [pa.array(a[here][some]) for a in (results.weights, results.clusters)]
            chunks.append(self._chunk(shown, shown.starts, 1, more, inputs=inputs))
        return Chunk.concat(chunks, self._schema)

    def kept(self) -> int:
        """The rows that are kept in both windows."""
        return sum(len(s) for s in self._inputs.owned)

    def rows(self) -> int:
        return super().rows() + (self._monitor.whole.rows() if self._monitor else 0)

    def bytes(self) -> int:
        return super().bytes() + (self._monitor.whole.bytes() if self._monitor else 0)

    def measure(self) -> Iterator[Reading]:
        yield from super().measure()
        if self._monitor is not None:
            yield from under("budget", Kind.ADAPTIVE, self._monitor.measure())


def _ordered(chunk: Chunk) -> Chunk:
    """Elements in the order in which a policy sees them: rows of one instant by their columns, then by their
    ends. Those with ids are in the order of their source.
    """
    chunk = chunk.in_order()
    if chunk.rid is not None:
        return chunk
    return in_tie_order(chunk, chunk.columns.schema.names, [] if chunk.end is None else [chunk.end])


def _width(column: pa.Array) -> int:
    """The bytes of values of varying width."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return int(pc.sum(pc.binary_length(column), min_count=0).as_py())
    if pa.types.is_list(kind):
        return 8 * int(pc.sum(pc.list_value_length(column), min_count=0).as_py())
    return 0


@dataclass(frozen=True)
class _Rows:
    """Rows of one input: what a policy reads of them."""

    inputs: JoinInputs
    number: int
    rows: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> Int64s:
        return self.inputs.ids(self.number, self.rows)

    @property
    def ends(self) -> Int64s:
        return self.inputs.life(self.number, self.rows)[1]


def monitored(keys: Int64s) -> Bools:
    """Which keys are monitored."""
    hashes = np.zeros(len(keys), np.uint64)
    hash_integers(keys, hashes)
    return np.asarray(hashes % np.uint64(MONITORED_KEYS) == 0)


class Monitor(Stateful):
    """Computes the exact join of some keys, and counts how many of its results the join finds."""

    saved = ("whole", "_all", "_found")

    def __init__(self, node: MJoin, exact: bool) -> None:
        """``exact``: whether the join's keys are values, not hashes."""
        self.whole = JoinOperator(node, None)
        kind = "value" if exact else "hash"
        self._keys = [KeyOf(kind, column) for _, column in sorted(node.classes[0])]
        self._all = self._found = 0

    def arrived(self, inputs: Sequence[Chunk], clock: Clock) -> None:
        """Join the monitored elements of a step."""
        keys = [k.of(c.column(k.column))[0] for k, c in zip(self._keys, inputs, strict=True)]
        some = [c.where(monitored(k)) for c, k in zip(inputs, keys, strict=True)]
        self._all += int((self.whole.run(some, clock).sign > 0).sum())

    def found(self, keys: Int64s) -> None:
        """Count results that were found with these keys."""
        self._found += int(monitored(keys).sum())

    def measure(self) -> Iterator[Reading]:
        """The share of the monitored results that was found."""
        if self._all:
            yield Reading(Property.MEASURED_RECALL, self._found / self._all)
        yield Reading(Property.MONITORED_RESULTS, self._all)
        yield Reading(Property.MONITORED_ROWS, self.whole.rows())
