"""The steps of a probe pipeline: each takes a slice of tuples and returns a slice of tuples.

A pipeline starts with rows of one input. ``Probe`` joins the tuples with one more input, ``Filter`` evaluates
the predicates whose columns have just become available, ``DropProbe`` (``growing.py``) drops tuples that join
nothing (thesis 5.2.2), ``Verify`` compares the real columns where keys are hashes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.conjunction import passes_all
from penstock.engine.element import Bools, Int64s
from penstock.engine.evaluate import true_mask
from penstock.engine.indexes.index import Matches
from penstock.engine.joins.bands import Band
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.tuples import Tuples
from penstock.engine.synopses.directory import same_rows
from penstock.errors import DataError
from penstock.expression import columns


class PipelineStep(ABC):
    """One step of a pipeline."""

    whole = True
    """Whether the tuples that it returns are all that join, as far as predicates do not reject them."""

    def __init__(self, inputs: JoinInputs) -> None:
        self.inputs = inputs

    @abstractmethod
    def run(self, tuples: Tuples) -> Tuples:
        """The tuples that pass, with the columns that the step adds."""


def through(steps: Iterable[PipelineStep], tuples: Tuples) -> Tuples:
    """What is left of tuples after some steps."""
    for step in steps:
        if not len(tuples):
            break
        tuples = step.run(tuples)
    return tuples


class Filter(PipelineStep):
    """Applies the predicates that can be evaluated now and could not when only ``before`` was bound.

    ``fails``: only those that may fail on some tuple, or only those that never do.
    """

    def __init__(self, inputs: JoinInputs, before: Collection[int], fails: bool | None = None) -> None:
        super().__init__(inputs)
        self._before, self._fails = set(before), fails

    def run(self, tuples: Tuples) -> Tuples:
        for (predicate, reads), fails in zip(self.inputs.residual, self.inputs.fails, strict=True):
            if self._fails not in (None, fails):
                continue
            if reads <= tuples.rows.keys() and not (reads and reads <= self._before):
                known = {c: self.inputs.gather(tuples, c) for c in columns(predicate)}
                try:
                    tuples = tuples.where(np.asarray(true_mask(predicate, known, len(tuples))))
                except DataError:
                    if len(reads) != 1:
                        raise
                    tuples = replace(tuples, unsure=tuples.unsure | reads)
        return tuples


class Probe(PipelineStep):
    """Joins tuples that began with a row of input ``root`` with input ``j``."""

    def __init__(self, inputs: JoinInputs, root: int, j: int, before: int | None) -> None:
        """``before``: the input before j on a path of drop probing, if there is one."""
        super().__init__(inputs)
        self._root, self._j, self._before = root, j, before

    def run(self, tuples: Tuples) -> Tuples:
        j, bound = self._j, set(tuples.rows)
        classes = self.inputs.shared(j, bound)
        entries = None
        paths, above = tuples.paths, None if self._before is None else tuples.at.get(self._before)
        if paths is not None and above is not None and paths.knows(j, above):
            places, rows, starts, ends, entries = paths.matches(j, above, tuples.starts, tuples.ends)
        elif classes:
            places, rows, starts, ends = self._by_keys(tuples, classes)
        else:
            places, rows, starts, ends = self._by_band(tuples)
        self.inputs.matches[self._root] += len(rows)
        joined = tuples.joined(j, places, rows, starts, ends)
        if entries is not None:
            joined.at = {**joined.at, j: entries}
        return self._near(self._same_keys(joined, bound, classes), bound)

    def _by_keys(self, tuples: Tuples, classes: Sequence[int]) -> Matches:
        store, view = self.inputs.seen(self._j, tuples.min_ends)
        index = self.inputs.index(self._j, classes, len(tuples))
        keys, valid = index.prepare([self._key_of(tuples, c) for c in classes])
        self.inputs.probes[self._root] += len(tuples)
        return index.probe(store, keys, valid, tuples.starts, tuples.ends, view)

    def _by_band(self, tuples: Tuples) -> Matches:
        """Matches by the first band into input j; without a band, every row there."""
        store, view = self.inputs.seen(self._j, tuples.min_ends)
        life = tuples.starts, tuples.ends
        bands = self.inputs.bands_into(self._j, tuples.rows)
        if not bands:
            return store.index(()).probe(store, tuples.starts, np.ones(len(tuples), np.bool_), *life, view)
        lows, highs, valid = self._bounds(tuples, bands[0])
        self.inputs.probes[self._root] += len(tuples)
        index = self.inputs.range_index(bands[0].left, len(tuples))
        return index.probe_range(store, lows, highs, valid, *life, view)

    def _bounds(self, tuples: Tuples, band: Band) -> tuple[Int64s, Int64s, Bools]:
        keys, valid = self.inputs.order_keys(band.right, tuples.rows[band.right[0]])
        return *band.bounds(keys), valid

    def _near(self, joined: Tuples, bound: set[int]) -> Tuples:
        """Compare the keys of all bands into input j: a probe uses at most one of them."""
        for band in self.inputs.bands_into(self._j, bound):
            lows, highs, known = self._bounds(joined, band)
            keys, valid = self.inputs.order_keys(band.left, joined.rows[self._j])
            joined = joined.where((lows <= keys) & (keys <= highs) & known & valid)
        return joined

    def _same_keys(self, joined: Tuples, bound: set[int], classes: Sequence[int]) -> Tuples:
        """Compare all keys: a combined key is a hash, and a path uses only the keys of its inputs."""
        if len(classes) < 2:
            return joined
        same = []
        for c in classes:
            keys, known = self._key_of(joined, c, bound)
            own, valid = self.inputs.key(self._j, c, joined.rows[self._j])
            same.append((keys == own) & known & valid)
        return joined.where(np.logical_and.reduce(same))

    def _key_of(self, tuples: Tuples, c: int, bound: Collection[int] | None = None) -> tuple[Int64s, Bools]:
        members = self.inputs.column[c]
        i = next(i for i in tuples.rows if i in members and (bound is None or i in bound))
        return self.inputs.key(i, c, tuples.rows[i])


class Verify(PipelineStep):
    """Compares the real columns of tuples matched by hash, and evaluates predicates that failed before."""

    def run(self, tuples: Tuples) -> Tuples:
        for c, members in enumerate(self.inputs.column):
            if not self.inputs.exact[c]:
                values = [self.inputs.gather(tuples, column) for column in members.values()]
                same = [same_rows([values[0]], [v], len(tuples)) for v in values[1:]]
                tuples = tuples.where(np.logical_and.reduce(same))
        for i in tuples.unsure:
            read = self.inputs.stubs[i].gather
            tuples = tuples.where(passes_all(self.inputs.own(i), read, tuples.rows[i]))
        return tuples
