"""The pipeline of one input of a multiway join: the filters of its drop probing in their order (5.2)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.conjunction import Failed, Predicates, Read
from penstock.engine.element import Bools, Int64s
from penstock.engine.joins.drop_probing import DropProbing
from penstock.engine.joins.inputs import JoinInputs
from penstock.expression import Expression
from penstock.streamon.logical_filters import join_order, path, spanning_tree
from penstock.streamon.pipelined_filters import PipelinedFilters


class Pipeline:
    """One input's: the paths to the other inputs, its own predicates, and StreaMon's order of them all."""

    def __init__(self, stores: JoinInputs, root: int, own: Sequence[Expression], algorithm: str) -> None:
        every = range(len(stores))
        linked = {i: [j for j in every if j != i and stores.shared(j, {i})] for i in every}
        self.parents = spanning_tree(root, linked)
        self.ends = list(self.parents)
        self.predicates = Predicates(own)
        self._algorithm = algorithm
        self.filters = self._new_filters()

    def _new_filters(self) -> PipelinedFilters:
        return PipelinedFilters(len(self.ends) + len(self.predicates.free), self._algorithm)

    @property
    def drops(self) -> bool:
        """Whether there is an order to choose, and so a phase of drop probing."""
        return len(self.ends) > 1 or bool(self.ends and (self.predicates.free or self.predicates.guarded))

    def order(self) -> list[int]:
        """The inputs on the paths, in the order in which they are probed now."""
        ends = [self.ends[f] for f in self.filters.order if f < len(self.ends)]
        return join_order(ends, self.parents)

    def steps(self) -> list[int | Expression]:
        """Probes of inputs and predicates in their order."""
        found: list[int | Expression] = []
        for f in self.filters.order:
            if f < len(self.ends):
                found += [j for j in path(self.parents, self.ends[f]) if j not in found]
            else:
                found.append(self.predicates.free[f - len(self.ends)])
        return [*found, *self.predicates.guarded]

    def names(self, labels: Sequence[str]) -> list[str]:
        """What the filters are called: the inputs on a path, a predicate."""
        paths = [" ⋈ ".join(labels[k] for k in path(self.parents, j)) for j in self.ends]
        return [*paths, *map(str, self.predicates.free)]

    def survivors(self, probing: DropProbing, count: int, read: Read) -> Int64s:
        """The tuples that every logical filter and every predicate lets through."""

        def passes(f: int, places: Int64s) -> Bools:
            if f < len(self.ends):
                return probing.joins(self.ends[f], places)
            return self.predicates.passes(f - len(self.ends), read, places)

        def alone(f: int, places: Int64s) -> Bools:
            return probing.joins_alone(self.ends[f], places) if f < len(self.ends) else passes(f, places)

        while True:
            try:
                kept = self.filters.run(count, passes, alone)
                break
            except Failed as failed:
                self.predicates.guard(failed.predicate)
                self.filters = self._new_filters()
        guarded = self.predicates.guarded and len(kept)
        return kept[self.predicates.passes_guarded(read, kept)] if guarded else kept
