"""Drop probing as a step of a pipeline: the tuples that join along every path, with what was found of them.

Where StreaMon says so (``streamon/matching.py``) a probe takes all matches at once, and the tuples *grow*
while they are filtered; else it asks for a first match (``DropProbing``), and the matches of the rows that no
filter drops are found in the end. Profiling always asks for first matches, of whatever rows it samples: so
what A-Greedy learns is the same in both cases, and orders follow the stream in both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.joins.cache_update import Updates
from penstock.engine.joins.drop_probing import DropProbing, LogicalFilters
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.steps import Filter, PipelineStep, Probe
from penstock.engine.joins.tuples import Tuples
from penstock.streamon.logical_filters import path


class DropProbe(PipelineStep):
    """Keeps the tuples that join along every path and pass their own predicates, joined with all inputs on
    the paths, in StreaMon's order.
    """

    whole = False

    def __init__(self, inputs: JoinInputs, filters: LogicalFilters, updates: Updates | None = None) -> None:
        """``updates``: of caches that are to know of joined rows on the way."""
        super().__init__(inputs)
        self._filters, self._updates = filters, updates

    def run(self, tuples: Tuples) -> Tuples:
        root = self._filters.root
        lives = tuples.rows[root], tuples.starts, tuples.ends
        paths = DropProbing(self.inputs, root, self._filters.parents, lives, tuples.min_ends)
        growing = Growing(self.inputs, self._filters, paths, tuples, self._updates)

        def read(column: str, places: Int64s) -> pa.Array:
            return self.inputs.gather(tuples, column, places)

        kept = self._filters.survivors(paths, growing.joins, len(tuples), read)
        found = growing.result(kept)
        self.inputs.probes[root] += paths.probes
        return found


class Growing:
    """Tuples of ``root`` rows in parts, each joined with some inputs. Of a row that has tuples, they are all
    there; a row that has none may be asked about as if it were new.
    """

    def __init__(
        self,
        inputs: JoinInputs,
        filters: LogicalFilters,
        paths: DropProbing,
        tuples: Tuples,
        updates: Updates | None = None,
    ) -> None:
        self._inputs, self._filters, self._paths, self._updates = inputs, filters, paths, updates
        self._root, self._matching = filters.root, filters.matching
        self._rows = replace(tuples, paths=paths, at={self._root: np.arange(len(tuples))})
        self._parts: list[Tuples] = []
        self._passed: dict[int, int] = {}

    def joins(self, f: int, places: Int64s) -> Bools:
        """Which of the rows join along the path of a filter; what is found of those that do is kept."""
        wanted, passes = self._flags(places), np.zeros(len(self._rows), np.bool_)
        new = wanted.copy() if self._parts else wanted
        parts, self._parts = self._parts, []
        end = self._filters.ends[f]
        for part in parts:
            at = part.at[self._root]
            mine = wanted[at]
            if not mine.any():
                self._parts.append(part)
            elif end in part.rows:
                passes[at[mine]] = True
                new[at] = False
                self._parts.append(part)
            else:
                if not (whole := bool(mine.all())):
                    self._parts.append(part.take(np.flatnonzero(~mine)))
                new[at] = False
                self._join(f, part if whole else part.take(np.flatnonzero(mine)), passes)
        left = places[new[places]] if parts else places
        if len(left):
            whole = len(left) == len(self._rows)
            self._join(f, self._rows if whole else self._rows.take(left), passes)
        found = passes[places]
        self._passed[f] = self._passed.get(f, 0) + int(np.count_nonzero(found))
        return found

    def _flags(self, places: Int64s) -> Bools:
        flags = np.zeros(len(self._rows), np.bool_)
        flags[places] = True
        return flags

    def _join(self, f: int, some: Tuples, passes: Bools) -> None:
        """Join tuples along a path, or look for their first matches; note which rows pass."""
        at = some.at[self._root]
        few = len(some.rows) == 1
        rows = at if few else np.flatnonzero(self._flags(at))
        end = self._filters.ends[f]
        self._matching.profiler.asked(f, len(rows), len(some))
        to = path(self._filters.parents, end)
        if self._matching.asks_first(f, len(rows), len(some), len(to)):
            found = self._paths.joins(end, rows)
            passes[rows[found]] = True
            self._parts.append(some)
            if self._updates is not None:
                self._updates.dropped(self._rows.rows[self._root][rows[~found]], (self._root, *to))
            return
        sample = self._matching.thresholds.sample
        if not self._matching.profiler.known[f] and len(some) > sample and len(rows) > 1:
            # A probe may find as many rows as a window has: a few tuples tell.
            first = self._flags(rows[: max(sample * len(rows) // len(some), 1)])[at]
            for part in (some.where(first), some.where(~first)):
                self._join(f, part, passes)
            return
        grown = self._grown(f, some)
        passes[grown.at[self._root]] = True
        self._parts.append(grown)

    def _grown(self, f: int, some: Tuples) -> Tuples:
        """Tuples joined with the inputs on a path."""
        grown = some
        for j in path(self._filters.parents, self._filters.ends[f]):
            grown = self._joined(grown, j)
        self._matching.profiler.found(f, len(some), 0 if self._scans(f) else len(grown))
        return grown

    def _scans(self, f: int) -> bool:
        """Whether a probe at the end of a path looks through all rows."""
        end = self._filters.ends[f]
        classes = self._inputs.shared(end, {self._filters.parents[end]})
        return self._inputs.index(end, classes).name == "none"

    def _joined(self, tuples: Tuples, j: int) -> Tuples:
        """Tuples joined with one more input, as far as it is not known that they are in no result."""
        if j in tuples.rows or not len(tuples):
            return tuples
        before = tuples.rows.keys()
        found = Probe(self._inputs, self._root, j, self._filters.parents[j]).run(tuples)
        if self._updates is not None:
            self._updates.joined(tuples, found)
        return Filter(self._inputs, before, fails=False).run(found)

    def result(self, kept: Int64s) -> Tuples:
        """The tuples of some rows, joined with all inputs on the paths."""
        wanted, parts = self._flags(kept), []
        new = wanted.copy()
        for part in self._parts:
            at = part.at[self._root]
            parts.append(part.where(wanted[at]))
            new[at] = False
        left = kept[new[kept]]
        if len(left) or not parts:
            parts.append(self._rows.take(left))
        self._learn(len(kept))
        order = self._filters.order()
        for n, part in enumerate(parts):
            for j in order:
                part = self._joined(part, j)
            parts[n] = replace(part, paths=None, at={})
        return concatenated([p for p in parts if len(p)] or parts[:1])

    def _learn(self, kept: int) -> None:
        for f, passed in self._passed.items():
            if passed:
                self._matching.profiler.ended(f, passed, min(kept, passed))
        self._matching.ended(len(self._rows))


def concatenated(parts: list[Tuples]) -> Tuples:
    """Tuples with the same inputs, one after the other."""
    if len(parts) == 1:
        return parts[0]
    rows = {i: np.concatenate([p.rows[i] for p in parts]) for i in parts[0].rows}
    starts, ends = (np.concatenate([getattr(p, what) for p in parts]) for what in ("starts", "ends"))
    return replace(parts[0], rows=rows, starts=starts, ends=ends)
