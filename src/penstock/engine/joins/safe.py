"""k-Mon that loses nothing: rows that found constraints let go are on disk (thesis 6.1.6).

A row that is let go because of what is declared is dropped. One that is let go because of what was found goes
to the archive of its input. A result still to come has a new row, and its other rows join that row along the
tree of the join graph. So before new rows probe, the rows of archives that join them are brought back, and
from these and from the rows in memory that join them those of the next inputs. Then all results are found, as
if nothing had been let go. Rows that came back show that a constraint no longer holds.

All rows are kept, so none has to be sampled. Under row windows rows would have to come back into the order of
their window: there only what is declared is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.engine.element import BEFORE_TIME, Int64s
from penstock.engine.joins.archive import Archive
from penstock.engine.joins.held_rows import HeldRows, keys_of
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.join_constraints import InputKey, JoinConstraints
from penstock.engine.joins.k_mon import KMon
from penstock.engine.joins.monitored import _LASTING, MonitoredKMon
from penstock.engine.kernels.membership import among
from penstock.measurement import Kind, Property, Reading, under


class SafeKMon(MonitoredKMon):
    """Keeps on disk what may be needed after all."""

    saved = (*MonitoredKMon.saved, "archives", "_returned")
    remembers_matches = False  # rows that come back meet those that came meanwhile

    def __init__(self, inputs: JoinInputs, constraints: JoinConstraints, changing: bool) -> None:
        super().__init__(inputs, constraints, changing)
        self._share = 0.0
        none = np.empty(0, np.int64)
        self.archives = [
            Archive(len(inputs.classes_of[i]), constraints.use.directory, stub.store.taken(none))
            for i, stub in enumerate(inputs.stubs)
        ]
        self._begin, self._returned = int(BEFORE_TIME), 0

    @property
    def _exploits(self) -> bool:
        return not self._changing

    def begin(self, now: int, rows: int) -> None:
        super().begin(now, rows)
        self._begin = now

    def arrived(self, i: int, rows: Int64s) -> None:
        super().arrived(i, rows)
        if len(rows) and any(map(len, self.archives)):
            self._bring_back(i, rows)

    def _bring_back(self, i: int, rows: Int64s) -> None:
        """Bring back what joins these rows, directly or through others."""
        pending, reached = [(i, rows)], {i}
        while pending:
            a, theirs = pending.pop()
            for b in (b for b in self._of.beside(a) if b not in reached):
                reached.add(b)
                classes = self._of.shared(a, b)
                keys = keys_of(self._inputs, a, classes, theirs)
                self._put_back(a, b, classes, keys)
                if len(list(self._of.beside(b))) > 1 and len(keys):
                    stub = self._inputs.stubs[b]
                    held = stub.store.alive(self._begin)
                    held = self._inputs.usable(b, held[held < stub.frontier])
                    joining = among(keys, keys_of(self._inputs, b, classes, held))
                    pending.append((b, held[joining]))

    def _put_back(self, a: int, b: int, classes: Sequence[int], keys: np.ndarray) -> None:
        """Put the rows of b that have these keys, those of rows of a, back into their store."""
        own = [self._inputs.classes_of[b].index(c) for c in classes]
        back = self.archives[b].take(own, keys, self._begin)
        if not len(back):
            return
        self._returned += len(back)
        key = self._of.found_key(b, a)
        if key in self._constraints and ((back.marks[:, 0] >> (a + _LASTING)) & 1).any():
            self._repeated(key)
        back.marks[:, 0] &= (1 << _LASTING) - 1 | -1 << 60
        stub = self._inputs.stubs[b]
        stub.read(stub.store.put_back(back))

    def _repeated(self, key: InputKey | None) -> None:
        """A row has the key of one that is on disk, by which another was let go."""
        number = next(n for n, c in enumerate(self._constraints) if c == key)
        assert key is not None
        at = np.array([self._came[key.input]])
        self._adherences.of[number].see(at, np.ones(1, np.int64), 1)

    def _judge(self, held: Sequence[HeldRows], now: int) -> None:
        KMon._judge(self, held, now)
        self._certain = [of.gone.copy() for of in held]
        self._close_by_found(held, now)
        self._kill(held)
        for i, j in self._of.used:
            self._close_by_found_key(i, j, held)
        self._sweep(held)

    def _close(self, held: Sequence[HeldRows], now: int) -> None:
        KMon._close(self, held, now)

    def _close_by_key(self, i: int, j: int, held: Sequence[HeldRows]) -> None:
        KMon._close_by_key(self, i, j, held)

    def _let_go(self, i: int, of: HeldRows) -> Int64s:
        doubtful = of.rows[of.gone & ~self._certain[i]]
        self.archives[i].expire(self._begin)
        if len(doubtful):
            self.archives[i].put(self._inputs.stubs[i].store.taken(doubtful), self._begin)
        return of.rows[of.gone]

    # measurements

    def bytes(self) -> int:
        return super().bytes() + sum(a.nbytes() for a in self.archives)

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        yield from super().measure(labels)
        for label, archive in zip(labels, self.archives, strict=True):
            yield from under(label, Kind.WINDOW, [Reading(Property.ARCHIVED, len(archive))])
        seen = [
            Reading(Property.RETURNED, self._returned),
            Reading(Property.OVERFLOWED, sum(a.on_disk for a in self.archives)),
        ]
        yield from under("constraints", Kind.ADAPTIVE, seen)
