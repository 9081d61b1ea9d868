"""The probe pipeline of one input of a join: an order of steps that its new rows go through.

Inputs reachable by equalities are probed in StreaMon's order, the others after them. If there is an order to
choose, one step joins all that paths lead to, and the order may change after each slice of rows. A pipeline
with caches has look-ups in the place of probes, in the last order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.joins.cache_update import Updates
from penstock.engine.joins.caching import Element, JoinCaches
from penstock.engine.joins.drop_probing import LogicalFilters
from penstock.engine.joins.growing import DropProbe
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.steps import Filter, PipelineStep, Probe, Verify, through
from penstock.engine.joins.tuples import Tuples
from penstock.streamon.settings import SLICE_TUPLES as SLICE


class Pipeline:
    """The steps of input ``root``; ``algorithm`` orders them."""

    def __init__(
        self, inputs: JoinInputs, root: int, algorithm: str, caches: JoinCaches | None = None
    ) -> None:
        self._inputs, self.root, self._caches = inputs, root, caches
        self.filters = LogicalFilters(inputs, root, algorithm)

    def order(self) -> list[int]:
        """The current probe order: inputs on paths first, then inputs linked by an equality, else by a
        predicate.
        """
        order = self.filters.order()
        left = [j for j in range(len(self._inputs)) if j != self.root and j not in order]
        while left:
            bound = {self.root, *order}

            def links(j: int, bound: set[int] = bound) -> tuple[int, bool, int]:
                return len(self._inputs.shared(j, bound)), self._inputs.linked(j, bound), -j

            order.append(max(left, key=links))
            left.remove(order[-1])
        return order

    def cached_steps(self, elements: Sequence[Element]) -> Iterator[PipelineStep]:
        """Probes and look-ups one after the other."""
        yield Filter(self._inputs, ())
        bound = {self.root}
        for element in elements:
            if isinstance(element, int):
                yield Probe(self._inputs, self.root, element, None)
                more = {element}
            else:
                assert self._caches is not None
                yield self._caches.lookup(element, self.root, self.order())
                more = set(element.segment.inputs)
            yield Filter(self._inputs, bound)
            bound = bound | more
        yield Verify(self._inputs)

    def steps(self) -> Iterator[PipelineStep]:
        """The steps in the current order."""
        drops, parents = self.filters.drops, self.filters.parents
        # Drop probing evaluates the predicates on the root alone.
        yield Filter(self._inputs, {self.root} if drops else ())
        if drops:
            yield DropProbe(self._inputs, self.filters, self.updates)
            yield Filter(self._inputs, {self.root}, fails=True)
        joined = {self.root, *(parents if drops else ())}
        bound = joined
        for j in (j for j in self.order() if j not in joined):
            yield Probe(self._inputs, self.root, j, parents.get(j))
            yield Filter(self._inputs, bound)
            bound = {*bound, j}
        yield Verify(self._inputs)

    def run(self, rows: Int64s, min_ends: Sequence[int]) -> list[Tuples]:
        """Join rows of the root with all other inputs. ``min_ends``: as in :class:`Tuples`."""
        if not self.filters.drops:
            return self._run(rows, min_ends)
        slices = (rows[at : at + SLICE] for at in range(0, len(rows), SLICE))
        return [found for some in slices for found in self._run(some, min_ends)]

    def _run(self, rows: Int64s, min_ends: Sequence[int]) -> list[Tuples]:
        tuples = Tuples({self.root: rows}, *self._inputs.life(self.root, rows), min_ends)
        parts = self._caches.run(self, tuples) if self._caches else [self.through(self.steps(), tuples)]
        for part in parts:
            for j in range(len(self._inputs)):
                part.rows.setdefault(j, np.empty(0, np.int64))
        return parts

    def through(self, steps: Iterable[PipelineStep], tuples: Tuples) -> Tuples:
        """What is left of tuples after some steps; of joined rows on the way, caches come to know."""
        updates = self.updates
        if updates is None:
            return through(steps, tuples)
        for step in steps:
            if not len(tuples):
                break
            before, tuples = tuples, step.run(tuples)
            updates = updates if step.whole else None
            if updates is not None:
                updates.joined(before, tuples)
        return tuples

    @property
    def updates(self) -> Updates | None:
        """Of the rows that go through it, if they are new and some caches are to know of them."""
        return None if self._caches is None else self._caches.updates

    def shows(self, members: Collection[int], order: Sequence[int]) -> bool:
        """Whether its rows are joined with the other inputs of a segment first, and by all matches."""
        others = set(members) - {self.root}
        asked = {self.filters.ends[f] for f in self.filters.matching.first}
        return set(order[: len(others)]) == others and asked.isdisjoint(others)

    def shown(self, labels: Sequence[str]) -> list[str]:
        """The current order, as labels and predicates."""
        first = self.filters.shown()
        rest = [j for j in self.order() if j not in first]
        return [labels[s] if isinstance(s, int) else str(s) for s in (*first, *rest)]
