"""mjoin: the multiway join, one pipeline of probes for each input (thesis section 5.1).

What is right: at every instant τ the output relation is the join of the input relations at τ. A joined
tuple is there while all its parts are, so its life runs from the latest start of its parts to the
earliest end, and it exists if that is not empty.

How: rows keep their life ``[start, end)`` in the store of their input. In a step the inputs are taken
one after the other; the new rows of an input probe the stores of the others, in which inputs before it
have this step's rows already and inputs after it do not, so each combination is found once, by its last
part. Where ends are known on arrival (time windows) that is all: a joined tuple carries its end and
nothing is probed again. Where ends are learned later (row windows) each − element sets the end of its
row, and in a second pass the rows that ended in this step probe for the combinations they end: those in
which they are the first input to end.

Keys are equivalence classes of columns, so that C.pid = B.pid AND B.pid = O.pid lets C probe O. A probe
uses all classes that join the next input to the parts found so far. A NULL key joins nothing.

Where equalities lead from an input to two or more others, its rows first go through drop probing, which asks
of each of those only whether the path to it has a match, in an order that adapts to the stream (thesis 5.2).
Output generation goes on from what drop probing found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.conjunction import passes_all
from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s, Pattern, batch_of
from penstock.engine.evaluate import true_mask
from penstock.engine.indexes.index import Matches
from penstock.engine.joins.bands import Band
from penstock.engine.joins.drop_probing import DropProbing
from penstock.engine.joins.inputs import JoinInputs, KeyClass
from penstock.engine.joins.pipeline import Pipeline
from penstock.engine.joins.shedding import Monitor, Sheds, ShedsRows, ShedStep, choose_probing, later
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.snapshot import Pickled, State
from penstock.engine.synopses.directory import same_rows
from penstock.errors import DataError
from penstock.expression import Expression, columns
from penstock.streamon.access import Chooser
from penstock.streamon.settings import SLICE_TUPLES as SLICE


@dataclass(frozen=True)
class MJoin(Node):
    """Joins ``parts`` on ``classes``, ``bands`` and ``residual`` predicates; ``output`` are its columns.

    ``filters`` is the algorithm that orders the probes; ``chooser`` knows what access methods cost.
    ``shedding`` keeps a join of two windows inside a budget.
    """

    parts: tuple[Node, ...]
    labels: tuple[str, ...]
    classes: tuple[KeyClass, ...]
    residual: tuple[Expression, ...]
    output: tuple[str, ...]
    filters: str = field(default="a-greedy", repr=False)
    bands: tuple[Band, ...] = ()
    chooser: Chooser | None = field(default=None, repr=False, compare=False)
    shedding: ShedsRows | None = None

    name = "mjoin"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The joined relations."""
        return self.parts

    @property
    def schema(self) -> pa.Schema:
        """The output columns."""
        fields = {f.name: f for part in self.parts for f in part.schema}
        return pa.schema([fields[name] for name in self.output])

    @property
    def pattern(self) -> Pattern:
        """The least orderly of its inputs'."""
        patterns = {p.pattern for p in self.parts}
        for pattern in (Pattern.CHANGING, Pattern.EXPIRING):
            if pattern in patterns:
                return pattern
        return Pattern.APPEND

    @property
    def adapts(self) -> bool:
        """Whether there is an order to change."""
        own = [r for r in self.residual for p in self.parts if columns(r) <= set(p.schema.names)]
        return (len(self.parts) > 2 or bool(own)) and self.filters != "static"

    def describe(self) -> str:
        """The predicates it joins on."""
        keys = [" = ".join(column for _, column in c) for c in self.classes]
        bands = [str(b) for b in self.bands if not b.floating]
        said = " AND ".join([*keys, *bands, *(str(r) for r in self.residual)]) or "every pair"
        return said if self.shedding is None else f"{said}, {self.shedding}"

    def start(self, context: StartContext) -> Operator:
        """One store and one pipeline an input."""
        return _MJoin(self, context)


