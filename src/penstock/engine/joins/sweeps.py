"""The algorithms of W-join: in the order of time, each new row of a stream finds the rows before it.

A result is found by its last row, so it is found once (Hammad et al., section 3.1). Before a row are the rows
of earlier steps, and of its own step those with a smaller timestamp, or with an equal one in an input before.
If steps bring rows in the order of time no row before is later; if a stream was behind the others, some are.

| algorithm | finds the rows of the next stream by | section |
| --- | --- | --- |
| ``nlw`` | comparing each row of its buffer with the period of the tuple, then the predicates | 3.1.1 |
| ``hw`` | its hash index, then the period | 3.1.2 |
| ``mw`` | its buffer, which has only rows within the window: the predicates alone (mode 2), and only for rows
that find a row in every buffer (mode 1) | 3.2 |
| ``gca`` | ``mw`` with the largest window for all, then a refinement: each pair is tested | 5.1 |
| ``lca`` | ``mw`` with each stream's own largest window, then the same refinement | 5.1 |

The *period* of a tuple for stream j is where the timestamps of rows that join all of its rows lie: it shrinks
with each row. The *buffer* of a stream holds the rows that a new row may still join: with timestamps from
t - ``reach`` on, when t is the new row's (``nlw``, ``hw``). For a path, ``nlw`` and ``hw`` sweep twice,
forward and backward, and leave out what is both the second time; the others refine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np

from penstock.engine.element import BEFORE_TIME, Bools, Int64s
from penstock.engine.indexes.index import Matches
from penstock.engine.joins.bands import Band
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.steps import Filter, PipelineStep, Probe, Verify
from penstock.engine.joins.tuples import Tuples
from penstock.engine.joins.window_graph import WindowGraph
from penstock.engine.kernels import sweeping

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass
class Run:
    """Rows of one input in the order of time."""

    times: Int64s
    rows: Int64s
    _values: dict[int | str, Int64s] = field(default_factory=dict)

    @classmethod
    def of(cls, times: Int64s, rows: Int64s) -> Run:
        if len(times) > 1 and not bool((times[1:] >= times[:-1]).all()):
            order = np.argsort(times, kind="stable")
            times, rows = times[order], rows[order]
        return cls(times, rows)

    def values(self, inputs: JoinInputs, i: int, classes: Sequence[int], bands: Sequence[Band]) -> np.ndarray:
        """The keys of some classes and the order keys of some bands, a row of the matrix for each; any value
        where there are none.
        """
        for c in classes:
            if c not in self._values:
                self._values[c] = inputs.key(i, c, self.rows)[0]
        for band in bands:
            if band.left[1] not in self._values:
                self._values[band.left[1]] = inputs.order_keys(band.left, self.rows)[0]
        names: list[int | str] = [*classes, *(b.left[1] for b in bands)]
        return np.stack([self._values[name] for name in names] or [self.times])


@dataclass
class Buffers:
    """By input, the rows of earlier steps and the new ones of this step, in the order of time."""

    old: list[Run]
    new: list[Run]

    @classmethod
    def of(cls, inputs: JoinInputs, new: Sequence[Int64s]) -> Buffers:
        """``new``: by input, the rows that this step brought."""
        runs = [(_older(inputs, i, rows), rows) for i, rows in enumerate(new)]
        pairs = [tuple(Run.of(inputs.life(i, some)[0], some) for some in both) for i, both in enumerate(runs)]
        return cls([old for old, _ in pairs], [fresh for _, fresh in pairs])

    @property
    def in_order(self) -> bool:
        """Whether no new row is before an old one of another input."""
        lasts = [run.times[-1] for run in self.old if len(run.times)]
        firsts = [run.times[0] for run in self.new if len(run.times)]
        return not lasts or not firsts or bool(max(lasts) <= min(firsts))


def _older(inputs: JoinInputs, i: int, new: Sequence[int] | Int64s) -> Int64s:
    """The rows of an input that may join and came before these; the rows of a step are the last ones."""
    store, stub = inputs.look(i), inputs.stubs[i]
    first = int(new[0]) if len(new) else stub.frontier
    return inputs.usable(i, stub.seen(np.arange(store.base, first)))


@dataclass
class Work:
    """What a sweep did: timestamps compared, and tuples tested by predicates or found in an index."""

    compared: int = 0
    tested: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Sweep:
    """One algorithm over one graph of windows."""

    def __init__(self, inputs: JoinInputs, graph: WindowGraph) -> None:
        self.inputs, self.graph, self.work = inputs, graph, Work()
        self.buffers = Buffers([], [])

    def run(self, root: int, rows: Int64s, buffers: Buffers) -> Tuples:
        """The results whose last row is one of these rows of input ``root``, in the order of time."""
        self.buffers = buffers
        none = [int(BEFORE_TIME)] * len(self.inputs)
        tuples = Tuples({root: rows}, *self.inputs.life(root, rows), none)
        for step in self._steps(root):
            if not len(tuples):
                break
            tuples = step.run(tuples)
        for j in range(len(self.inputs)):
            tuples.rows.setdefault(j, np.empty(0, np.int64))
        return tuples

    def _steps(self, root: int) -> Iterator[PipelineStep]:
        yield from self.first(root)
        yield Filter(self.inputs, ())
        bound = {root}
        for j in self.order(root):
            yield WindowProbe(self, root, j)
            yield Filter(self.inputs, bound)
            bound = {*bound, j}
        yield from self.last()
        yield Verify(self.inputs)

    def order(self, root: int) -> list[int]:
        """The other inputs: those after the root, then those before it; linked by an equality first."""
        left, bound = [*range(root + 1, len(self.inputs)), *range(root)], {root}
        found = []
        while left:
            j = next((j for j in left if self.inputs.shared(j, bound)), left[0])
            left.remove(j)
            found.append(j)
            bound.add(j)
        return found

    def first(self, root: int) -> Iterator[PipelineStep]:
        """Steps before the first probe."""
        return iter(())

    def last(self) -> Iterator[PipelineStep]:
        """Steps after the last probe."""
        return iter(())

    def reach(self, j: int) -> int:
        """How far back the buffer of stream j goes."""
        return self.graph.reach(j)

    def find(self, tuples: Tuples, root: int, j: int, classes: Sequence[int]) -> tuple[Int64s, Int64s]:
        """For each match of the tuples in stream j: the tuple's place, and the row."""
        lows, highs = self.period(tuples, j)
        asked, found = Asked.of(self.inputs, tuples, j, classes), []
        for run, firsts, stops in self.runs(tuples, root, j):
            values = run.values(self.inputs, j, classes, asked.bands)
            self.work.compared += 2 * _count(firsts, stops)
            where = run.times, values, firsts, stops, lows, highs
            places, at, tested = sweeping.in_period(*where, asked.least, asked.most)
            self.work.tested += tested
            found.append((places, run.rows[at]))
        return _both(found)

    def period(self, tuples: Tuples, j: int) -> tuple[Int64s, Int64s]:
        """The least and the greatest timestamp in stream j that is within the windows of each tuple."""
        d = self.graph.bounds
        times = {i: self.time(i, rows) for i, rows in tuples.rows.items()}
        lows = np.maximum.reduce([t - d[j][i] for i, t in times.items()])
        return lows, np.minimum.reduce([t + d[i][j] for i, t in times.items()])

    def runs(self, tuples: Tuples, root: int, j: int) -> Iterator[tuple[Run, Int64s, Int64s]]:
        """The rows in the buffer of stream j when each tuple's root row comes: old rows, and new ones."""
        at = self.time(root, tuples.rows[root])
        old, new = self.buffers.old[j], self.buffers.new[j]
        if len(old.times):
            later = at + self.ahead(root, j)
            yield old, _from(old, at - self.reach(j)), np.searchsorted(old.times, later, side="right")
        if len(new.times):
            stops = np.searchsorted(new.times, at, side="right" if j < root else "left")
            yield new, _from(new, at - self.reach(j)), stops

    def ahead(self, root: int, j: int) -> int:
        """By how much an old row of stream j may be later than a new one of the root."""
        return self.graph.bounds[root][j]

    def time(self, i: int, rows: Int64s) -> Int64s:
        return self.inputs.life(i, rows)[0]


