"""w-join: the join of streams with windows between them (Hammad, Aref, Elmagarmid).

At every instant τ the output relation is the join of the input windows at τ, as far as the rows are within
the windows of each other: for any streams i and j, the row of j is at most ``bounds[i][j]`` later than that
of i. A result enters with its last row and leaves with the first of its rows that leaves its window.

``joins/sweeps.py`` has the algorithms; all of them return the same. Which one runs is chosen by cost, and
again while it runs (``streamon/w_join.py``): the stores are the same for all. ``mjoin`` is the plain multiway
join, whose results are then tested for the windows.

Retention: a row of stream i joins no row that is more than ``reach(i)`` later, so it is dropped when time has
passed that, also where its own window is longer. Inputs are windows of time without a slide, in which a row's
life begins at its timestamp; other joins with windows between streams run as ``mjoin`` with bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from statistics import fmean

import numpy as np

from penstock.engine.element import Chunk, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.joins.retention import BetweenStreams, Retention
from penstock.engine.joins.sweeps import Buffers, NestedLoop, Sweep, Work, sweeps
from penstock.engine.joins.tuples import Tuples
from penstock.engine.joins.window_graph import WindowGraph
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.synopses.store import Stores
from penstock.measurement import Kind, Property, Reading, under
from penstock.schema import TimeDomain
from penstock.streamon.settings import SLICE_TUPLES, W_JOIN
from penstock.streamon.w_join import AdaptiveWJoin


@dataclass(frozen=True)
class WJoin(MJoin):
    """Joins streams ``parts``, which are the streams of ``between`` in its order.

    ``algorithm``: one of ``W_JOINS``, or adaptive. ``spare``: by input, the ticks by which its window is
    longer than its rows are needed. ``own``: where partitions have slices of time, by input the column that
    marks rows in the partition's slices; a result belongs where its earliest row is marked. ``time``: what a
    tick is, in words.
    """

    between: WindowGraph = WindowGraph((), ())
    algorithm: str = "adaptive"
    spare: tuple[int, ...] = ()
    own: tuple[str, ...] = ()
    time: TimeDomain = field(default=TimeDomain(), repr=False, compare=False)

    name = "w-join"
    probes_by_cost = False

    @property
    def adapts(self) -> bool:
        return False

    def describe(self) -> str:
        said = super().describe() if self.classes or self.bands or self.residual else ""
        return ", ".join(filter(None, [self.between.text(self.labels, self.time), said]))

    def details(self) -> Iterator[str]:
        kept = (f"{label} {self.time.length(self.between.reach(i))}" for i, label in enumerate(self.labels))
        yield f"rows are kept for {', '.join(kept)}"
        usable = self.algorithms()
        if len(usable) == 1:
            yield f"algorithm {usable[0]}"
        else:
            yield f"algorithm {usable[0]} at first, of {', '.join(usable)} by cost while it runs"

    def algorithms(self) -> tuple[str, ...]:
        """The algorithms to choose from, the one to begin with first."""
        if self.algorithm != "adaptive":
            return (self.algorithm,)
        by_time = "mw" if self.between.uniform and not self.between.path else "lca"
        if self._linked() == len(self.parts):
            return ("hw", by_time, "mjoin", "nlw")
        return (by_time, "nlw", "hw") if self.classes else (by_time, "nlw")

    def start(self, context: StartContext) -> Operator:
        return _WJoin(self, context)


class _WJoin(JoinOperator):
    def __init__(self, node: WJoin, context: StartContext) -> None:
        super().__init__(node, context.stores)
        self._graph, self._own = node.between, node.own
        usable, near = node.algorithms(), _near(node.between)
        widest = tuple(node.between.span / max(node.between.reach(j), 1) for j in range(len(node.parts)))
        self._choice = AdaptiveWJoin(usable, len(node.parts), near, widest)
        self._sweeps: dict[str, list[Sweep]] = {}

    def _new_inputs(self, stores: Stores | None, ids: bool) -> JoinInputs:
        node = self._node
        assert isinstance(node, WJoin)
        read = (*node.output, *node.own)
        how = node.parts, node.classes, node.residual, read, node.bands, node.chooser
        return JoinInputs(stores, *how, [0] * len(node.parts))

    def _new_caches(self) -> None:
        """None: sweeps would not update them."""
        return None

    def _new_retention(self) -> Retention:
        assert isinstance(self._node, WJoin)
        return BetweenStreams(self._inputs, self._node.spare)

    def _join(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        before = [stub.frontier for stub in self._inputs.stubs]
        new = [self._inputs.insert(i, chunk) for i, chunk in enumerate(inputs)]
        buffers, looks = Buffers.of(self._inputs, new), self._choice.looks(sum(map(len, inputs)))
        self._choice.profiler.arrived([len(chunk) for chunk in inputs])
        if looks:
            self._look(buffers)
        algorithm = self._choice.algorithm
        found = self._probed(before, new) if algorithm == "mjoin" else self._swept(algorithm, buffers)
        return Chunk.concat([self._chunk(t, t.starts, 1) for t in found], self._schema).in_order()

    def _swept(self, algorithm: str, buffers: Buffers) -> Iterator[Tuples]:
        if algorithm not in self._sweeps:
            self._sweeps[algorithm] = sweeps(algorithm, self._inputs, self._graph)
        for sweep in self._sweeps[algorithm]:
            for root, run in enumerate(buffers.new):
                for at in range(0, len(run.rows), SLICE_TUPLES):
                    yield self._mine(sweep.run(root, run.rows[at : at + SLICE_TUPLES], buffers))

    def _probed(self, before: Sequence[int], new: Sequence[Int64s]) -> Iterator[Tuples]:
        """As a plain join: rows of each input probe the others, of which those after it have no new rows."""
        stubs = self._inputs.stubs
        after = [stub.frontier for stub in stubs]
        for i, rows in enumerate(new):
            for j, stub in enumerate(stubs):
                stub.frontier = after[j] if j <= i else before[j]
            yield from self._pipeline(i, rows)

    def _look(self, buffers: Buffers) -> None:
        """Count the rows in the buffers for a sample of the new rows, and choose the algorithm again."""
        profiler, looking = self._choice.profiler, NestedLoop(self._inputs, self._graph)
        for root, run in enumerate(buffers.new):
            sample = run.rows[:: max(len(run.rows) // W_JOIN.sample, 1)]
            if len(sample):
                sizes, pairs, matched = looking.look(root, sample, buffers)
                located = int((np.delete(sizes, root, axis=0) > 0).all(axis=0).sum())
                profiler.sampled(len(sample), located, sizes.sum(axis=1))
                profiler.matched(pairs, matched)
        profiler.stored(
            [len(old.rows) + len(run.rows) for old, run in zip(buffers.old, buffers.new, strict=True)]
        )
        self._choice.reconsider()

    def _pipeline(self, i: int, rows: Int64s, min_ends: Sequence[int] | None = None) -> list[Tuples]:
        """The results of the plain join that are within the windows."""
        found = super()._pipeline(i, rows, min_ends)
        return [self._mine(t.where(self._graph.holds(self._times(t)))) for t in found]

    def _times(self, tuples: Tuples) -> list[Int64s]:
        return [self._inputs.life(i, tuples.rows[i])[0] for i in range(len(self._graph))]

    def _mine(self, tuples: Tuples) -> Tuples:
        """The results of this partition: those whose earliest row is in one of its slices of time."""
        if not self._own or not len(tuples):
            return tuples
        earliest = np.argmin(np.stack(self._times(tuples)), axis=0)
        mine = np.zeros(len(tuples), np.bool_)
        for i, column in enumerate(self._own):
            at = np.flatnonzero(earliest == i)
            mine[at] = np.asarray(self._inputs.gather(tuples, column, at))
        return tuples.where(mine)

    @property
    def work(self) -> Work:
        """What all sweeps together have done."""
        return sum((s.work for some in self._sweeps.values() for s in some), Work())

    def measure(self) -> Iterator[Reading]:
        yield from super().measure()
        work = self.work
        yield from under(
            "algorithm",
            Kind.ADAPTIVE,
            [
                *self._choice.measure(),
                Reading(Property.COMPARED, work.compared),
                Reading(Property.TESTED, work.tested),
            ],
        )


def _near(graph: WindowGraph) -> float:
    """The mean share of a buffer that is within the window of the row that looks at it."""
    pairs = permutations(range(len(graph)), 2)
    return fmean((graph.bounds[j][i] + 1) / (graph.reach(j) + 1) for i, j in pairs)
