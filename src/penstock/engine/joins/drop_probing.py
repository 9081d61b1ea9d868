"""Drop probing: whether a tuple joins along the path to each other input at all (thesis 5.2.2, 5.2.3).

``joins(j, places)`` returns for each tuple whether rows of all inputs on the path to input j join it one
after the other, alive together. A tuple that fails for some j is in no result.

For the current tuples a tree of *entries* grows from the root. An entry of an input is a row that joins an
entry of the input before it on the path. At first only the first match of each entry is looked up; the others
are found, from there on, when an input further along the path is probed. Nothing is looked up twice, whatever
the order of probes, and output generation continues from these entries.

The executor asks for first matches where that is cheaper than to take all matches at once (``growing.py``);
profiling always does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.conjunction import Failed, Predicates, Read
from penstock.engine.element import Bools, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.knobs import Knobs
from penstock.expression import Expression
from penstock.streamon.logical_filters import Parents, join_order, path, spanning_tree
from penstock.streamon.matching import AdaptiveMatching
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.profiler import Evaluate

_UNSEEN = -2
"""As a first match: not looked up yet. -1: looked up, there is none."""


@dataclass
class Entries:
    """Rows on a path: the tuple each belongs to, the entry it joins, its row, and the common life of the
    path.
    """

    places: Int64s
    above: Int64s
    rows: Int64s
    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.places)

    def extended(self, other: Entries) -> Entries:
        """These entries followed by others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Entries(*(np.concatenate(p) for p in pairs))