@dataclass
class _Tuples:
    """Joined tuples under way: the row each bound input contributes, and the life left to them."""

    rows: dict[int, Int64s]
    starts: Int64s
    ends: Int64s
    at: dict[int, Int64s] = field(default_factory=dict)
    """For bound inputs that others follow on a path of drop probing: the entry there."""
    late: frozenset[int] = frozenset()
    """Inputs of which an own predicate failed: all of theirs are tried again when the tuple is whole."""

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, mask: Bools) -> _Tuples:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, places: Int64s) -> _Tuples:
        rows = {i: r[places] for i, r in self.rows.items()}
        at = {i: r[places] for i, r in self.at.items()}
        return _Tuples(rows, self.starts[places], self.ends[places], at, self.late)


class _MJoin(Operator):
    saved = ("_stores",)

    def __init__(self, node: MJoin, context: StartContext) -> None:
        self._node = node
        self._schema = node.schema
        self._changing = node.pattern is Pattern.CHANGING
        self._owner = {f.name: i for i, p in enumerate(node.parts) for f in p.schema}
        read = set(node.output).union(*(columns(r) for r in node.residual))
        some_probe = self._changing and node.shedding is not None
        self._joined = JoinInputs(
            context.stores, node.parts, node.classes, read, node.bands, node.chooser, some_probe
        )
        self._stores = self._joined.stores
        self._reads = [{self._owner[c] for c in columns(r)} for r in node.residual]
        self._pipelines = [
            Pipeline(self._joined, i, self._own(i), node.filters) for i in range(len(node.parts))
        ]
        self._probes = [0] * len(node.parts)
        self._results = 0
        self._sheds = node.shedding.start() if node.shedding is not None else None
        self._monitor: Monitor | None = None
        if self._sheds is not None and node.classes:
            self._monitor = Monitor(replace(node, shedding=None, output=()).start(context), self._joined)

    def state(self) -> dict[str, State]:
        return super().state() if self._sheds is None else {"all": Pickled.of(vars(self))}

    def _load(self, state: dict[str, State]) -> None:
        if "all" not in state:
            return super()._load(state)
        vars(self).update(state["all"].attributes())

    def _own(self, i: int) -> list[Expression]:
        """The predicates that read input i alone."""
        return [p for p, reads in zip(self._node.residual, self._reads, strict=True) if reads == {i}]

    def order(self, i: int) -> list[int]:
        """Input i's probe order now: what equalities lead to as StreaMon has it, then the others.

        After them goes next what an equality joins to the parts at hand, else what a predicate does.
        """
        order = self._pipelines[i].order()
        left = [j for j in range(len(self._stores)) if j != i and j not in order]
        while left:
            bound = {i, *order}
            best = max(left, key=lambda j: (len(self._joined.shared(j, bound)), self._linked(j, bound), -j))
            order.append(best)
            left.remove(best)
        return order

    def _linked(self, j: int, bound: set[int]) -> bool:
        reads = [*self._reads, *(b.inputs for b in self._node.bands)]
        return any(j in r and r - {j} <= bound for r in reads)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        if self._changing and self._sheds is not None:
            out = self._run_probing_some(inputs, clock, self._sheds)
        elif self._changing:
            out = self._run_changing(inputs, clock)
        elif self._sheds is not None:
            out = self._run_shedding(inputs, clock, self._sheds)
        else:
            found = [self._pipeline(i, self._joined.insert(i, chunk)) for i, chunk in enumerate(inputs)]
            chunks = [self._chunk(t, t.starts, 1) for parts in found for t in parts]
            out = Chunk.concat(chunks, self._schema)
        for store in self._stores:
            # What ends at ``now`` stays a tick longer: it may yet cancel what enters just then.
            store.expire(max(clock.now, BEFORE_TIME + 1) - 1)
        self._joined.reconsider()
        self._results += len(out)
        return out

    def _run_changing(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        gone = [c.where(c.sign < 0) for c in inputs]
        ended = [self._joined.end(i, chunk) for i, chunk in enumerate(gone)]
        chunks = []
        for i, chunk in enumerate(inputs):
            new = self._joined.insert(i, chunk.where(chunk.sign > 0))
            # Rows that came and went in this step are found only now.
            here = self._joined.end(i, gone[i].where(~ended[i][1]))
            ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
            chunks += [self._chunk(t, t.starts, 1) for t in self._pipeline(i, new)]
        for i, (rows, _) in enumerate(ended):
            least = [FOREVER if j < i else clock.before for j in range(len(self._stores))]
            chunks += [self._chunk(t, t.ends, -1) for t in self._pipeline(i, rows, least)]
        return Chunk.concat(chunks, self._schema).in_order()

    def _run_probing_some(self, inputs: Sequence[Chunk], clock: Clock, sheds: Sheds) -> Chunk:
        """Row windows of which not every row probes; what was not found is not taken back."""
        gone, come = ([c.where(c.sign * sign > 0) for c in inputs] for sign in (-1, 1))
        ended = [self._joined.end(i, chunk) for i, chunk in enumerate(gone)]
        probing = choose_probing(sheds, self._stores, [c.ts for c in come], clock.share)
        new = []
        for i, (chunk, (probes, enters)) in enumerate(zip(come, probing, strict=True)):
            new.append(self._joined.insert(i, chunk.where(enters), probes[enters]))
            here = self._joined.end(i, gone[i].where(~ended[i][1]))
            ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
        if self._monitor is not None:
            self._monitor.arrived(inputs, clock)
        chunks = []
        for i, rows in enumerate(new):
            for t in self._pipeline(i, rows[self._joined.probes(i, rows)]):
                found = t.where(later(self._stores, i, t.rows[i], t.rows[1 - i]))
                if self._monitor is not None:
                    self._monitor.found(i, found.rows[i])
                chunks.append(self._chunk(found, found.starts, 1))
        for i, (rows, _) in enumerate(ended):
            least = [FOREVER if j < i else clock.before for j in range(2)]
            for t in self._pipeline(i, rows, least):
                own, other = (self._joined.probes(k, t.rows[k]) for k in (i, 1 - i))
                was = np.where(later(self._stores, i, t.rows[i], t.rows[1 - i]), own, other)
                chunks.append(self._chunk(t.where(was), t.where(was).ends, -1))
        return Chunk.concat(chunks, self._schema).in_order()

    def _run_shedding(self, inputs: Sequence[Chunk], clock: Clock, sheds: Sheds) -> Chunk:
        rows = [self._joined.insert(i, c) for i, c in enumerate(inputs)]
        step = ShedStep(sheds, self._stores, rows, clock.share)
        if self._monitor is not None:
            self._monitor.arrived(inputs, clock)
        chunks = []
        for i in range(len(inputs)):
            for tuples in self._pipeline(i, step.probing(i)):
                found = tuples.where(step.found(i, tuples.rows[i], tuples.rows[1 - i]))
                if self._monitor is not None:
                    self._monitor.found(i, found.rows[i])
                chunks.append(self._chunk(found, found.starts, 1))
        step.forget(sheds, max(clock.now, BEFORE_TIME + 1) - 1)
        return Chunk.concat(chunks, self._schema)

    def _pipeline(self, i: int, rows: Int64s, least: Sequence[int] | None = None) -> list[_Tuples]:
        """Join rows of input i with all others in its probe order, in slices that the order may change after.

        ``least[j]``: rows of input j whose life ended before that do not count.
        """
        least = least or [int(BEFORE_TIME)] * len(self._stores)
        pipeline = self._pipelines[i]
        if not pipeline.drops:
            return [self._verified(self._generate(i, self._begin(i, rows), None, least))]
        return [self._two_phases(i, rows[at : at + SLICE], least) for at in range(0, len(rows), SLICE)]

    def _begin(self, i: int, rows: Int64s) -> _Tuples:
        """Rows of input i, less what predicates drop that no pipeline of filters evaluates."""
        own = {i} if self._pipelines[i].drops else set()
        return self._residual(_Tuples({i: rows}, *self._stores[i].life(rows)), own)

    def _two_phases(self, i: int, rows: Int64s, least: Sequence[int]) -> _Tuples:
        """Drop probing, then output generation that goes on from it (thesis 5.2.2)."""
        tuples, pipeline = self._begin(i, rows), self._pipelines[i]
        lives = tuples.rows[i], tuples.starts, tuples.ends
        probing = DropProbing(self._joined, i, pipeline.parents, lives, least)

        def read(column: str, places: Int64s) -> pa.Array:
            return self._gather(tuples, column, places)

        kept = pipeline.survivors(probing, len(tuples), read)
        self._probes[i] += probing.probes
        survivors = replace(tuples, at={i: np.arange(len(tuples))}).take(kept)
        return self._verified(self._generate(i, survivors, probing, least))

    def _generate(
        self, i: int, tuples: _Tuples, probing: DropProbing | None, least: Sequence[int]
    ) -> _Tuples:
        for j in self.order(i):
            if not len(tuples):
                break
            tuples = self._probe(tuples, i, j, probing, least[j])
        return self._with_all_bound(tuples)

    def _with_all_bound(self, tuples: _Tuples) -> _Tuples:
        """Nothing is left of tuples that no probe looked at any more."""
        for j in range(len(self._stores)):
            tuples.rows.setdefault(j, np.empty(0, np.int64))
        return tuples

    def _probe(self, tuples: _Tuples, i: int, j: int, probing: DropProbing | None, least: int) -> _Tuples:
        """Join tuples of input i's pipeline with input j."""
        bound = set(tuples.rows)
        classes = self._joined.shared(j, bound)
        life = tuples.starts, tuples.ends
        entries = None
        if probing is not None and j in self._pipelines[i].parents:
            above = tuples.at[self._pipelines[i].parents[j]]
            places, rows, starts, ends, entries = probing.matches(j, above, *life)
        elif classes:
            index = self._joined.index(j, classes, len(tuples))
            keys, valid = index.prepare([self._key_of(tuples, c) for c in classes])
            places, rows, starts, ends = index.probe(self._stores[j], keys, valid, *life, least)
            self._probes[i] += len(tuples)
        else:
            places, rows, starts, ends = self._probe_band(tuples, i, j, least)
        joined = replace(tuples.take(places), starts=starts, ends=ends)
        joined.rows[j] = rows
        if entries is not None:
            joined.at[j] = entries
        joined = self._near(self._same_keys(joined, j, bound, classes), j, bound)
        return self._residual(joined, bound)

    def _probe_band(self, tuples: _Tuples, i: int, j: int, least: int) -> Matches:
        """What joins tuples by the first band into input j; with none, everything there."""
        store, life = self._stores[j], (tuples.starts, tuples.ends)
        every = np.ones(len(tuples), np.bool_)
        bands = self._joined.bands_into(j, tuples.rows)
        if not bands:
            return store.index(()).probe(store, tuples.starts, every, *life, least)
        lows, highs = self._bounds(tuples, bands[0])
        self._probes[i] += len(tuples)
        index = self._joined.range_index(bands[0].left, len(tuples))
        return index.probe_range(store, lows, highs, every, *life, least)

    def _bounds(self, tuples: _Tuples, band: Band) -> tuple[Int64s, Int64s]:
        return band.bounds(self._joined.order_keys(band.right, tuples.rows[band.right[0]]))

    def _near(self, joined: _Tuples, j: int, bound: set[int]) -> _Tuples:
        """Compare the keys of all bands into input j: a probe uses one of them at most."""
        for band in self._joined.bands_into(j, bound):
            lows, highs = self._bounds(joined, band)
            keys = self._joined.order_keys(band.left, joined.rows[j])
            joined = joined.where((lows <= keys) & (keys <= highs))
        return joined

    def _same_keys(self, joined: _Tuples, j: int, bound: set[int], classes: Sequence[int]) -> _Tuples:
        """Compare all keys: a combined one is a hash, and a path uses only those of its inputs."""
        if len(classes) < 2:
            return joined
        before = replace(joined, rows={i: r for i, r in joined.rows.items() if i in bound})
        same = [self._key_of(before, c)[0] == self._joined.key(j, c, joined.rows[j])[0] for c in classes]
        return joined.where(np.logical_and.reduce(same))

    def _key_of(self, tuples: _Tuples, c: int) -> tuple[Int64s, Bools]:
        i = next(i for i in tuples.rows if i in self._joined.column[c])
        return self._joined.key(i, c, tuples.rows[i])

    def _residual(self, tuples: _Tuples, before: set[int]) -> _Tuples:
        """Apply the predicates that can be evaluated now and could not before."""
        for predicate, reads in zip(self._node.residual, self._reads, strict=True):
            if reads <= tuples.rows.keys() and not (reads and reads <= before):
                known = {c: self._gather(tuples, c) for c in columns(predicate)}
                try:
                    tuples = tuples.where(np.asarray(true_mask(predicate, known, len(tuples))))
                except DataError:
                    if len(reads) != 1:
                        raise
                    tuples = replace(tuples, late=tuples.late | reads)
        return tuples

    def _verified(self, tuples: _Tuples) -> _Tuples:
        """Compare on the real columns what was matched by hash, and evaluate what is late."""
        for c, members in enumerate(self._joined.column):
            if not self._joined.exact[c]:
                values = [self._gather(tuples, column) for column in members.values()]
                same = [same_rows([values[0]], [v], len(tuples)) for v in values[1:]]
                tuples = tuples.where(np.logical_and.reduce(same))
        for i in tuples.late:
            tuples = tuples.where(passes_all(self._own(i), self._stores[i].gather, tuples.rows[i]))
        return tuples

    def _gather(self, tuples: _Tuples, column: str, places: Int64s | None = None) -> pa.Array:
        i = self._owner[column]
        rows = tuples.rows[i]
        return self._stores[i].gather(column, rows if places is None else rows[places])

    def _chunk(self, tuples: _Tuples, ts: Int64s, sign: int) -> Chunk:
        payload = batch_of([self._gather(tuples, c) for c in self._node.output], self._schema, len(ts))
        end = tuples.ends if self._node.pattern is Pattern.EXPIRING else None
        return Chunk(ts, np.full(len(ts), sign, np.int8), payload, end)

    def horizon(self) -> int:
        # What chance has left out is not found again from the rows of a window: all of it is needed.
        return int(BEFORE_TIME) if self._sheds is not None else min(s.oldest() for s in self._stores)

    def rows(self) -> int:
        return sum(len(s) for s in self._stores) + (self._monitor.rows() if self._monitor else 0)

    def bytes(self) -> int:
        return sum(s.nbytes() for s in self._stores) + (self._monitor.bytes() if self._monitor else 0)

    def _within(self) -> dict[str, Any]:
        if self._sheds is None:
            return {}
        told = self._sheds.metrics(self._node.labels, [len(s) for s in self._stores])
        return {"within": {**told, **(self._monitor.metrics() if self._monitor else {})}}

    def _shown_order(self, i: int) -> list[str]:
        steps = self._pipelines[i].steps()
        rest = [j for j in self.order(i) if j not in steps]
        return [self._node.labels[s] if isinstance(s, int) else str(s) for s in (*steps, *rest)]

    def metrics(self) -> dict[str, Any]:
        labels = self._node.labels
        return {
            "orders": {label: self._shown_order(i) for i, label in enumerate(labels)},
            "streamon": {
                labels[i]: p.filters.metrics(p.names(labels))
                for i, p in enumerate(self._pipelines)
                if p.drops
            },
            "windows": {labels[i]: len(s) for i, s in enumerate(self._stores)},
            "access": self._joined.access(labels),
            "probes": sum(self._probes),
            "probes by input": dict(zip(labels, self._probes, strict=True)),
            "results": self._results,
            **self._within(),
        }
