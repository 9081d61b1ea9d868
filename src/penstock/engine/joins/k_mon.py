"""k-Mon: a retention policy of a join's stores, by what its inputs are known to obey (thesis chapter 6).

A row is dropped when no result still to come contains it. With *closed* as in ``join_constraints``:

* A row of i is *dead* (the thesis's No) if it is closed toward an input j and no row kept of j joins it: each
  of its results would need such a row. A row that fails a filter of its input is dead, too.
* It is *finished* (the Yes of a root, theorem 6.3.5, and C1 to C3 of theorem 6.7.1) if along a tree of the
  join graph it is closed toward every input next to it, and so are the rows of those that join it, away from
  it. The first row still to come of any further result, on the way through the tree from the row, would have
  to join a row that is closed toward its input.

A dropped row is in no result to come, so leaving it out changes none of these conclusions. Both hold for any
join graph; directed trees of many-one joins are those for which the thesis gives guarantees.

If results are ended by their rows (row windows), a finished row is kept: only dead rows are in no result.

The key of a dead row of j is kept in j's No component if rows still to come could wait for it in vain
(``JoinConstraints.needs_no``). Rows are marked with the inputs that they are closed toward, since what told
it may be forgotten: the row that had their key, a cluster that is over.

Rows that a declared reference shows to be dead on arrival do not enter at all (``admitted``).
Garbage is collected in phases, when as many rows came as are kept, or nearly (``COLLECT_SHARE``): all rows
are looked at together, so a row costs the same however many are kept. What is kept is a function of the steps
of the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import ClassVar

import numpy as np

from penstock.engine.conjunction import passes_all
from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s
from penstock.engine.joins.closing import Clusters, NoComponent, Order, Places
from penstock.engine.joins.held_rows import SEEN, TESTED, HeldRows, keys_of
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.join_constraints import InputArrival, InputKey, InputReference, JoinConstraints
from penstock.engine.joins.retention import Retention
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.membership import among, are_in, repeats
from penstock.engine.operator import Clock
from penstock.engine.settings import COLLECT_ROWS, COLLECT_SHARE, COMBINE_EVERY
from penstock.engine.synopses.store import KeyOf
from penstock.errors import DataError
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.no_components import NoComponents, Sizes

NO, YES = "no further match", "all results found"
"""Why a row was dropped."""


class KMon(Retention):
    """Drops rows of a join's ``inputs`` by its ``constraints``; ``changing``: results are ended by rows."""

    is_replayable = False  # what is kept depends on all rows before
    remembers_matches: ClassVar[bool] = True
    """Whether rows that found no match among those that are kept can only match new ones."""
    saved: ClassVar[tuple[str, ...]] = (
        "_places",
        "_orders",
        "_clusters",
        "_no",
        "_choice",
        "_counted_at",
        "_timed_at",
        "_arrived",
        "_kept",
        "_came",
        "_violations",
        "_dropped",
    )

    def __init__(self, inputs: JoinInputs, constraints: JoinConstraints, changing: bool) -> None:
        super().__init__(inputs)
        self._of, self._changing = constraints, changing
        self._keys_of = [k for k in constraints.keys if not k.monitored]
        self._references = [r for r in constraints.references if not r.monitored]
        for i, stub in enumerate(inputs.stubs):
            stub.store.mark_rows(self._marks(i))
        self._places = [Places(self._reach(c.input)) for c in constraints.counted]
        self._orders = [Order(a.within) for a in self._arrivals("ordered")]
        self._clusters = [Clusters(a.within) for a in self._arrivals("clustered")]
        self._relied_on = [
            next((k for i in range(len(inputs)) if (k := self._relied(i, j)) is not None), None)
            for j in range(len(inputs))
        ]
        needed = [any(constraints.needs_no(i, j) for i in range(len(inputs))) for j in range(len(inputs))]
        self._no = [
            NoComponent(len(k.classes) if k else 1, kept)
            for k, kept in zip(self._relied_on, needed, strict=True)
        ]
        self._choice = NoComponents(needed)
        self._over: list[Int64s] = []
        self._counted_at = [0] * len(inputs)
        self._timed_at = 0
        self._arrived = self._kept = self.collections = 0
        self._came = [0] * len(inputs)
        self._violations = [0] * (len(self._keys_of) + len(self._references))
        self._dropped = [[0, 0] for _ in range(len(inputs))]
        self._now = int(BEFORE_TIME) + 1

    def _marks(self, i: int) -> int:
        """How many marks the rows of an input have."""
        return 1

    def _relied(self, i: int, j: int) -> InputKey | None:
        """The key of j by which its No component tells rows of i that they wait in vain."""
        if i == j or not (self._of.needs_no(i, j) or self._of.may_keep_no(i, j)):
            return None
        return self._of.key_of(i, j, lasting=True)

    def _reach(self, j: int) -> int:
        return max((r.within.k for r in self._references if r.child == j and r.within.by_rows), default=0)

    def _arrivals(self, kind: str) -> list[InputArrival]:
        """Those whose keys are the values: hashed keys have no order, and two values may share one."""
        some = (a for a in self._of.arrivals if a.kind == kind and not a.monitored)
        return [a for a in some if self._exact((a.of_class,))]

    # what arrives

    def counted(self, chunks: Sequence[Chunk]) -> None:
        """Take in all rows of the streams that are counted, in timestamp order."""
        for counted, places, chunk in zip(self._of.counted, self._places, chunks, strict=True):
            at = places.see(chunk.ts)
            columns = dict(counted.columns)
            own = np.ones(len(chunk), np.bool_)
            if counted.own is not None:
                own = np.asarray(chunk.column(counted.own).fill_null(False))
            for arrival, seen in self._trackers():
                if arrival.input == counted.input and arrival.within.by_rows:
                    keys, valid = KeyOf("value", columns[arrival.of_class]).of(
                        chunk.column(columns[arrival.of_class])
                    )
                    seen.see(at[own & valid], keys[own & valid])

    def admitted(self, i: int, chunk: Chunk, now: int) -> Chunk:
        """Leave out rows that are dead on arrival: closed toward an input of which no row joins them.

        Where most rows of a stream are, storing them would be most of the work.
        """
        if not self._inputs.owns(i) or self._relied_on[i] is not None or self._is_tracked(i):
            return chunk
        for j in self._before(i):
            held = self._inputs.stubs[j].store
            if COLLECT_SHARE * len(held) > len(chunk):
                continue
            asking = np.flatnonzero(self._closed_on_arrival(i, j, chunk, now))
            if len(asking):
                classes = self._of.shared(i, j)
                some = chunk if len(asking) == len(chunk) else chunk.take(asking)
                there = keys_of(self._inputs, j, classes, held.alive(int(BEFORE_TIME)))
                enters = np.ones(len(chunk), np.bool_)
                enters[asking] = among(there, self._inputs.keys_of(i, classes, some))
                self._dropped[i][0] += len(chunk) - int(enters.sum())
                chunk = chunk.where(enters)
        return chunk

    def _before(self, i: int) -> list[int]:
        """The inputs toward which rows of i may be closed and whose new rows are there before those of i."""
        return [j for a, j in self._of.used if a == i and j < i and self._of.references_of(i, j)]

    def _is_tracked(self, i: int) -> bool:
        """Whether the order or clusters of its rows are watched as they enter."""
        return any(a.input == i and not a.within.by_rows for a, _ in self._trackers())

    def _closed_on_arrival(self, i: int, j: int, chunk: Chunk, now: int) -> Bools:
        closed = np.zeros(len(chunk), np.bool_)
        for r in (r for r in self._of.references_of(i, j) if not r.monitored):
            closed |= chunk.ts < self._closed_before(r, now)
        return closed

    def _closed_before(self, r: InputReference, now: int) -> int:
        """The instant before which rows are closed by a declared reference."""
        k = r.within.k
        return self._place(r.child).since(k, now) if r.within.by_rows else ticks_before(now, k)

    def arrived(self, i: int, rows: Int64s) -> None:
        """Take in new rows of input i."""
        self._came[i] += len(rows)
        self._arrived += len(rows)
        for arrival, seen in self._trackers():
            if arrival.input == i and not arrival.within.by_rows and len(rows):
                keys, valid = self._inputs.key(i, arrival.of_class, rows)
                seen.see(self._inputs.life(i, rows)[0][valid], keys[valid])

    def _trackers(self) -> Iterator[tuple[InputArrival, Order | Clusters]]:
        yield from zip(self._arrivals("ordered"), self._orders, strict=True)
        yield from zip(self._arrivals("clustered"), self._clusters, strict=True)

    def found(self, tuples: Tuples) -> None:
        """Look at results for rows that came later than references allow."""
        if not len(tuples):
            return
        for number, r in enumerate(self._references, start=len(self._keys_of)):
            parent = self._inputs.life(r.parent, tuples.rows[r.parent])[0]
            child = self._inputs.life(r.child, tuples.rows[r.child])[0]
            late = np.flatnonzero(child > parent)
            parent, child = parent[late], child[late]
            far = self._place(r.child).between(parent, child) if r.within.by_rows else child - parent
            self._violations[number] += int((far > r.within.k).sum())

    def _place(self, j: int) -> Places:
        return next(p for c, p in zip(self._of.counted, self._places, strict=True) if c.input == j)

    def settle(self, clock: Clock) -> None:
        """End a step; collect garbage if enough rows came."""
        super().settle(clock)
        self.look(clock.now)

    def look(self, now: int) -> None:
        """All instants before ``now`` are complete; collect garbage if enough rows came."""
        counts = {c.input: p.count for c, p in zip(self._of.counted, self._places, strict=True)}
        for arrival, order in zip(self._arrivals("ordered"), self._orders, strict=True):
            order.settle(counts.get(arrival.input, 0), now)
        if not self.due():
            self.collect(now)
        for places in self._places:
            places.settle()

    def due(self) -> int:
        """The rows still to come before garbage is collected."""
        return max(ceil(max(COLLECT_ROWS, COLLECT_SHARE * self._kept)) - self._arrived, 0)

    # garbage collection

    def collect(self, now: int) -> None:
        """Drop every row that is in no result to come."""
        held = [self._held(i, now) for i in range(len(self._inputs))]
        self._test(held)
        self._judge(held, now)
        self._now = now
        for i, of in enumerate(held):
            self._drop(i, of)
        self._arrived, self._kept = 0, sum(int(of.alive.sum()) for of in held)
        self.collections += 1
        self._combine(now)

    def _judge(self, held: Sequence[HeldRows], now: int) -> None:
        """Find the rows that are in no result to come.

        Most rows are dead on arrival by what is simply compared: these first, so that few are looked up.
        """
        self._close(held, now)
        self._kill(held)
        self._find_repeats(held)
        for i, j in self._of.used:
            self._close_by_key(i, j, held)
        self._sweep(held)
        for i, of in enumerate(held):
            self._remember(i, of, held)
        # Only now: rows that came since the last look may have keys that none to come has.
        self._forget_no(self._over, now)

    def _sweep(self, held: Sequence[HeldRows]) -> None:
        """Let go rows that are dead, and those that are finished."""
        self._kill(held)
        finished = self._finished(held) if not self._changing and self._of.connected else None
        for i, of in enumerate(held):
            dead = ~of.alive & ~of.gone
            of.dead |= dead
            self._dropped[i][0] += int(dead.sum())
            if finished is not None:
                self._dropped[i][1] += int((of.alive & finished[i]).sum())
                of.alive &= ~finished[i]
            of.gone = ~of.alive

    def _held(self, i: int, now: int) -> HeldRows:
        """The rows of an input that are looked at."""
        return self._live(i, now)

    def _live(self, i: int, now: int) -> HeldRows:
        """The rows of an input whose − elements, if there are such, are still to come."""
        return HeldRows.of(self._inputs, i, ticks_before(now, self._inputs.stubs[i].longer + 1))

    def _find_repeats(self, held: Sequence[HeldRows]) -> None:
        """Count rows that have the key of another, where none may."""
        for number, key in enumerate(self._keys_of):
            of = held[key.input]
            if key.lasting and of.new.any():
                self._violations[number] += repeats(of.keys(key.classes), of.alive, of.new)
        for of in held:
            of.marks |= SEEN

    def _test(self, held: Sequence[HeldRows]) -> None:
        """Rows that fail the filters of their input are dead."""
        for i, of in enumerate(held):
            if not self._inputs.own(i):
                continue
            at = np.flatnonzero(of.alive & (of.marks & TESTED == 0))
            if not len(at):
                continue
            try:
                passed = passes_all(self._inputs.own(i), self._inputs.stubs[i].gather, of.rows[at])
            except DataError:  # the row whose results report it, if it has any
                continue
            of.alive[at] = passed
            of.marks[at] |= TESTED

    def _close(self, held: Sequence[HeldRows], now: int) -> None:
        """Mark rows with the inputs that they are closed toward."""
        ended = [c.over(self._count_of(a), now) for a, c in self._of_kind("clustered")]
        over = [c.keys[which] for (_, c), which in zip(self._of_kind("clustered"), ended, strict=True)]
        for i, j in self._of.used:
            of = held[i]
            for r in (r for r in self._of.references_of(i, j) if not r.monitored):
                of.close(j, of.starts < self._closed_before(r, now))
            for arrival, order in zip(self._arrivals("ordered"), self._orders, strict=True):
                if arrival in self._of.arrivals_at(i, j):
                    of.close(j, order.closed(of.key(arrival.of_class)))
            for (arrival, _), keys in zip(self._of_kind("clustered"), over, strict=True):
                if arrival in self._of.arrivals_at(i, j):
                    of.close(j, are_in(keys, of.key(arrival.of_class)))
        for (_, clusters), which in zip(self._of_kind("clustered"), ended, strict=True):
            clusters.forget(which)
        self._over = over

    def _of_kind(self, kind: str) -> list[tuple[InputArrival, Clusters]]:
        return list(zip(self._arrivals(kind), self._clusters, strict=True))

    def _count_of(self, arrival: InputArrival) -> int:
        return self._place(arrival.input).count if arrival.within.by_rows else 0

    def _close_by_key(self, i: int, j: int, held: Sequence[HeldRows]) -> None:
        """The row of j with their key has arrived: no other comes."""
        key = self._of.key_of(i, j, lasting=True)
        of = held[i]
        if key is None or not self._exact(key.classes):
            return
        asking, other = ~of.closed(j), held[j]
        if self._relied_on[i] is None:  # otherwise dead rows are asked about, too
            asking &= of.alive
        old = asking & ~of.new if self.remembers_matches else np.zeros(len(of), np.bool_)
        every = np.ones(len(other), np.bool_)
        joined = of.joins(key.classes, asking & ~old, other, every)
        if old.any():  # they did not join the rows that were there before
            joined |= of.joins(key.classes, old, other, other.new)
        of.close(j, joined)
        if len(self._no[j]) and self._relied_on[j] == key:
            # If two rows had the key, which none should, the other counts.
            asking = (asking | of.alive) & ~joined
            at = np.flatnonzero(asking)
            vain = np.zeros(len(of), np.bool_)
            vain[at] = among(self._no[j].keys, of.keys(key.classes)[at])
            vain &= ~of.joins(key.classes, vain, other, every)
            self._no[j].hits += int((vain & of.new).sum())
            if self._no[j].is_kept:
                of.alive &= ~vain

    def _exact(self, classes: Sequence[int]) -> bool:
        """Hashed keys may be equal without the values being so: that two rows join is not certain."""
        return all(self._inputs.exact[c] for c in classes)

    def _kill(self, held: Sequence[HeldRows]) -> None:
        """Rows that are closed toward an input in which nothing joins them are dead, to the fixpoint."""
        pending = [p for p in self._of.used if self._of.closes(*p)]
        # Where most rows are asked about, most die, and the others have fewer to look among.
        pending.sort(key=lambda p: -int((held[p[0]].alive & held[p[0]].closed(p[1])).sum()))
        while pending:
            i, j = pending.pop(0)
            of = held[i]
            asking = of.alive & of.closed(j)
            if not asking.any():
                continue
            dead = asking & ~of.joins(self._of.shared(i, j), asking, held[j], held[j].alive)
            if dead.any():
                of.alive &= ~dead
                pending += [
                    p for p in self._of.used if p[1] == i and self._of.closes(*p) and p not in pending
                ]

    def _finished(self, held: Sequence[HeldRows]) -> list[Bools]:
        """Rows with no further result: closed along the tree in all directions."""
        away: dict[tuple[int, int], Bools] = {}

        def open_toward(i: int, j: int) -> Bools:
            """Rows of i with results to come from j's side: not closed, or joining a row that is open."""
            open_rows = held[j].alive & ~side(j, i)
            closed = held[i].closed(j)
            return ~closed | held[i].joins(self._of.shared(i, j), held[i].alive & closed, held[j], open_rows)

        def side(i: int, apart_from: int) -> Bools:
            """Rows of i that are closed in all directions but one."""
            if (i, apart_from) not in away:
                away[i, apart_from] = np.ones(len(held[i].rows), np.bool_)
                for j in self._of.beside(i):
                    if j != apart_from:
                        away[i, apart_from] &= ~open_toward(i, j)
            return away[i, apart_from]

        return [side(i, -1) for i in range(len(held))]

    # combination

    def _combine(self, now: int) -> None:
        """Choose which No components to keep, by what was counted since the last time."""
        if not any(len(no) for no in self._no) or self.collections % COMBINE_EVERY:
            return
        sizes = [self._expected(j, now) for j in range(len(self._no))]
        if self._choice.settle(sum(self._came), sizes):
            for no, kept in zip(self._no, self._choice.plan, strict=True):
                no.choose(kept)
        for no in self._no:
            no.hits = 0
        self._counted_at, self._timed_at = list(self._came), now

    def _expected(self, j: int, now: int) -> Sizes | None:
        """The bytes of the No component of j, and those of the rows that wait if it is not kept."""
        parents = [i for i in range(len(self._no)) if self._relied(i, j) is not None]
        waits = [self._wait(i, j) for i in parents]
        if not parents or any(w is None for w in waits):
            return None
        waiting = 0.0
        for i, wait in zip(parents, waits, strict=True):
            assert wait is not None
            k, by_rows = wait
            passed = self._arrivals_at(j) if by_rows else now - self._timed_at
            store = self._inputs.stubs[i].store
            hits = self._no[j].hits * self._no[j].weight
            waiting += hits / max(passed, 1) * k * store.nbytes() / store.capacity
        return Sizes(self._no[j].expected_bytes(), waiting)

    def _arrivals_at(self, j: int) -> int:
        return self._came[j] - self._counted_at[j]

    def _wait(self, i: int, j: int) -> tuple[int, bool] | None:
        """The k after which rows of i no longer wait for one of j, and whether it counts rows."""
        within = [r.within for r in self._references if (r.parent, r.child) == (i, j)]
        within += [a.within for a in self._arrivals("ordered") if a in self._of.arrivals_at(i, j)]
        return min(((w.k, w.by_rows) for w in within), default=None)

    # what remains

    def _remember(self, j: int, of: HeldRows, held: Sequence[HeldRows]) -> None:
        """Keep the keys of dead rows that rows to come may have."""
        key = self._relied_on[j]
        if key is None or not self._exact(key.classes):
            return
        dead = of.dead & (of.marks & SEEN > 0)
        parents = [i for i in range(len(held)) if self._relied(i, j) is not None]
        awaited = np.logical_or.reduce([~of.closed(i) for i in parents])
        at = np.flatnonzero(dead & awaited)
        usable = are_in(self._inputs.usable(j, of.rows[at]), of.rows[at])
        at = at[usable]
        rows = self._of.rows[j] if self._of.rows else None
        ends = of.ends[at] if rows is None else np.full(len(at), self._came[j] + rows)
        if self._changing and rows is None:  # when an end becomes known depends on the steps
            ends = np.full(len(at), FOREVER)
        self._no[j].add(of.keys(key.classes)[at], ends)

    def _forget_no(self, over: Sequence[Int64s], now: int) -> None:
        """Drop keys of No components that have expired, or that no row to come has."""
        for j, no in enumerate(self._no):
            key = self._relied_on[j]
            if key is None or not len(no):
                continue
            parents = [i for i in range(len(self._no)) if self._relied(i, j) is not None]
            awaited = np.zeros(len(no), np.bool_)
            for i in parents:
                gone = np.zeros(len(no), np.bool_)
                for place, c in enumerate(key.classes):
                    for arrival, order in zip(self._arrivals("ordered"), self._orders, strict=True):
                        if arrival.input == i and arrival.of_class == c:
                            gone |= order.closed(no.keys[:, place])
                    for (arrival, _), keys in zip(self._of_kind("clustered"), over, strict=True):
                        if arrival.input == i and arrival.of_class == c:
                            gone |= are_in(keys, no.keys[:, place])
                awaited |= ~gone
            by_rows = bool(self._of.rows) and self._of.rows[j] is not None
            no.keep(awaited, self._came[j] if by_rows else now)

    def _drop(self, i: int, of: HeldRows) -> None:
        store = self._inputs.stubs[i].store
        store.mark(of.rows, of.marks)
        gone = self._let_go(i, of)
        if len(gone):
            store.drop(gone)
            store.settle()  # which may move the rows
        store.give_back()

    def _let_go(self, i: int, of: HeldRows) -> Int64s:
        """Of the rows that are in no result to come, those that are dropped."""
        return of.rows[~of.alive]

    # measurements

    def components(self) -> list[Counter[str]]:
        """Rows by component: Yes if they join a complete tuple of the inputs below them in the graph."""
        complete: dict[int, Bools] = {}
        held = [self._live(i, self._now) for i in range(len(self._inputs))]

        def yes(i: int) -> Bools:
            if i not in complete:
                found = held[i].alive
                for j in self._children(i):
                    found = found & held[i].joins(self._of.shared(i, j), found, held[j], yes(j))
                complete[i] = found
            return complete[i]

        counts = [(int(yes(i).sum()), int(of.alive.sum())) for i, of in enumerate(held)]
        return [
            Counter({"Yes": some, "Unknown": every - some, "No": len(no)})
            for (some, every), no in zip(counts, self._no, strict=True)
        ]

    def _children(self, i: int) -> list[int]:
        """The inputs of which a row of i joins one row at most."""
        return self._of.children(i)

    @property
    def violations(self) -> list[tuple[str, int]]:
        """How often each constraint was seen to be violated."""
        texts = [*(k.text for k in self._keys_of), *(r.text for r in self._references)]
        found = list(zip(texts, self._violations, strict=True))
        return [*found, *((a.text, seen.violations) for a, seen in self._trackers())]

    def bytes(self) -> int:
        """Memory used beside the rows."""
        parts = (self._places, self._orders, self._clusters, self._no)
        return sum(part.nbytes() for some in parts for part in some)

    def rows(self) -> int:
        """Keys in No components."""
        return sum(map(len, self._no))

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """Rows by component, rows dropped, and what was seen of each constraint."""
        for label, dropped, counts in zip(labels, self._dropped, self.components(), strict=True):
            own = [Reading(Property.DROPPED, n, why) for n, why in zip(dropped, (NO, YES), strict=True)]
            own += [Reading(Property.COMPONENT, n, name) for name, n in counts.items()]
            yield from under(label, Kind.WINDOW, own)
        seen = [Reading(Property.COLLECTIONS, self.collections)]
        seen += [Reading(Property.VIOLATIONS, n, text) for text, n in self.violations]
        seen += self._choice.measure(labels)
        yield from under("constraints", Kind.ADAPTIVE, seen)


def ticks_before(now: int, ticks: int) -> int:
    """An instant some ticks before, or the first that there is."""
    return max(int(now) - ticks, int(BEFORE_TIME))
