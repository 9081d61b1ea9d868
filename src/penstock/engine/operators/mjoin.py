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

Where two or more inputs are joined to an input directly, its rows first go through drop probing, which asks
each of those windows only whether there is a match, in an order that adapts to the stream (thesis 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Bools, Chunk, Int64s, Pattern, batch_of
from penstock.engine.evaluate import true_mask
from penstock.engine.indexes.hash import HashIndex, Matches, combine
from penstock.engine.kernels.hashing import as_integers, hash_rows, validity
from penstock.engine.operator import Clock, Node, Operator
from penstock.engine.synopses.directory import same_rows
from penstock.engine.synopses.store import Store
from penstock.expression import Expression, columns
from penstock.streamon.pipelined_filters import PipelinedFilters

KeyClass = tuple[tuple[int, str], ...]
"""Columns that must be equal: (number of the input, name of its column), at most one an input."""


@dataclass(frozen=True)
class MJoin(Node):
    """Joins ``parts`` on ``classes`` and ``residual`` predicates; ``output`` are the columns it gives.

    ``filters`` is the algorithm that orders the probes.
    """

    parts: tuple[Node, ...]
    labels: tuple[str, ...]
    classes: tuple[KeyClass, ...]
    residual: tuple[Expression, ...]
    output: tuple[str, ...]
    filters: str = field(default="a-greedy", repr=False)

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

    def describe(self) -> str:
        """The predicates it joins on."""
        keys = [" = ".join(column for _, column in c) for c in self.classes]
        return " AND ".join([*keys, *(str(r) for r in self.residual)]) or "every pair"

    def start(self) -> Operator:
        """One store and one pipeline an input."""
        return _MJoin(self)


@dataclass
class _Tuples:
    """Joined tuples under way: the row each bound input contributes, and the life left to them."""

    rows: dict[int, Int64s]
    starts: Int64s
    ends: Int64s
    firsts: dict[int, Int64s] = field(default_factory=dict)
    """For inputs that drop probing has looked at: the first row that joins the tuple's own."""

    def where(self, mask: Bools) -> _Tuples:
        return self if mask.all() else self.at(np.flatnonzero(mask))

    def at(self, places: Int64s) -> _Tuples:
        rows = {i: r[places] for i, r in self.rows.items()}
        firsts = {i: r[places] for i, r in self.firsts.items()}
        return _Tuples(rows, self.starts[places], self.ends[places], firsts)


class _MJoin(Operator):
    def __init__(self, node: MJoin) -> None:
        self._node = node
        self._schema = node.schema
        self._changing = node.pattern is Pattern.CHANGING
        self._owner = {f.name: i for i, p in enumerate(node.parts) for f in p.schema}
        self._column = [dict(c) for c in node.classes]
        self._exact = [_fits_integer(node, c) for c in node.classes]
        self._mine = [
            [c for c, members in enumerate(self._column) if i in members] for i in range(len(node.parts))
        ]
        self._kept = [_stored_schema(node, i, self._exact) for i in range(len(node.parts))]
        # The last key of a store is the row id that − elements name.
        self._stores = [Store(s, keys=len(m) + 1) for s, m in zip(self._kept, self._mine, strict=True)]
        self._direct = [self._joined_directly(i) for i in range(len(node.parts))]
        self._filters = [PipelinedFilters(len(d), node.filters) if len(d) > 1 else None for d in self._direct]
        self._probes = self._results = 0

    def _joined_directly(self, i: int) -> list[int]:
        """Inputs that an equality joins to input i itself: those its rows can be drop-probed with."""
        return [j for j in range(len(self._stores)) if j != i and self._shared(j, {i})]

    def order(self, i: int) -> list[int]:
        """Input i's probe order now: directly joined ones as StreaMon has them, then what they lead to.

        After them goes next what an equality joins to the parts at hand, else what a predicate does.
        """
        filters = self._filters[i]
        order = [self._direct[i][f] for f in filters.order] if filters is not None else []
        left = [j for j in range(len(self._stores)) if j != i and j not in order]
        while left:
            bound = {i, *order}
            best = max(left, key=lambda j: (len(self._shared(j, bound)), self._linked(j, bound), -j))
            order.append(best)
            left.remove(best)
        return order

    def _shared(self, j: int, bound: set[int]) -> list[int]:
        """Classes that join input j to bound ones."""
        return [c for c in self._mine[j] if bound & self._column[c].keys()]

    def _linked(self, j: int, bound: set[int]) -> bool:
        reads = [{self._owner[c] for c in columns(r)} for r in self._node.residual]
        return any(j in r and r - {j} <= bound for r in reads)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        if self._changing:
            out = self._run_changing(inputs, clock)
        else:
            found = [self._pipeline(i, self._insert(i, chunk)) for i, chunk in enumerate(inputs)]
            out = Chunk.concat([self._chunk(t, t.starts, 1) for t in found], self._schema)
        for store in self._stores:
            # What ends at ``now`` stays a tick longer: it may yet cancel what enters just then.
            store.expire(max(clock.now, BEFORE_TIME + 1) - 1)
        self._results += len(out)
        return out

    def _run_changing(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        gone = [c.where(c.sign < 0) for c in inputs]
        ended = [self._end(i, chunk) for i, chunk in enumerate(gone)]
        chunks = []
        for i, chunk in enumerate(inputs):
            new = self._insert(i, chunk.where(chunk.sign > 0))
            # Rows that came and went in this step are found only now.
            here = self._end(i, gone[i].where(~ended[i][1]))
            ended[i] = (np.concatenate([ended[i][0], here[0]]), here[1])
            found = self._pipeline(i, new)
            chunks.append(self._chunk(found, found.starts, 1))
        for i, (rows, _) in enumerate(ended):
            least = [FOREVER if j < i else clock.before for j in range(len(self._stores))]
            found = self._pipeline(i, rows, least)
            chunks.append(self._chunk(found, found.ends, -1))
        return Chunk.concat(chunks, self._schema).in_order()

    def _end(self, i: int, gone: Chunk) -> tuple[Int64s, Bools]:
        """Set the end of the rows that − elements name: which rows, and which elements found theirs."""
        store = self._stores[i]
        if not len(gone):
            return np.empty(0, np.int64), np.ones(0, np.bool_)
        assert gone.rid is not None
        rows = store.index((len(self._mine[i]),)).find(store, gone.rid)  # type: ignore[union-attr]
        found = rows >= 0
        store.end(rows[found], gone.ts[found])
        return rows[found], found

    def _insert(self, i: int, chunk: Chunk) -> Int64s:
        """Store the + elements of input i; the rows they became. A NULL key never joins: not stored."""
        keys = [self._key(chunk, i, c) for c in self._mine[i]]
        if keys:
            usable = np.logical_and.reduce([valid for _, valid in keys])
            if not usable.all():
                chunk = chunk.where(usable)
                keys = [(k[usable], v[usable]) for k, v in keys]
        ends = chunk.end if chunk.end is not None else np.full(len(chunk), FOREVER)
        ids = chunk.rid if chunk.rid is not None else np.zeros(len(chunk), np.int64)
        every = [*keys, (ids, np.full(len(chunk), chunk.rid is not None))]
        return self._stores[i].insert(chunk.ts, ends, every, [chunk.column(f.name) for f in self._kept[i]])

    def _key(self, chunk: Chunk, i: int, c: int) -> tuple[Int64s, Bools]:
        column = chunk.column(self._column[c][i])
        keys = as_integers(column) if self._exact[c] else hash_rows([column], len(column))
        assert keys is not None
        return keys, validity(column)

    def _pipeline(self, i: int, rows: Int64s, least: Sequence[int] | None = None) -> _Tuples:
        """Join rows of input i with all others in its probe order.

        ``least[j]``: rows of input j whose life ended before that do not count.
        """
        least = least or [int(BEFORE_TIME)] * len(self._stores)
        tuples = _Tuples({i: rows}, *self._stores[i].life(rows))
        tuples = self._residual(tuples, None)
        filters = self._filters[i]
        if filters is not None:
            tuples = self._drop_probe(i, tuples, filters, least)
        self._probes += len(tuples.starts)
        for j in self.order(i):
            tuples = self._probe(tuples, i, j, least[j])
        return self._verified(tuples)

    def _drop_probe(
        self, i: int, tuples: _Tuples, filters: PipelinedFilters, least: Sequence[int]
    ) -> _Tuples:
        """The tuples that join at least one row of every directly joined input (thesis 5.2.2).

        A pipeline of filters, whose order adapts. The first match found is where the join goes on from.
        """
        direct = self._direct[i]
        keys = {j: combine([self._key_of(tuples, c) for c in self._shared(j, {i})]) for j in direct}
        firsts = {j: np.full(len(tuples.starts), -1, np.int64) for j in direct}

        def joins(f: int, rows: Int64s) -> Bools:
            j = direct[f]
            key, valid = keys[j]
            life = tuples.starts[rows], tuples.ends[rows]
            firsts[j][rows] = self._index(j, self._shared(j, {i})).first(
                self._stores[j], key[rows], valid[rows], *life, least[j]
            )
            return np.asarray(firsts[j][rows] >= 0)

        kept = filters.run(len(tuples.starts), joins)
        return replace(tuples, firsts=firsts).at(kept)

    def _index(self, j: int, classes: Sequence[int]) -> HashIndex:
        index = self._stores[j].index(tuple(self._mine[j].index(c) for c in classes))
        assert isinstance(index, HashIndex)
        return index

    def _probe(self, tuples: _Tuples, i: int, j: int, least: int) -> _Tuples:
        """Join tuples of input i's pipeline with input j."""
        bound = set(tuples.rows)
        classes = self._shared(j, bound)
        used = self._shared(j, {i}) if j in tuples.firsts else classes
        places, rows, starts, ends = self._matches(tuples, j, used, least)
        joined = replace(tuples.at(places), starts=starts, ends=ends)
        if len(classes) > 1:
            # A combined key is a hash, and drop probing used the keys of input i alone: compare them all.
            same = [
                self._key_of(joined, c)[0] == self._stores[j].key(self._mine[j].index(c), rows)[0]
                for c in classes
            ]
            kept = np.logical_and.reduce(same)
            joined, rows = joined.where(kept), rows[kept]
        joined.rows[j] = rows
        return self._residual(joined, bound)

    def _matches(self, tuples: _Tuples, j: int, classes: Sequence[int], least: int) -> Matches:
        store, life = self._stores[j], (tuples.starts, tuples.ends)
        if not classes:
            every = np.ones(len(tuples.starts), np.bool_)
            return store.index(()).probe(store, tuples.starts, every, *life, least)
        keys, valid = combine([self._key_of(tuples, c) for c in classes])
        index = self._index(j, classes)
        if j in tuples.firsts:
            return index.probe_from(store, tuples.firsts[j].copy(), keys, *life, least)
        return index.probe(store, keys, valid, *life, least)

    def _key_of(self, tuples: _Tuples, c: int) -> tuple[Int64s, Bools]:
        i = next(i for i in tuples.rows if i in self._column[c])
        return self._stores[i].key(self._mine[i].index(c), tuples.rows[i])

    def _residual(self, tuples: _Tuples, before: set[int] | None) -> _Tuples:
        """Apply the predicates that can be evaluated now and could not before (None: there was no before)."""
        for predicate in self._node.residual:
            reads = {self._owner[c] for c in columns(predicate)}
            if reads <= tuples.rows.keys() and (before is None or not reads <= before):
                known = {c: self._gather(tuples, c) for c in columns(predicate)}
                tuples = tuples.where(np.asarray(true_mask(predicate, known, len(tuples.starts))))
        return tuples

    def _verified(self, tuples: _Tuples) -> _Tuples:
        """Compare on the real columns what was matched by hash."""
        for c, members in enumerate(self._column):
            if not self._exact[c]:
                values = [self._gather(tuples, column) for column in members.values()]
                same = [same_rows([values[0]], [v], len(tuples.starts)) for v in values[1:]]
                tuples = tuples.where(np.logical_and.reduce(same))
        return tuples

    def _gather(self, tuples: _Tuples, column: str) -> pa.Array:
        i = self._owner[column]
        return self._stores[i].gather(column, tuples.rows[i])

    def _chunk(self, tuples: _Tuples, ts: Int64s, sign: int) -> Chunk:
        payload = batch_of([self._gather(tuples, c) for c in self._node.output], self._schema, len(ts))
        end = tuples.ends if self._node.pattern is Pattern.EXPIRING else None
        return Chunk(ts, np.full(len(ts), sign, np.int8), payload, end)

    def horizon(self) -> int:
        return min(s.oldest() for s in self._stores)

    def rows(self) -> int:
        return sum(len(s) for s in self._stores)

    def bytes(self) -> int:
        return sum(s.nbytes() for s in self._stores)

    def metrics(self) -> dict[str, Any]:
        labels = self._node.labels
        return {
            "orders": {label: [labels[j] for j in self.order(i)] for i, label in enumerate(labels)},
            "streamon": {labels[i]: f.metrics() for i, f in enumerate(self._filters) if f is not None},
            "windows": {labels[i]: len(s) for i, s in enumerate(self._stores)},
            "probes": self._probes,
            "results": self._results,
        }


def _fits_integer(node: MJoin, members: KeyClass) -> bool:
    """Whether a class's values are int64 themselves, or have to be hashed to one."""
    types = [node.parts[i].schema.field(column).type for i, column in members]
    return all(as_integers(pa.nulls(0, t)) is not None for t in types)


def _stored_schema(node: MJoin, i: int, exact: list[bool]) -> pa.Schema:
    """The columns of input i that are read after it is stored."""
    read = set(node.output).union(*(columns(r) for r in node.residual))
    for c, members in enumerate(node.classes):
        if not exact[c]:
            read |= {column for _, column in members}
    return pa.schema([f for f in node.parts[i].schema if f.name in read])