class DropProbing:
    """Probes tuples of input ``root`` along the paths of its spanning tree.

    ``min_ends[j]``: rows of input j whose life ended before that are ignored.
    """

    def __init__(
        self,
        inputs: JoinInputs,
        root: int,
        parents: Parents,
        tuples: tuple[Int64s, Int64s, Int64s],
        min_ends: Sequence[int],
    ) -> None:
        self._inputs, self._root, self._parents = inputs, root, parents
        self._min_ends = min_ends
        rows, starts, ends = tuples
        self._count = len(rows)
        everyone = np.arange(self._count)
        none = np.empty(0, np.int64)
        inner = {p for p in parents.values() if p != root}
        self._entries = {j: Entries(none, none, none, none, none) for j in inner}
        self._entries[root] = Entries(everyone, everyone, rows, starts, ends)
        self._expanded = {j: np.zeros(self._count, np.bool_) for j in inner}
        self._firsts: dict[int, Int64s] = {}
        """By input, the first match of each entry before it; not there until one is looked up."""
        self.probes = 0

    def joins(self, j: int, places: Int64s) -> Bools:
        """Which of the tuples join along the path to input j."""
        at = self._look(j, places)
        return self._flags(self._entries[self._parents[j]].places[at])[places]

    def joins_alone(self, j: int, places: Int64s) -> Bools:
        """The same with every look-up on the path repeated, to time the filter alone."""
        root = self._entries[self._root]
        some = root.rows[places], root.starts[places], root.ends[places]
        again = DropProbing(self._inputs, self._root, self._parents, some, self._min_ends)
        joins = again.joins(j, np.arange(len(places)))
        self.probes += again.probes
        return joins

    def _flags(self, places: Int64s) -> Bools:
        flags = np.zeros(self._count, np.bool_)
        flags[places] = True
        return flags

    def _entries_of(self, j: int, places: Int64s) -> Int64s:
        """The entries of input j that belong to the tuples, looked up if necessary."""
        if j == self._root:
            return places
        self._expand(j, places)
        return np.flatnonzero(self._flags(places)[self._entries[j].places])

    def _look(self, j: int, places: Int64s) -> Int64s:
        """Look up the first match in input j of each entry before it; returns the entries that have one."""
        before = self._parents[j]
        at = self._entries_of(before, places)
        entries = self._entries[before]
        if j not in self._firsts:
            self._firsts[j] = np.full(len(entries), _UNSEEN)
        firsts = self._firsts[j]
        new = at[firsts[at] == _UNSEEN]
        if len(new):
            classes = self._inputs.shared(j, {before})
            life = entries.starts[new], entries.ends[new]
            index = self._inputs.index(j, classes, len(new))
            store, view = self._inputs.seen(j, self._min_ends)
            keys, valid = index.prepare([self._inputs.key(before, c, entries.rows[new]) for c in classes])
            firsts[new] = index.first(store, keys, valid, *life, view)
            self.probes += len(new)
        return at[firsts[at] >= 0]

    def _expand(self, j: int, places: Int64s) -> None:
        """Make entries of all rows of input j that join the tuples along the path."""
        new = places[~self._expanded[j][places]]
        if not len(new):
            return
        self._expanded[j][new] = True
        at = self._look(j, new)
        before = self._entries[self._parents[j]]
        found, rows, starts, ends = self._from_first(j, at, before.starts[at], before.ends[at])
        more = Entries(before.places[at[found]], at[found], rows, starts, ends)
        self._entries[j] = self._entries[j].extended(more)
        for k, p in self._parents.items():
            if p == j and k in self._firsts:
                self._firsts[k] = np.concatenate([self._firsts[k], np.full(len(more), _UNSEEN)])

    def _from_first(
        self, j: int, at: Int64s, starts: Int64s, ends: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """All matches in input j of entries before it, from the first one on."""
        before = self._parents[j]
        classes = self._inputs.shared(j, {before})
        index, chains = self._inputs.index(j, classes), self._firsts[j][at]
        rows = self._entries[before].rows[at]
        keys, _ = index.prepare([self._inputs.key(before, c, rows) for c in classes])
        store, view = self._inputs.seen(j, self._min_ends)
        return index.probe_from(store, chains, keys, starts, ends, view)

    def knows(self, j: int, at: Int64s) -> bool:
        """Whether these entries of the input before j have been asked for what ``matches`` goes on from."""
        if j not in self._firsts:
            return False
        if j in self._entries:
            return bool(self._expanded[j][self._entries[self._parents[j]].places[at]].all())
        return bool((self._firsts[j][at] != _UNSEEN).all())

    def matches(
        self, j: int, at: Int64s, starts: Int64s, ends: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s | None]:
        """Output generation: the rows of input j that join tuples with the given entries of the input before
        j.

        Returns (place, row, start, end) of each match, as a probe does, and its entry if the path continues.
        """
        if j not in self._entries:
            return *self._from_first(j, at, starts, ends), None
        entries = self._entries[j]
        order = np.argsort(entries.above, kind="stable")
        above = entries.above[order]
        first, stop = np.searchsorted(above, at, "left"), np.searchsorted(above, at, "right")
        counts = stop - first
        found = np.repeat(np.arange(len(at)), counts)
        offsets = np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
        picked = order[np.repeat(first, counts) + offsets]
        begin = np.maximum(starts[found], entries.starts[picked])
        end = np.minimum(ends[found], entries.ends[picked])
        alive = begin < end
        found, picked = found[alive], picked[alive]
        return found, entries.rows[picked], begin[alive], end[alive], picked


class LogicalFilters:
    """The filters of drop probing for input ``root``: a path to each other input, and its own predicates."""

    def __init__(self, inputs: JoinInputs, root: int, algorithm: str) -> None:
        every = range(len(inputs))
        linked = {i: [j for j in every if j != i and inputs.shared(j, {i})] for i in every}
        self.root = root
        self.parents = spanning_tree(root, linked)
        self.ends = list(self.parents)
        self.predicates = Predicates(inputs.own(root))
        self._algorithm, self._knobs = algorithm, Knobs()
        self.filters = self._new_filters()
        self.matching = AdaptiveMatching(len(self.ends))

    def _new_filters(self) -> PipelinedFilters:
        made = PipelinedFilters(len(self.ends) + len(self.predicates.free), self._algorithm)
        return made.anew(self._knobs.filters, self._knobs.profiling)

    def configure(self, knobs: Knobs) -> None:
        """Order the filters by another algorithm, or profile them at another rate."""
        self._knobs = knobs
        self.filters = self.filters.anew(knobs.filters or self._algorithm, knobs.profiling)

    @property
    def drops(self) -> bool:
        """Whether there is an order to choose, and so a drop probing step."""
        return len(self.ends) > 1 or bool(self.ends and (self.predicates.free or self.predicates.guarded))

    def order(self) -> list[int]:
        """The inputs on the paths, in the current probe order."""
        ends = [self.ends[f] for f in self.filters.order if f < len(self.ends)]
        return join_order(ends, self.parents)

    def shown(self) -> list[int | Expression]:
        """The current order of inputs and predicates, for display."""
        found: list[int | Expression] = []
        for f in self.filters.order:
            if f < len(self.ends):
                found += [j for j in path(self.parents, self.ends[f]) if j not in found]
            else:
                found.append(self.predicates.free[f - len(self.ends)])
        return [*found, *self.predicates.guarded]

    def names(self, labels: Sequence[str]) -> list[str]:
        """The names of the filters: the inputs on a path, or a predicate."""
        paths = [" ⋈ ".join(labels[k] for k in path(self.parents, j)) for j in self.ends]
        return [*paths, *map(str, self.predicates.free)]

    def survivors(self, probing: DropProbing, joins: Evaluate, count: int, read: Read) -> Int64s:
        """The tuples that pass every logical filter and every predicate.

        ``joins``: how the executor evaluates a logical filter; ``probing`` is for profiling.
        """

        def passes(f: int, places: Int64s) -> Bools:
            if f < len(self.ends):
                return probing.joins(self.ends[f], places)
            return self.predicates.passes(f - len(self.ends), read, places)

        def process(f: int, places: Int64s) -> Bools:
            return joins(f, places) if f < len(self.ends) else passes(f, places)

        def alone(f: int, places: Int64s) -> Bools:
            return probing.joins_alone(self.ends[f], places) if f < len(self.ends) else passes(f, places)

        while True:
            try:
                kept = self.filters.run(count, passes, alone, process=process)
                break
            except Failed as failed:
                self.predicates.guard(failed.predicate)
                self.filters = self._new_filters()
        guarded = self.predicates.guarded and len(kept)
        return kept[self.predicates.passes_guarded(read, kept)] if guarded else kept
