"""What a query that is registered ``WITH HISTORY`` sees of the rows before it.

One instant h per input is part of the registry, and so of the log: the query is over the rows from h on. It
follows from the windows of the registered queries and from the time, never from what happens to be in memory,
so it is the same in all partitions and in every rebuild. A query's time window of t ticks whose rows are kept
(some operator reads its store) covers the rows since the later of the query's own first instant and t ticks
before its complete time. It serves another query if it has the columns that this one reads, and no filter
that this one has not.

Row windows cover nothing: how far back they reach differs between partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.clock_group import ClockGroup
from penstock.engine.element import BEFORE_TIME, Chunk, batch_of
from penstock.engine.graph import Graph
from penstock.engine.operator import Node, StartContext, nodes
from penstock.engine.operators.select import Select
from penstock.engine.operators.seq_window import SeqWindow, private_store
from penstock.engine.operators.source import Source
from penstock.engine.registry import QueryPlan, Registered
from penstock.engine.stage import StageInput
from penstock.engine.synopses.store import Store
from penstock.expression import Expression, columns


@dataclass(frozen=True)
class Covered:
    """The rows of an input that a query's window keeps in a store: the last ``span`` ticks, None: all.

    ``filters``: the predicates of the rows; ``columns``: those that are kept.
    """

    input: str
    store: str
    span: int | None
    filters: frozenset[Expression]
    columns: frozenset[str]


@dataclass
class Wanted:
    """What a query reads of an input: the columns, and the filters that all of its readers have."""

    columns: set[str] = field(default_factory=set)
    filters: frozenset[Expression] | None = None

    def add(self, names: set[str], filters: frozenset[Expression]) -> None:
        self.columns |= names
        self.filters = filters if self.filters is None else self.filters & filters


def covered(root: Node) -> list[Covered]:
    """What the windows of a plan keep. The operators are started, apart from all others, to see what they
    would store.
    """
    context = StartContext()
    Graph(context).add("", root)
    found = []
    for window in dict.fromkeys(n for n in nodes(root) if isinstance(n, SeqWindow)):
        source, filters = _chain(window.input)
        if source is None or window.stored is None or not window.by_time:
            continue
        stubs = context.stores[window.store].stubs
        if stubs:
            kept = frozenset(name for s in stubs for name in s.columns.values())
            span = None if window.size is None else max(s.longer for s in stubs)
            found.append(Covered(source.input, window.store, span, filters, kept))
    return list(dict.fromkeys(found))


def wanted(root: Node) -> dict[str, Wanted]:
    """What a plan reads of each stream."""
    found: dict[str, Wanted] = {}
    _want(root, set(root.schema.names), found)
    return found


def _want(node: Node, names: set[str], found: dict[str, Wanted]) -> None:
    source, filters = _chain(node)
    if source is not None:
        own = set().union(*(columns(f) for f in filters)) if filters else set()
        found.setdefault(source.input, Wanted()).add(names & set(source.schema.names) | own, filters)
        return
    for below, read in zip(node.inputs, node.columns_read(names), strict=True):
        _want(below, read, found)


def _chain(node: Node) -> tuple[Source | None, frozenset[Expression]]:
    """The stream whose rows a node has, and its filters; None if it is anything else."""
    filters: list[Expression] = []
    while isinstance(node, Select):
        filters += node.conjuncts
        node = node.input
    stream = None if node.inputs else node.as_came
    return stream, frozenset() if stream is None else frozenset(filters)


@dataclass(frozen=True)
class Running:
    """A running query: its plan, its first instants, its clock group, and whether it shares no stores."""

    name: str
    plan: QueryPlan
    registered: Registered
    group: ClockGroup | None
    alone: bool

    def kept(self) -> Iterator[Kept]:
        """What it keeps, and since when."""
        assert self.group is not None
        for its in covered(self.plan.root):
            first = self.registered.first(its.input)
            span = its.span
            yield Kept(self, its, first if span is None else max(first, self.group.now - span))


@dataclass(frozen=True)
class Kept:
    """What a running query keeps of an input, and since when."""

    query: Running
    covered: Covered
    since: int

    def serves(self, wants: Wanted, input: str) -> bool:
        """Whether it has what is wanted of an input."""
        its = self.covered
        narrow = its.filters <= (wants.filters or frozenset())
        return its.input == input and narrow and wants.columns <= its.columns


@dataclass(frozen=True)
class Past:
    """The rows of an input, with its schema, that a query sees from before its registration."""

    kept: Kept
    since: int
    schema: pa.Schema

    def chunk(self) -> Chunk:
        """The rows; columns that nobody keeps are NULL."""
        query, its = self.kept.query, self.kept.covered
        assert query.group is not None
        name = private_store(its.store, query.name) if query.alone else its.store
        rows = self._of(query.group.graph.context.stores[name])
        waiting = query.group.inputs.waiting(its.input)
        return Chunk.concat([rows, waiting.where(waiting.ts >= self.since)], self.schema).in_order()

    def _of(self, store: Store) -> Chunk:
        rids = store.alive(int(BEFORE_TIME))
        starts, _ = store.life(rids)
        rids, starts = rids[starts >= self.since], starts[starts >= self.since]
        arrays = [
            store.gather(f.name, rids) if store.keeps(f.name) else pa.nulls(len(rids), f.type)
            for f in self.schema
        ]
        return Chunk.of(starts, batch_of(arrays, self.schema, len(rids)))


def look_back(
    plan: QueryPlan, since: int, others: Sequence[Running], inputs: Sequence[StageInput]
) -> dict[str, Past]:
    """What a new query, which sees rows ``since`` an instant, has of the rows before, by input."""
    # One that runs in some partitions only has its rows there.
    there = [o for o in others if o.plan.partitions is None or plan.partitions is not None]
    kept = [k for o in there for k in o.kept()]
    found: dict[str, Kept] = {}
    for input, wants in wanted(plan.root).items():
        serving = [k for k in kept if k.serves(wants, input)]
        if serving:
            found[input] = min(serving, key=lambda k: k.since)
    streams = {i.name: i for i in inputs}

    def first(input: str) -> int:
        """One instant per stream, also if the query reads it by several inputs."""
        same = [i for i in plan.streams if streams[i].stream == streams[input].stream]
        return max(found[i].since if i in found else since for i in same)

    return {i: Past(k, first(i), streams[i].schema) for i, k in found.items() if first(i) < since}
