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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s, Pattern, batch_of
from penstock.engine.joins.bands import Band
from penstock.engine.joins.inputs import JoinInputs, KeyClass
from penstock.engine.joins.pipeline import Pipeline
from penstock.engine.joins.shedding import Monitor, Sheds, ShedsRows, ShedStep, choose_probing, later
from penstock.engine.joins.tuples import Tuples
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.snapshot import Pickled, State
from penstock.engine.synopses.store import Stores
from penstock.expression import Expression, columns
from penstock.measurement import Kind, Property, Reading, order, under
from penstock.streamon.access import Chooser


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
        return JoinOperator(self, context.stores if self.shedding is None else None)


class JoinOperator(Operator):
    """A running join; ``stores`` are the engine's, None if the join has to keep all of its rows itself."""

    saved = ("_inputs",)
    _given = 0

    def __init__(self, node: MJoin, stores: Stores | None) -> None:
        self._node = node
        self._schema = node.schema
        self._changing = node.pattern is Pattern.CHANGING
        given = 2 if self._changing and node.shedding is not None else max(int(self._changing), self._given)
        self._inputs = JoinInputs(
            stores, node.parts, node.classes, node.residual, node.output, node.bands, node.chooser, given
        )
        self._pipelines = [Pipeline(self._inputs, i, node.filters) for i in range(len(node.parts))]
        self._sheds = node.shedding.start() if node.shedding is not None else None
        self._monitor: Monitor | None = None
        if self._sheds is not None and node.classes:
            whole = JoinOperator(replace(node, shedding=None, output=()), None)
            self._monitor = Monitor(whole, node.classes[0], self._inputs)

    def state(self) -> dict[str, State]:
        return super().state() if self._sheds is None else {"all": Pickled.of(vars(self))}

    def _load(self, state: dict[str, State]) -> None:
        if "all" not in state:
            return super()._load(state)
        vars(self).update(state["all"].attributes())

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        if self._changing and self._sheds is not None:
            out = self._run_probing_some(inputs, clock, self._sheds)
        elif self._sheds is not None:
            out = self._run_shedding(inputs, clock, self._sheds)
        else:
            out = self._run_all(inputs, clock)
        # What ends at ``now`` stays a tick longer: it may yet cancel what enters just then.
        self._inputs.advance(clock.now)
        self._inputs.reconsider()
        return out

    def _run_all(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        """New rows probe one input after the other; then, where ends are learned, the rows that ended."""
        gone = [c.where(c.sign < 0) if self._changing else c.slice(0, 0) for c in inputs]
        ended = [self._inputs.end(i, chunk) for i, chunk in enumerate(gone)]
        chunks = []
        for i, chunk in enumerate(inputs):
            new = self._inputs.insert(i, chunk.where(chunk.sign > 0))
            # Rows that came and went in this step are found only now.
            here = self._inputs.end(i, gone[i].where(~ended[i][1]))
            ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
            chunks += [self._chunk(t, t.starts, 1) for t in self._pipeline(i, new)]
        for i, (rows, _) in enumerate(ended):
            chunks += [self._chunk(t, t.ends, -1) for t in self._pipeline(i, rows, self._ended_by(i, clock))]
        out = Chunk.concat(chunks, self._schema)
        return out.in_order() if self._changing else out

    def _ended_by(self, i: int, clock: Clock) -> list[int]:
        """For rows of input i that ended: rows of inputs before it must still be there, so a pair is once."""
        return [clock.now if j < i else clock.before for j in range(len(self._inputs))]

    def _run_probing_some(self, inputs: Sequence[Chunk], clock: Clock, sheds: Sheds) -> Chunk:
        """Row windows of which not every row probes; what was not found is not taken back."""
        gone, come = ([c.where(c.sign * sign > 0) for c in inputs] for sign in (-1, 1))
        ended = [self._inputs.end(i, chunk) for i, chunk in enumerate(gone)]
        probing = choose_probing(sheds, self._inputs, [c.ts for c in come], clock.share)
        new = []
        for i, (chunk, (probes, enters)) in enumerate(zip(come, probing, strict=True)):
            new.append(self._inputs.insert(i, chunk.where(enters), probes[enters]))
            here = self._inputs.end(i, gone[i].where(~ended[i][1]))
            ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
        if self._monitor is not None:
            self._monitor.arrived(inputs, clock)
        chunks = []
        for i, rows in enumerate(new):
            for t in self._pipeline(i, rows[self._inputs.probing(i, rows)]):
                found = t.where(later(self._inputs, i, t.rows[i], t.rows[1 - i]))
                if self._monitor is not None:
                    self._monitor.found(i, found.rows[i])
                chunks.append(self._chunk(found, found.starts, 1))
        for i, (rows, _) in enumerate(ended):
            for t in self._pipeline(i, rows, self._ended_by(i, clock)):
                own, other = (self._inputs.probing(k, t.rows[k]) for k in (i, 1 - i))
                was = np.where(later(self._inputs, i, t.rows[i], t.rows[1 - i]), own, other)
                chunks.append(self._chunk(t.where(was), t.where(was).ends, -1))
        return Chunk.concat(chunks, self._schema).in_order()

    def _run_shedding(self, inputs: Sequence[Chunk], clock: Clock, sheds: Sheds) -> Chunk:
        rows = [self._inputs.insert(i, c) for i, c in enumerate(inputs)]
        step = ShedStep(sheds, self._inputs, rows, clock.share)
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

    def _pipeline(self, i: int, rows: Int64s, min_ends: Sequence[int] | None = None) -> list[Tuples]:
        """Join rows of input i with all others."""
        return self._pipelines[i].run(rows, min_ends or [int(BEFORE_TIME)] * len(self._inputs))

    def _chunk(self, tuples: Tuples, ts: Int64s, sign: int) -> Chunk:
        payload = batch_of([self._inputs.gather(tuples, c) for c in self._node.output], self._schema, len(ts))
        end = tuples.ends if self._node.pattern is Pattern.EXPIRING else None
        return Chunk(ts, np.full(len(ts), sign, np.int8), payload, end)

    def horizon(self) -> int:
        # What chance has left out is not found again from the rows of a window: all of it is needed.
        return int(BEFORE_TIME) if self._sheds is not None else self._inputs.oldest()

    def rows(self) -> int:
        return sum(len(s) for s in self._inputs.owned) + (self._monitor.rows() if self._monitor else 0)

    def bytes(self) -> int:
        return sum(s.nbytes() for s in self._inputs.owned) + (self._monitor.bytes() if self._monitor else 0)

    def measure(self) -> Iterator[Reading]:
        yield Reading(Property.PROBES, sum(self._inputs.probes))
        for i, label in enumerate(self._node.labels):
            yield from under(label, Kind.STORE, self._measure_input(i))
        yield from self._inputs.measure(self._node.labels)
        yield from self._measure_budget()

    def _measure_input(self, i: int) -> Iterator[Reading]:
        """A window, and the order in which its tuples probe the others."""
        store, pipeline, labels = self._inputs.stubs[i].store, self._pipelines[i], self._node.labels
        yield Reading(Property.ROWS, len(store))
        yield Reading(Property.BYTES, store.nbytes())
        own = [Reading(Property.PROBES, self._inputs.probes[i]), *order(pipeline.shown(labels))]
        if pipeline.filters.drops:
            own += pipeline.filters.filters.measure(pipeline.filters.names(labels))
        yield from under("order", Kind.ADAPTIVE, own)

    def _measure_budget(self) -> Iterator[Reading]:
        if self._sheds is not None:
            yield from self._sheds.measure(self._node.labels)
        if self._monitor is not None:
            yield from under("budget", Kind.ADAPTIVE, self._monitor.measure())