@dataclass(frozen=True)
class Asked:
    """What tuples ask of rows of a stream: by equality and band, the least and greatest value per tuple."""

    bands: list[Band]
    least: np.ndarray
    most: np.ndarray

    @classmethod
    def of(cls, inputs: JoinInputs, tuples: Tuples, j: int, classes: Sequence[int]) -> Asked:
        keys = [key_of(inputs, tuples, c) for c in classes]
        bands = inputs.bands_into(j, tuples.rows)
        lows, highs = [*keys], [*keys]
        if not keys and not bands:
            lows, highs = ([np.full(len(tuples), end)] for end in (_LEAST, _MOST))
        for band in bands:
            own, known = inputs.order_keys(band.right, tuples.rows[band.right[0]])
            least, most = band.bounds(own)
            lows.append(np.where(known, least, 1))
            highs.append(np.where(known, most, 0))
        return cls(bands, np.stack(lows), np.stack(highs))

    def within(self, inputs: JoinInputs, places: Int64s, rows: Int64s) -> Bools:
        """Which rows satisfy the bands of the tuples at these places."""
        near = np.ones(len(rows), np.bool_)
        for k, band in enumerate(self.bands, len(self.least) - len(self.bands)):
            keys, valid = inputs.order_keys(band.left, rows)
            near &= (self.least[k][places] <= keys) & (keys <= self.most[k][places]) & valid
        return near


