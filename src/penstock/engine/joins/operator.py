"""A running join: the new rows of each input go through its pipeline, and so do the rows that ended.

``operators/mjoin.py`` defines the result and describes the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk, Int64s, Pattern, batch_of
from penstock.engine.joins.adaptive_caching import AdaptiveCaches
from penstock.engine.joins.caching import JoinCaches
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.pipeline import Pipeline
from penstock.engine.joins.retention import Retention
from penstock.engine.joins.tuples import Tuples
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Clock, Operator
from penstock.engine.synopses.store import Stores
from penstock.measurement import Kind, Property, Reading, order, under

if TYPE_CHECKING:
    from penstock.engine.operators.mjoin import MJoin


class JoinOperator(Operator):
    """A running join; ``stores`` are the engine's, None if the join keeps all rows in its own stores."""

    format = 2
    saved: ClassVar[tuple[str, ...]] = ("_inputs", "retention")

    def __init__(self, node: MJoin, stores: Stores | None, ids: bool = False) -> None:
        """``ids``: whether stores also keep the ids of rows and whether they probe."""
        self._node = node
        self._schema = node.schema
        self._changing = node.pattern is Pattern.CHANGING
        self._inputs = self._new_inputs(stores, ids)
        self.retention = self._new_retention()
        self._ends_later = [self._changing or i in node.tables for i in range(len(node.parts))]
        self.caches = self._new_caches()
        self._pipelines = [
            Pipeline(self._inputs, i, node.filters, self.caches) for i in range(len(node.parts))
        ]
        if self.caches is not None:
            self.caches.pipelines = self._pipelines
        self._results = 0

    def _new_inputs(self, stores: Stores | None, ids: bool) -> JoinInputs:
        node = self._node
        given = [2 if ids else int(self._changing or i in node.tables) for i in range(len(node.parts))]
        return JoinInputs(
            stores, node.parts, node.classes, node.residual, node.output, node.bands, node.chooser, given,
            node.passing
        )  # fmt: skip

    def _new_retention(self) -> Retention:
        """How long the rows of the inputs are kept."""
        return Retention(self._inputs)

    def _new_caches(self) -> JoinCaches | None:
        """Where the join's plan may have caches."""
        if self._node.cache_memory is None or not self._node.may_cache:
            return None
        later = [i for i, later in enumerate(self._ends_later) if later]
        return AdaptiveCaches(self._inputs, later, self._node.cache_memory)

    def configure(self, knobs: Knobs) -> None:
        for pipeline in self._pipelines:
            pipeline.filters.configure(knobs)
        self._inputs.use_method(knobs.access_method)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        parts = len(self._inputs)
        self.retention.counted(inputs[parts:])
        out = self._join(inputs[:parts], clock)
        self.retention.settle(clock)
        self._inputs.reconsider()
        if self.caches is not None:
            self.caches.settle()
        self._results += len(out)
        return out

    def _join(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        """New rows of each input probe the others; then, where ends are not known on arrival, the rows that
        ended.
        """
        gone = [c.where(c.sign < 0) if self._ends_later[i] else c.slice(0, 0) for i, c in enumerate(inputs)]
        ended = [self._inputs.end(i, chunk) for i, chunk in enumerate(gone)]
        chunks = list(self._corrections([rows for rows, _ in ended])) if self._node.corrects else []
        for i in (*self._node.tables, *self._node.moving):
            entering = self.retention.admitted(i, inputs[i].where(inputs[i].sign > 0), clock.now)
            new = self._inputs.insert(i, entering)
            if len(gone[i]):
                # Rows that arrived and left in this step are found only now.
                here = self._inputs.end(i, gone[i].where(~ended[i][1]))
                ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
            self.retention.arrived(i, new)
            with nullcontext() if self.caches is None else self.caches.updating(i, new):
                found = self._pipeline(i, self._probing(i, new))
            chunks += [self._chunk(t, t.starts, 1) for t in found]
        for i, (rows, _) in enumerate(ended if self._changing else ()):
            chunks += [self._chunk(t, t.ends, -1) for t in self._pipeline(i, rows, self._ended_by(i, clock))]
        out = Chunk.concat(chunks, self._schema)
        return out.in_order() if self._changing else out

    def _probing(self, i: int, new: Int64s) -> Int64s:
        """The new rows of input i that probe. Rows of a table do so if they entered it later than the others,
        and if results belong to every instant at which their rows are there.
        """
        if i not in self._node.tables:
            return new
        if self._node.pattern is Pattern.APPEND:
            return new[:0]
        return new[self._inputs.life(i, new)[0] > BEFORE_TIME]

    def _corrections(self, ended: Sequence[Int64s]) -> Iterator[Chunk]:
        """− elements of the results that end earlier than was known when they were returned, since rows left
        tables in this step; a result of several such rows is found by the first of them.
        """
        tables = self._node.tables
        for i in (i for i in tables if len(ended[i])):
            for tuples in self._pipeline(i, ended[i]):
                known, first = np.full(len(tuples), FOREVER), np.ones(len(tuples), np.bool_)
                for j, rows in tuples.rows.items():
                    leaves = np.isin(rows, ended[j]) if j in tables else np.zeros(len(rows), np.bool_)
                    known = np.where(leaves, known, np.minimum(known, self._inputs.life(j, rows)[1]))
                    first &= ~leaves if j < i else True
                wrong = first & (known > tuples.ends)
                yield self._chunk(tuples.where(wrong), tuples.ends[wrong], -1, end=known[wrong])

    def _ended_by(self, i: int, clock: Clock) -> list[int]:
        """For ended rows of input i: rows of inputs before it must be alive, so a combination ends once."""
        return [clock.now if j < i else clock.before for j in range(len(self._inputs))]

    def _pipeline(self, i: int, rows: Int64s, min_ends: Sequence[int] | None = None) -> list[Tuples]:
        """Join rows of input i with all others."""
        found = self._pipelines[i].run(rows, min_ends or [int(BEFORE_TIME)] * len(self._inputs))
        if self._node.pattern is Pattern.APPEND and self._inputs.tables_changed():
            found = list(map(self._as_of_their_instant, found))
        for tuples in found if min_ends is None else ():
            self.retention.found(tuples)
        return found

    def _as_of_their_instant(self, tuples: Tuples) -> Tuples:
        """The tuples whose rows of tables are there at the instant of the last other row."""
        starts = [self._inputs.life(j, tuples.rows[j])[0] for j in self._node.moving]
        return tuples.where(tuples.starts == np.maximum.reduce(starts))

    def _chunk(
        self,
        tuples: Tuples,
        ts: Int64s,
        sign: int,
        more: Sequence[pa.Array] = (),
        end: Int64s | None = None,
        inputs: JoinInputs | None = None,
    ) -> Chunk:
        """Tuples as elements; ``more``: further columns. ``end``: of a correction, the end that was known
        before. ``inputs``: where their rows are, if elsewhere.
        """
        rows = inputs or self._inputs
        columns = [*(rows.gather(tuples, c) for c in self._node.output), *more]
        payload = batch_of(columns, self._schema, len(ts))
        if self._node.pattern is not Pattern.EXPIRING:
            end = None
        elif end is None:
            end = tuples.ends
        return Chunk(ts, np.full(len(ts), sign, np.int8), payload, end)

    def horizon(self) -> int:
        return self._inputs.oldest() if self.retention.is_replayable else int(BEFORE_TIME)

    def rows(self) -> int:
        return sum(len(s) for s in self._inputs.owned) + self.retention.rows()

    def bytes(self) -> int:
        return sum(s.nbytes() for s in self._inputs.owned) + self.retention.bytes() + self.spare_bytes()

    def spare_bytes(self) -> int:
        return 0 if self.caches is None else self.caches.bytes()

    def allow(self, spare: int) -> None:
        if self.caches is not None:
            self.caches.allow(spare)

    def measure(self) -> Iterator[Reading]:
        probes = sum(self._inputs.probes)
        yield Reading(Property.PROBES, probes)
        if probes:
            yield Reading(Property.MATCHES_PER_PROBE, sum(self._inputs.matches) / probes)
        for i, label in enumerate(self._node.labels):
            yield from under(label, Kind.WINDOW, self._measure_input(i))
        yield from self._inputs.measure(self._node.labels)
        if self.caches is not None:
            yield from self.caches.measure(self._node.labels)
        yield from self.retention.measure(self._node.labels)

    def _measure_input(self, i: int) -> Iterator[Reading]:
        """The measurements of a window, and the order in which its tuples probe the others."""
        store, pipeline, labels = self._inputs.stubs[i].store, self._pipelines[i], self._node.labels
        yield Reading(Property.ROWS, len(store))
        own = [Reading(Property.PROBES, self._inputs.probes[i]), *order(pipeline.shown(labels))]
        if pipeline.filters.drops:
            own += pipeline.filters.filters.measure(pipeline.filters.names(labels))
        yield from under("order", Kind.ADAPTIVE, own)
        if pipeline.filters.drops:
            joins = pipeline.filters.names(labels)[: len(pipeline.filters.ends)]
            yield from under("matches", Kind.ADAPTIVE, pipeline.filters.matching.measure(joins))
