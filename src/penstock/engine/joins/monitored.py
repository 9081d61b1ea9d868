"""k-Mon where constraints are found while the join runs (thesis 6.1.6, 6.6.3, 6.7.3, 6.8.3).

What is measured is the distances of rows that join or that arrive in a stream, whenever garbage is collected,
before anything is dropped: so an increase of k counts before the next row is let go. ``streamon/k_mon.py``
finds k from them. A row is then closed by a constraint with k_e = c · k as by a declared one.

A constraint that was found may cease to hold, and rows that were let go are missed then. Rows of a sample of
the keys are kept until their end as *shadows*. The policy does as if they were gone, and they still join: so
larger distances are seen, and the results in which a shadow is are those that would have been missed. A row
is in the sample if all its join keys are, each by its hash; each class of keys is sampled with probability
p^(1/classes), so that a result is in the sample with probability p, and all of its rows are then.

When garbage is collected decides what is missed. So it is done after a number of rows that follows from the
rows before, at the end of an instant, wherever a step of the input ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from time import thread_time

import numpy as np

from penstock.engine.element import BEFORE_TIME, Bools, Chunk, Int64s
from penstock.engine.joins.closing import Clusters, Maxima
from penstock.engine.joins.held_rows import HeldRows, keys_of
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.join_constraints import (
    InputArrival,
    InputKey,
    InputReference,
    JoinConstraints,
    Monitored,
)
from penstock.engine.joins.k_mon import KMon, ticks_before
from penstock.engine.joins.retention import Retention
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.kernels.membership import NONE, are_in, least
from penstock.engine.operator import Clock
from penstock.engine.settings import MONITORED_ROWS, MONITORED_SHARE
from penstock.engine.synopses.store import KeyOf
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.k_mon import Adherences, Plan
from penstock.streamon.missed_share import MissedShare
from penstock.streamon.settings import ADHERENCE, AdherenceThresholds

_SHADOW = 1 << 60
"""Mark of a row of the sample that is let go; bits from ``_LASTING`` on: toward which inputs a row was closed
by monitored keys and clusters."""
_LASTING = 30
_NUMBER, _PLACE, _SINCE = 1, 2, 3
"""Further marks: how many rows of its input came up to it; how many of its stream before its instant; and for
each input, how many rows of that stream came up to its instant."""


_COSTS = ("reference", "ordered", "clustered", "key")
"""Constraints, the cheapest to close rows by first: rows that one closed, others need not be asked about."""
_COUNTS = ("_entered", "_until", "_seen_missed", "_shadows")


class MonitoredKMon(KMon):
    """Finds constraints, and drops rows by them; ``plan`` has the k_e of each."""

    saved = (*KMon.saved, "_adherences", "_maxima", "_aux", "_settled", *_COUNTS)

    def __init__(self, inputs: JoinInputs, constraints: JoinConstraints, changing: bool) -> None:
        super().__init__(inputs, constraints, changing)
        exact = [c for c in constraints.monitored if self._usable(c)] if self._exploits else []
        self._constraints: list[Monitored] = exact
        thresholds = [self._thresholds(c) for c in exact]
        self._by_cost = sorted(range(len(exact)), key=lambda n: _COSTS.index(_kind(exact[n])))
        self._most = max(t.most for t in ADHERENCE.values())
        self._plan: Plan = (None,) * len(exact)
        self._adherences = Adherences(thresholds, self._use)
        self._maxima = [Maxima() for _ in self._monitored("ordered")]
        self._aux = [Clusters(a.within) for _, a in self._monitored("clustered")]
        share = max((t.sample for t in thresholds), default=0.0)
        self._share = share ** (1 / max(len(constraints.classes), 1)) if share else 0.0
        self._settled = [0] * len(inputs)
        self._entered, self._until = 0, MONITORED_ROWS
        self._shadows = 0
        self._seen_missed = MissedShare(len(constraints.classes), share)
        self._seconds = 0.0

    @property
    def _exploits(self) -> bool:
        """Whether constraints that are found are of use."""
        return True

    def begin(self, now: int, rows: int) -> None:
        """A part of a step begins, in which so many rows enter; those that ended by ``now`` join none."""
        self._entered += rows

    def _use(self, plan: Plan) -> None:
        self._plan = plan

    def _usable(self, c: Monitored) -> bool:
        """Hashed keys have no order, and equal ones do not prove that values are equal."""
        if isinstance(c, InputReference):
            return True
        return self._exact((c.of_class,) if isinstance(c, InputArrival) else c.classes)

    def _thresholds(self, c: Monitored) -> AdherenceThresholds:
        usual, use = ADHERENCE[_kind(c)], self._of.use
        return replace(
            usual,
            most=usual.most if _counts_rows(c) else int(NONE),
            slack=usual.slack if use.slack is None else use.slack,
            sample=usual.sample if use.sample is None else use.sample,
            window=usual.window if use.window is None else use.window,
        )

    def _monitored(self, kind: str) -> list[tuple[int, InputArrival]]:
        found = enumerate(self._constraints)
        return [(n, c) for n, c in found if isinstance(c, InputArrival) and c.kind == kind]

    def _marks(self, i: int) -> int:
        return _SINCE + len(self._inputs)

    # what arrives

    def counted(self, chunks: Sequence[Chunk]) -> None:
        super().counted(chunks)
        began = thread_time()
        for counted, places, chunk in zip(self._of.counted, self._places, chunks, strict=True):
            at = np.arange(places.count - len(chunk) + 1, places.count + 1)
            own = np.ones(len(chunk), np.bool_)
            if counted.own is not None:
                own = np.asarray(chunk.column(counted.own).fill_null(False))
            columns = dict(counted.columns)
            for number, arrival in self._arriving(counted.input, by_rows=True):
                column = columns[arrival.of_class]
                keys, valid = KeyOf("value", column).of(chunk.column(column))
                some = own & valid
                self._seen(number, at[some], at[some], keys[some])
        self._seconds += thread_time() - began

    def _arriving(self, i: int, by_rows: bool) -> Iterator[tuple[int, InputArrival]]:
        for number, c in enumerate(self._constraints):
            if isinstance(c, InputArrival) and c.input == i and c.within.by_rows == by_rows:
                yield number, c

    def _seen(self, number: int, numbers: Int64s, at: Int64s, keys: Int64s) -> None:
        """Measure the order or clusters of rows; ``numbers``: those of their arrival."""
        order = [n for n, _ in self._monitored("ordered")]
        if number in order:
            far = self._maxima[order.index(number)].see(at, keys)
        else:
            clusters = [n for n, _ in self._monitored("clustered")]
            far = self._aux[clusters.index(number)].see(at, keys)
        self._adherences.of[number].see(numbers, far, len(far))

    def admitted(self, i: int, chunk: Chunk, now: int) -> Chunk:
        """All rows: what is measured of them must not depend on where steps end."""
        return chunk

    def arrived(self, i: int, rows: Int64s) -> None:
        super().arrived(i, rows)
        began = thread_time()
        store = self._inputs.stubs[i].store
        starts = self._inputs.life(i, rows)[0]
        numbers = np.arange(self._came[i] - len(rows) + 1, self._came[i] + 1)
        store.mark(rows, numbers, _NUMBER)
        for counted, places in zip(self._of.counted, self._places, strict=True):
            j = counted.input
            store.mark(
                rows, places.up_to(starts, "left" if i == j else "right"), _PLACE if i == j else _SINCE + j
            )
        for number, arrival in self._arriving(i, by_rows=False):
            keys, valid = self._inputs.key(i, arrival.of_class, rows)
            self._seen(number, numbers[valid], starts[valid], keys[valid])
        self._seconds += thread_time() - began

    def found(self, tuples: Tuples) -> None:
        """Count results of the sample, and those of them with a shadow."""
        super().found(tuples)
        if not len(tuples) or not self._share:
            return
        hashes = [self._hashes(c, members[0], tuples.rows[members[0]])
                  for c, members in enumerate(self._of.classes)]  # fmt: skip
        at = np.flatnonzero(np.logical_and.reduce([self._below(h) for h in hashes]))
        shadow = np.zeros(len(at), np.bool_)
        for i, rows in tuples.rows.items() if len(at) else ():
            shadow |= self._inputs.stubs[i].store.marks_of(rows[at]) & _SHADOW > 0
        self._seen_missed.see([h[at] for h in hashes], shadow)

    def _hashes(self, c: int, i: int, rows: Int64s) -> np.ndarray:
        """The hashes of the keys of one class of rows of input i."""
        return self._hashed(c, self._inputs.key(i, c, rows)[0])

    @staticmethod
    def _hashed(c: int, keys: Int64s) -> np.ndarray:
        hashes = np.full(len(keys), c + 1, np.uint64)
        hash_integers(keys, hashes)
        return hashes

    def _below(self, hashes: np.ndarray) -> Bools:
        """Which keys are in the sample."""
        return np.asarray(hashes < np.uint64(min(int(self._share * 2.0**64), 2**64 - 1)))

    def _sampled(self, i: int, rows: Int64s) -> Bools:
        """The rows of the sample."""
        found = np.ones(len(rows), np.bool_)
        for c in self._inputs.classes_of[i]:
            found &= self._below(self._hashes(c, i, rows))
        return found

    def due(self) -> int:
        return max(self._until - self._entered, 0)

    def settle(self, clock: Clock) -> None:
        """Garbage is collected where parts of a step end."""
        Retention.settle(self, clock)
        for places in self._places:
            places.settle()

    # garbage collection

    def collect(self, now: int) -> None:
        began = thread_time()
        self._observe(now)
        self._adherences.settle(sum(self._came), [self._arrivals_of(c) for c in self._constraints])
        self._settled = list(self._came)
        self._forget(now)
        self._seconds += thread_time() - began
        super().collect(now)
        # All of these are gone through the next time.
        gone_through = self._kept + self._shadows + sum(map(len, self._aux))
        self._entered, self._until = 0, max(MONITORED_ROWS, ceil(MONITORED_SHARE * gone_through))

    def _arrivals_of(self, c: Monitored) -> int:
        """The rows that arrived at the input by whose arrivals a constraint is measured."""
        j = c.child if isinstance(c, InputReference) else c.input
        counts = isinstance(c, InputReference | InputArrival) and c.within.by_rows
        return self._place(j).count if counts else self._came[j]

    def _held(self, i: int, now: int) -> HeldRows:
        of = super()._live(i, now)
        shadow = of.marks & _SHADOW > 0
        if shadow.any():
            self._expire_shadows(i, of.rows[shadow])
        return of.where(~shadow)

    def _live(self, i: int, now: int) -> HeldRows:
        of = super()._live(i, now)
        return of.where(of.marks & _SHADOW == 0)

    def _expire_shadows(self, i: int, rows: Int64s) -> None:
        """Drop shadows that are older than what is followed."""
        store = self._inputs.stubs[i].store
        old = store.marks_of(rows, _NUMBER) < self._came[i] - self._most
        self._shadows += int((~old).sum())
        if old.any():
            store.drop(rows[old])

    def _observe(self, now: int) -> None:
        """Measure the distances of the rows that came since the last time."""
        self._shadows = 0
        held = [super(MonitoredKMon, self)._live(i, now) for i in range(len(self._inputs))]
        rows = [of.rows[of.alive] for of in held]
        numbers = [s.store.marks_of(r, _NUMBER) for s, r in zip(self._inputs.stubs, rows, strict=True)]
        new = [r[n > before] for r, n, before in zip(rows, numbers, self._settled, strict=True)]
        pairs: dict[tuple[int, int], int] = {}
        measured: dict[int, tuple[Int64s, Int64s]] = {}
        for number, c in enumerate(self._constraints):
            if isinstance(c, InputReference):
                measured[number] = self._join_distances(c, rows[c.parent], new[c.child], pairs)
            elif isinstance(c, InputKey):
                measured[number] = self._repeats(c, rows[c.input], new[c.input])
        for number, (at, far) in measured.items():
            c = self._constraints[number]
            if isinstance(c, InputReference):
                seen = pairs[c.parent, c.child] + pairs.get((c.child, c.parent), 0)
            else:
                seen = len(new[c.input])
            self._adherences.of[number].see(at, far, seen)

    def _join_distances(
        self, c: InputReference, parents: Int64s, new: Int64s, pairs: dict[tuple[int, int], int]
    ) -> tuple[Int64s, Int64s]:
        """Of new rows, by arrival, how far they are behind the first row that refers to them."""
        i, j = c.parent, c.child
        marks, own = self._inputs.stubs[i].store.marks_of, self._inputs.stubs[j].store.marks_of
        by_rows = c.within.by_rows
        since = marks(parents, _SINCE + j) if by_rows else self._inputs.life(i, parents)[0]
        keys = keys_of(self._inputs, i, c.classes, parents)
        first = least(keys, since, keys_of(self._inputs, j, c.classes, new))
        # A row that came with the new one or later counts it, too.
        up_to = own(new, _PLACE) if by_rows else self._inputs.life(j, new)[0] - 1
        late = first <= up_to
        pairs[i, j] = int((first < NONE).sum())
        far = (up_to + 1 - first)[late]
        return (own(new[late], _PLACE) + 1 if by_rows else own(new[late], _NUMBER)), far

    def _repeats(self, c: InputKey, rows: Int64s, new: Int64s) -> tuple[Int64s, Int64s]:
        """New rows with the key of an earlier one: a distance of 1, by their arrival."""
        store = self._inputs.stubs[c.input].store
        numbers = store.marks_of(rows, _NUMBER)
        keys = keys_of(self._inputs, c.input, c.classes, rows)
        first = least(keys, numbers, keys_of(self._inputs, c.input, c.classes, new))
        own = store.marks_of(new, _NUMBER)
        again = own[first < own]
        return again, np.ones(len(again), np.int64)

    def _forget(self, now: int) -> None:
        """Limit what is remembered of orders and clusters."""
        for (number, a), maxima in zip(self._monitored("ordered"), self._maxima, strict=True):
            k, t = self._plan[number], self._adherences.of[number].thresholds
            last = self._last(a, now)
            maxima.forget(min(t.most if k is None else k, last - int(BEFORE_TIME)), last, self._most)
        for aux in self._aux:
            aux.limit(self._most)

    def _last(self, a: InputArrival, now: int) -> int:
        """The last place, or the last instant that is complete."""
        return self._place(a.input).count if a.within.by_rows else ticks_before(now, 1)

    def _close(self, held: Sequence[HeldRows], now: int) -> None:
        super()._close(held, now)
        self._close_by_found(held, now)

    def _close_by_found(self, held: Sequence[HeldRows], now: int) -> None:
        """Close rows by the constraints that were found."""
        for of in held:
            of.closed_now |= (of.marks >> _LASTING) & ((1 << _LASTING) - 1)
        ended = {
            number: aux.over(self._last(a, now) if a.within.by_rows else 0, now, self._plan[number])
            for (number, a), aux in zip(self._monitored("clustered"), self._aux, strict=True)
            if self._plan[number] is not None
        }
        clusters = dict(zip((n for n, _ in self._monitored("clustered")), self._aux, strict=True))
        over = {number: clusters[number].keys[which] for number, which in ended.items()}
        for i, j in self._of.used:
            for number in self._by_cost:
                k = self._plan[number]
                if k is not None:
                    self._close_by(self._constraints[number], k, i, j, held, now, over.get(number))
        for number, which in ended.items():
            which[which] = ~self._sampled_keys(number, over[number])
            clusters[number].forget(which)

    def _sampled_keys(self, number: int, keys: Int64s) -> Bools:
        """The keys of a class that are in the sample."""
        c = self._constraints[number]
        assert isinstance(c, InputArrival)
        return self._below(self._hashed(c.of_class, keys))

    def _close_by(
        self, c: Monitored, k: int, i: int, j: int, held: Sequence[HeldRows], now: int, over: Int64s | None
    ) -> None:
        """Close rows of i toward j by a constraint with k."""
        of = held[i]
        if isinstance(c, InputReference) and (c.parent, c.child) == (i, j):
            if c.within.by_rows:
                since = self._inputs.stubs[i].store.marks_of(of.rows, _SINCE + j)
                of.close(j, since <= self._place(j).count - k, lasting=False)
            else:
                of.close(j, of.starts < ticks_before(now, k), lasting=False)
        elif isinstance(c, InputArrival) and c in self._of.arrivals_at(i, j):
            asking = np.flatnonzero(~of.closed(j))
            keys, closed = of.key(c.of_class)[asking], np.zeros(len(of), np.bool_)
            if over is not None:
                closed[asking] = are_in(over, keys)
                self._close_for_long(of, j, closed)
            else:
                number = [a for _, a in self._monitored("ordered")].index(c)
                closed[asking] = keys < self._maxima[number].least(k, self._last(c, now))
                of.close(j, closed, lasting=False)

    def _close_by_key(self, i: int, j: int, held: Sequence[HeldRows]) -> None:
        super()._close_by_key(i, j, held)
        self._close_by_found_key(i, j, held)

    def _close_by_found_key(self, i: int, j: int, held: Sequence[HeldRows]) -> None:
        """The row of j with their key has arrived, and probably no other comes."""
        used = [c for c, k in zip(self._constraints, self._plan, strict=True) if k == 0]
        key, of = self._of.found_key(i, j), held[i]
        if key is not None and key in used:
            every = np.ones(len(held[j]), np.bool_)
            asking = of.alive & ~of.closed(j)
            self._close_for_long(of, j, of.joins(key.classes, asking, held[j], every))

    @staticmethod
    def _close_for_long(of: HeldRows, j: int, which: Bools) -> None:
        """What told it may be forgotten."""
        of.close(j, which, lasting=False)
        of.marks |= which.astype(np.int64) << (j + _LASTING)

    def _wait(self, i: int, j: int) -> tuple[int, bool] | None:
        found = [super()._wait(i, j)]
        for c, k in zip(self._constraints, self._plan, strict=True):
            if isinstance(c, InputReference) and (c.parent, c.child) == (i, j) and k is not None:
                found.append((k, c.within.by_rows))
        return min((f for f in found if f is not None), default=None)

    def _let_go(self, i: int, of: HeldRows) -> Int64s:
        rows = super()._let_go(i, of)
        if not self._share or not len(rows):
            return rows
        kept, usable = self._sampled(i, rows), self._inputs.usable(i, rows)
        if len(usable) < len(rows):
            kept &= are_in(usable, rows)
        store = self._inputs.stubs[i].store
        store.mark(rows[kept], store.marks_of(rows[kept]) | _SHADOW)
        self._shadows += int(kept.sum())
        return rows[~kept]

    # measurements

    def _children(self, i: int) -> list[int]:
        """Also by keys that are in use; a one-one join counts in one direction."""
        declared = self._of.edges
        known = {p for a, b in self._of.tree for p in ((a, b), (b, a)) if {(a, b), (b, a)} & set(declared)}
        used = {c for c, k in zip(self._constraints, self._plan, strict=True) if k == 0}
        one = [p for p in self._of.tree if p not in known and self._of.found_key(*p) in used]
        other = [(b, a) for a, b in self._of.tree if (a, b) not in {*known, *one}]
        found = [*one, *(p for p in other if self._of.found_key(*p) in used)]
        return [*super()._children(i), *(b for a, b in found if a == i)]

    def bytes(self) -> int:
        beside = sum(m.nbytes() for m in self._maxima) + sum(a.nbytes() for a in self._aux)
        return super().bytes() + beside + self._adherences.nbytes() + self._seen_missed.nbytes()

    @property
    def missed(self) -> MissedShare:
        """The estimate of the results missed."""
        return self._seen_missed

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        yield from super().measure(labels)
        texts = [c.text for c in self._constraints]
        units = ["rows" if _counts_rows(c) else "ticks" for c in self._constraints]
        seen = list(self._adherences.measure(texts, units))
        seen.append(Reading(Property.CPU_SECONDS, self._seconds, "monitoring"))
        if self._share:
            seen.append(Reading(Property.MONITORED_RESULTS, self._seen_missed.results))
            seen.append(Reading(Property.MONITORED_ROWS, self._shadows))
            if self._seen_missed.results:
                low, high = self._seen_missed.interval()
                seen.append(Reading(Property.MISSED_SHARE, self._seen_missed.share))
                seen.append(Reading(Property.MISSED_SHARE_LOW, low))
                seen.append(Reading(Property.MISSED_SHARE_HIGH, high))
        yield from under("constraints", Kind.ADAPTIVE, seen)


def _counts_rows(c: Monitored) -> bool:
    """Whether its k is a number of rows; otherwise it is a length of time."""
    return isinstance(c, InputKey) or c.within.by_rows


def _kind(c: Monitored) -> str:
    """The name of its thresholds."""
    if isinstance(c, InputArrival):
        return c.kind
    return "reference" if isinstance(c, InputReference) else "key"
