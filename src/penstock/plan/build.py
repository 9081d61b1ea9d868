"""From the logical plan to operators: one pass from the root down, carrying the columns that are needed.

Streams and tables at the leaves become inputs of the stage; a filter right above a stream is left to the
host, and only columns that someone reads are asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operator import Node
from penstock.engine.operators.aggregate import Aggregate, AggregateColumn
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.d_stream import DStream
from penstock.engine.operators.expire import Expire
from penstock.engine.operators.i_stream import IStream
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.project import Project
from penstock.engine.operators.r_stream import RStream
from penstock.engine.operators.select import Select
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.engine.stage import StageInput
from penstock.expression import Call, Column, Expression, columns
from penstock.plan import logical
from penstock.plan.join_graph import join_graph
from penstock.plan.physical import SourceInput, TableInput
from penstock.schema import TimeDomain

Needed = Collection[str]


@dataclass
class Builder:
    """Builds operators and collects the stage's inputs on the way.

    ``keys``: the partition key of each stream, by alias. ``host_filters``: whether a filter right above
    a stream may be left to the host (a clock that ticks at every instant with input must see them all).
    """

    time: TimeDomain
    keys: dict[str, tuple[Expression, ...]] = field(default_factory=dict)
    host_filters: bool = True
    stage_inputs: list[StageInput] = field(default_factory=list)
    host_inputs: list[SourceInput | TableInput] = field(default_factory=list)

    def build(self, node: logical.Logical, needed: Needed) -> Node:
        """Operators whose output has at least the needed columns."""
        return _BUILD[type(node)](self, node, needed)

    def stream(self, node: logical.StreamSource, needed: Needed, filter: Expression | None = None) -> Node:
        fields = [f for f in node.schema if f.name in needed]
        schema = pa.schema(fields)
        stream = node.stream
        self.stage_inputs.append(StageInput(node.alias, schema, "source", stream.skew, stream.idle_after))
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        key = self.keys.get(node.alias, ())
        self.host_inputs.append(SourceInput(node.alias, node.alias, stream, shipped, filter, key))
        return Source(node.alias, schema)

    def table(self, node: logical.TableSource, needed: Needed, filter: Expression | None = None) -> Node:
        fields = [f for f in node.schema if f.name in needed]
        self.stage_inputs.append(StageInput(node.alias, pa.schema(fields), "table"))
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        self.host_inputs.append(TableInput(node.alias, node.alias, node.table, shipped, filter))
        return Source(node.alias, pa.schema(fields))

    def window(self, node: logical.Window, needed: Needed) -> Node:
        spec = node.spec
        below = self.build(node.input, {*needed, *spec.partition_by})
        return SeqWindow(below, spec.kind, spec.size, spec.partition_by, spec.text)

    def select(self, node: logical.Select, needed: Needed) -> Node:
        if isinstance(node.input, logical.StreamSource) and self.host_filters:
            return self.stream(node.input, needed, conjunction(node.conjuncts))
        if isinstance(node.input, logical.TableSource):
            return self.table(node.input, needed, conjunction(node.conjuncts))
        return Select(self.build(node.input, {*needed, *_reads(node.conjuncts)}), node.conjuncts)

    def project(self, node: logical.Project, needed: Needed) -> Node:
        shown = tuple((name, e) for name, e in node.columns if name in needed)
        return Project(self.build(node.input, _reads(e for _, e in shown)), shown)

    def join(self, node: logical.Join, needed: Needed) -> Node:
        graph = join_graph([i.schema.names for i in node.inputs], node.conjuncts)
        keys = {column for c in graph.classes for _, column in c}
        wanted = {*needed, *keys, *_reads(graph.residual)}
        parts = [self._part(i, wanted, graph.derived[k], graph.inner[k]) for k, i in enumerate(node.inputs)]
        if any(p.pattern is Pattern.CHANGING for p in parts):
            parts = [Expire(p, ids=True) if p.pattern is Pattern.EXPIRING else p for p in parts]
        output = tuple(f.name for i in node.inputs for f in i.schema if f.name in needed)
        labels = tuple(_label(i) for i in node.inputs)
        return MJoin(tuple(parts), labels, graph.classes, graph.residual, output)

    def _part(
        self,
        node: logical.Logical,
        wanted: Needed,
        derived: tuple[tuple[str, Expression], ...],
        inner: tuple[Expression, ...],
    ) -> Node:
        own = [n for n in node.schema.names if n in wanted]
        part = self.build(node, {*own, *_reads(e for _, e in derived), *_reads(inner)})
        if derived:
            plain = tuple((n, Column(n, part.schema.field(n).type)) for n in part.schema.names)
            part = Project(part, (*plain, *derived))
        return Select(part, inner) if inner else part

    def aggregate(self, node: logical.Aggregate, needed: Needed) -> Node:
        calls = tuple((name, call.function, call.argument, call.type) for name, call in node.calls)
        return self.grouped(node, calls)

    def grouped(
        self,
        node: logical.Aggregate,
        calls: Iterable[tuple[str, str, Expression | None, pa.DataType]],
    ) -> Node:
        """Aggregate the logical node's input by its keys with these (name, function, argument, type)."""
        arguments = {str(e): e for _, _, e, _ in calls if e is not None}
        shown = (*node.keys, *((name, e) for name, e in arguments.items() if (name, e) not in node.keys))
        below = self.build(node.input, _reads(e for _, e in shown))
        prepared = changing(Project(below, shown))
        functions = tuple(
            AggregateColumn(name, function, None if e is None else str(e), kind)
            for name, function, e, kind in calls
        )
        return Aggregate(prepared, tuple(name for name, _ in node.keys), functions)


def changing(node: Node) -> Node:
    """With − elements, where ends are known and the consumer works on changes."""
    return Expire(node) if node.pattern is Pattern.EXPIRING else node


def to_stream(
    node: Node, kind: str | None, every: int | None, time: TimeDomain, distinct_lives: bool
) -> Node:
    """The root: what the user gets of the relation."""
    match kind:
        case "istream":
            return IStream(node, distinct_lives)
        case "dstream":
            return DStream(changing(node))
        case "rstream":
            return RStream(changing(node), every or (1 if time.kind == "integer" else None))
        case _:
            return Changelog(changing(node))


def conjunction(conjuncts: Iterable[Expression]) -> Expression:
    """Several predicates as one."""
    return reduce(lambda a, b: Call("and", (a, b), pa.bool_()), conjuncts)


def _reads(expressions: Iterable[Expression]) -> set[str]:
    return set().union(*(columns(e) for e in expressions))


def _label(node: logical.Logical) -> str:
    """The alias under which an input of a join stands."""
    while not isinstance(node, logical.StreamSource | logical.TableSource):
        node = logical.inputs(node)[0]
    return node.alias


_BUILD: dict[type, Callable[..., Node]] = {
    logical.StreamSource: Builder.stream,
    logical.TableSource: Builder.table,
    logical.Window: Builder.window,
    logical.Select: Builder.select,
    logical.Project: Builder.project,
    logical.Join: Builder.join,
    logical.Aggregate: Builder.aggregate,
}