def key_of(inputs: JoinInputs, tuples: Tuples, c: int) -> Int64s:
    """The key of class ``c`` of each tuple."""
    members = inputs.column[c]
    i = next(i for i in tuples.rows if i in members)
    return inputs.key(i, c, tuples.rows[i])[0]


def _count(firsts: Int64s, stops: Int64s) -> int:
    """The rows of runs."""
    return int(np.maximum(stops - firsts, 0).sum())


def _from(run: Run, lows: Int64s) -> Int64s:
    return np.searchsorted(run.times, lows, side="left")


def _both(found: Sequence[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    if len(found) == 1:
        return found[0]
    none = [np.empty(0, np.int64)]
    return np.concatenate([p for p, _ in found] or none), np.concatenate([r for _, r in found] or none)


class NestedLoop(Sweep):
    """NLW-join: every row of the buffer is compared with the period (figure 5)."""

    def look(self, root: int, rows: Int64s, buffers: Buffers) -> tuple[Int64s, int, int]:
        """For some rows of a stream: by stream the rows in its buffer, and of the pairs of these rows and
        the rows in the buffer of the next stream, how many there are and how many match.
        """
        self.buffers = buffers
        tuples = Tuples({root: rows}, *self.inputs.life(root, rows), ())
        sizes = np.zeros((len(self.inputs), len(rows)), np.int64)
        for j in (j for j in range(len(self.inputs)) if j != root):
            for _, firsts, stops in self.runs(tuples, root, j):
                sizes[j] += np.maximum(stops - firsts, 0)
        following = self.order(root)[0]
        matched = self.find(tuples, root, following, self.inputs.shared(following, {root}))[0]
        return sizes, int(sizes[following].sum()), len(matched)


class Hash(Sweep):
    """HW-join: equal keys by a hash table, then the period; as NLW-join where no equality links a stream.

    Rows of earlier steps are found by the index of their store. It has the rows of the step as well, of which
    a long step brings many that are out of the period: those are found by a table of the sweep's own, whose
    buckets are in the order of time.
    """

    def find(self, tuples: Tuples, root: int, j: int, classes: Sequence[int]) -> tuple[Int64s, Int64s]:
        if not classes:
            return super().find(tuples, root, j, classes)
        lows, highs = self.period(tuples, j)
        asked = Asked.of(self.inputs, tuples, j, classes)
        found = [self._earlier(tuples, j, classes, lows, highs, asked)]
        for run, firsts, stops in self.runs(tuples, root, j):
            if run is self.buffers.new[j]:
                values = run.values(self.inputs, j, classes, asked.bands)
                where = run.times, values, firsts, stops, lows, highs
                places, at, tested = sweeping.in_buckets(*where, asked.least, asked.most, len(classes))
                self._count(tested)
                found.append((places, run.rows[at]))
        return _both(found)

    def _earlier(
        self, tuples: Tuples, j: int, classes: Sequence[int], lows: Int64s, highs: Int64s, asked: Asked
    ) -> tuple[Int64s, Int64s]:
        """The matches among rows of earlier steps, for the tuples whose period has some."""
        old, new = self.buffers.old[j], self.buffers.new[j]
        some = np.zeros(len(tuples), np.bool_)
        if len(old.times):
            some = (lows <= old.times[-1]) & (highs >= old.times[0])
        if not some.any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        at = np.flatnonzero(some)
        places, rows = self._equal(tuples.take(at), j, classes)[:2]
        self._count(len(places))
        places, times = at[places], self.time(j, rows)
        near = (lows[places] <= times) & (times <= highs[places])
        near &= rows < (new.rows.min() if len(new.rows) else self.inputs.stubs[j].frontier)
        near &= asked.within(self.inputs, places, rows)
        return places[near], rows[near]

    def _count(self, tested: int) -> None:
        self.work += Work(2 * tested, tested)

    def _equal(self, tuples: Tuples, j: int, classes: Sequence[int]) -> Matches:
        store, view = self.inputs.seen(j, tuples.min_ends)
        index = self.inputs.index(j, classes, len(tuples))
        valid = np.ones(len(tuples), np.bool_)
        keys, known = index.prepare([(key_of(self.inputs, tuples, c), valid) for c in classes])
        return index.probe(store, keys, known, tuples.starts, tuples.ends, view)


class Merge(Sweep):
    """MW-join; ``window``: the window by which it filters, None for each stream's own."""

    def __init__(self, inputs: JoinInputs, graph: WindowGraph, window: int | None) -> None:
        super().__init__(inputs, graph)
        self._window = window

    def reach(self, j: int) -> int:
        return self.graph.reach(j) if self._window is None else self._window

    def ahead(self, root: int, j: int) -> int:
        return self.reach(root)

    def first(self, root: int) -> Iterator[PipelineStep]:
        yield Locate(self, root)

    def last(self) -> Iterator[PipelineStep]:
        if not (self.graph.uniform and self.buffers.in_order and not self.graph.path):
            yield Refine(self)

    def find(self, tuples: Tuples, root: int, j: int, classes: Sequence[int]) -> tuple[Int64s, Int64s]:
        """Mode 2: all rows of the buffer, by the predicates alone."""
        asked, found = Asked.of(self.inputs, tuples, j, classes), []
        for run, firsts, stops in self.runs(tuples, root, j):
            self.work.tested += _count(firsts, stops)
            values = run.values(self.inputs, j, classes, asked.bands)
            places, at = sweeping.in_run(values, firsts, stops, asked.least, asked.most)
            found.append((places, run.rows[at]))
        return _both(found)


class Locate(PipelineStep):
    """Mode 1: keeps the rows for which every other stream has a row in its buffer."""

    def __init__(self, sweep: Sweep, root: int) -> None:
        super().__init__(sweep.inputs)
        self._sweep, self._root = sweep, root

    def run(self, tuples: Tuples) -> Tuples:
        old, new = self._sweep.buffers.old, self._sweep.buffers.new
        # Few rows pass the stream that has the fewest.
        for j in sorted(range(len(self.inputs)), key=lambda j: len(old[j].rows) + len(new[j].rows)):
            if j != self._root and len(tuples):
                self._sweep.work.compared += 2 * len(tuples)
                runs = self._sweep.runs(tuples, self._root, j)
                some = [stops > firsts for _, firsts, stops in runs]
                tuples = tuples.where(np.logical_or.reduce([np.zeros(len(tuples), np.bool_), *some]))
        return tuples


class Refine(PipelineStep):
    """Keeps the tuples whose rows are within the windows of each other, and in the order of the path."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__(sweep.inputs)
        self._sweep = sweep

    def run(self, tuples: Tuples) -> Tuples:
        graph = self._sweep.graph
        times = [self._sweep.time(i, tuples.rows[i]) for i in range(len(graph))]
        self._sweep.work.compared += len(tuples) * len(times) * (len(times) - 1) // 2
        return tuples.where(graph.holds(times))


class Apart(PipelineStep):
    """Keeps the tuples whose rows on the path do not all have one timestamp: those were found forward."""

    def __init__(self, sweep: Sweep, path: Sequence[int]) -> None:
        super().__init__(sweep.inputs)
        self._sweep, self._path = sweep, path

    def run(self, tuples: Tuples) -> Tuples:
        first, *others = (self._sweep.time(i, tuples.rows[i]) for i in self._path)
        return tuples.where(np.logical_or.reduce([first != t for t in others]))


class WindowProbe(Probe):
    """Joins tuples with stream ``j`` by the matches that a sweep finds."""

    def __init__(self, sweep: Sweep, root: int, j: int) -> None:
        super().__init__(sweep.inputs, root, j, None)
        self._sweep = sweep

    def run(self, tuples: Tuples) -> Tuples:
        j, bound = self._j, set(tuples.rows)
        classes = self.inputs.shared(j, bound)
        places, rows = self._sweep.find(tuples, self._root, j, classes)
        starts, ends = self.inputs.life(j, rows)
        starts, ends = np.maximum(tuples.starts[places], starts), np.minimum(tuples.ends[places], ends)
        joined = replace(tuples.take(places), starts=starts, ends=ends)
        joined.rows[j] = rows
        joined = joined.where(starts < ends)
        return self._same_keys(joined, bound, classes)


def sweeps(algorithm: str, inputs: JoinInputs, graph: WindowGraph) -> list[Sweep]:
    """The sweeps of an algorithm: two for a path by ``nlw`` or ``hw``, else one."""
    if algorithm in ("nlw", "hw"):
        kind = NestedLoop if algorithm == "nlw" else Hash
        if len(graph.path) < 3:
            return [kind(inputs, graph)]
        forward, backward = (kind(inputs, g) for g in graph.both_ways())
        backward.last = lambda: iter([Apart(backward, graph.path)])  # type: ignore[method-assign]
        return [forward, backward]
    return [Merge(inputs, graph, None if algorithm == "lca" else graph.span)]
