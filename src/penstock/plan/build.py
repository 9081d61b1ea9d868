"""From the logical plan to operators: one pass from the root down, carrying the columns that are needed.

Streams and tables at the leaves become inputs of the stage; a filter right above a stream is left to the
host, and only columns that someone reads are asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count

import pyarrow as pa

from penstock.catalog import Input
from penstock.engine.element import Pattern
from penstock.engine.operator import Node
from penstock.engine.operators.aggregate import Aggregate, AggregateColumn
from penstock.engine.operators.antijoin import Antijoin
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.d_stream import DStream
from penstock.engine.operators.duplicate_eliminate import DuplicateEliminate
from penstock.engine.operators.except_ import Except
from penstock.engine.operators.expire import Expire
from penstock.engine.operators.i_stream import IStream
from penstock.engine.operators.identify import Identify
from penstock.engine.operators.intersect import Intersect
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.project import Project
from penstock.engine.operators.r_stream import RStream
from penstock.engine.operators.select import Select
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.single import Single
from penstock.engine.operators.source import Source
from penstock.engine.operators.union import Union
from penstock.engine.stage import SOURCE, StageInput
from penstock.engine.synopses.accumulators import DISTINCT
from penstock.expression import Call, Column, Expression, Literal, columns
from penstock.functions import for_catalyst, may_raise
from penstock.plan import logical
from penstock.plan.join_graph import join_graph
from penstock.plan.physical import SourceInput, TableInput
from penstock.routing import Route, keys_of, mine
from penstock.schema import TimeDomain
from penstock.streamon.access import Chooser

Needed = Collection[str]


@dataclass
class Builder:
    """Builds operators and collects the stage's inputs on the way.

    ``routes``: where the rows of each stream go, by its number. ``exchange``: the node that the rows of the
    stage before come from. ``host_filters``: whether a filter right above
    a stream may be left to the host (a clock that ticks at every instant with input must see them all).
    ``filters``: the algorithm that orders filters and probes. ``chooser``: what access methods cost.
    ``budgeted``: gives a join what the query may use.
    """

    time: TimeDomain
    routes: Mapping[int, Route] = field(default_factory=dict)
    exchange: Node | None = None
    host_filters: bool = True
    filters: str = "a-greedy"
    chooser: Chooser | None = None
    budgeted: Callable[[Node], Node] = lambda join: join
    stage_inputs: list[StageInput] = field(default_factory=list)
    host_inputs: list[SourceInput | TableInput] = field(default_factory=list)

    def build(self, node: logical.Logical, needed: Needed) -> Node:
        """Operators whose output has at least the needed columns."""
        return _BUILD[type(node)](self, node, needed)

    def exact(self, node: logical.Logical) -> Node:
        """Operators whose output has just the columns of the logical node, in its order."""
        names = node.schema.names
        built = self.build(node, names)
        if built.schema.names == names:
            return built
        return Project(built, tuple((n, Column(n, built.schema.field(n).type)) for n in names))

    def stream(self, node: logical.StreamSource, needed: Needed, filter: Expression | None = None) -> Node:
        self._source(node, node.stream, needed, filter)
        return Source(self.stage_inputs[-1].name, self.stage_inputs[-1].schema)

    def relation(self, node: logical.RelationSource, needed: Needed) -> Node:
        # Every column is needed to know which row leaves.
        self._source(node, node.relation, node.schema.names, None)
        taken = self.stage_inputs[-1]
        return Source(taken.name, taken.schema, Pattern.CHANGING)

    def exchanged(self, node: logical.Exchange, needed: Needed) -> Node:
        assert self.exchange is not None
        return self.exchange

    def _source(
        self,
        node: logical.Spreadable,
        stream: Input,
        needed: Needed,
        filter: Expression | None,
    ) -> None:
        """Add an input of the stage; one that sends places says of each row whether it is the partition's."""
        name, route = self._new_name(node.alias), self.routes.get(node.number, Route())
        fields = [f for f in node.schema if f.name in needed]
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        self.host_inputs.append(SourceInput(name, node.alias, stream, shipped, filter, route))
        if route.places is not None:
            fields.append(pa.field(mine(name), pa.bool_()))
        self.stage_inputs += _checked_keys(name, route)
        key = _split_by(route, shipped)
        late = (stream.options.skew, stream.options.idle_after)
        taken = StageInput(name, pa.schema(fields), "source", *late, key=key)
        self.stage_inputs.append(taken)

    def _new_name(self, alias: str) -> str:
        taken = {i.name for i in self.stage_inputs}
        return next(n for n in numbered(alias) if n not in taken)

    def table(self, node: logical.TableSource, needed: Needed, filter: Expression | None = None) -> Node:
        name = self._new_name(node.alias)
        # A table of no columns forgets how many rows it has when it travels.
        fields = [f for f in node.schema if f.name in needed] or [node.schema.field(0)]
        self.stage_inputs.append(StageInput(name, pa.schema(fields), "table"))
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        self.host_inputs.append(TableInput(name, node.alias, node.table, shipped, filter))
        return Source(name, pa.schema(fields))

    def window(self, node: logical.Window, needed: Needed) -> Node:
        spec = node.spec
        below = self.build(node.input, {*needed, *spec.partition_by, *_reads(node.keep)})
        own = self._own_rows(node)
        keep = (*own, *node.keep) if spec.slide is None else node.keep
        form = (spec.kind, spec.size, spec.partition_by, spec.text, spec.slide)
        # No filter sees a row that is another partition's.
        window = SeqWindow(below, *form, keep, self.filters, len(own))
        return Select(window, own, self.filters) if own and spec.slide is not None else window

    def _own_rows(self, node: logical.Window) -> tuple[Expression, ...]:
        """Over a stream that sends places: that a row is the partition's own."""
        source = logical.stream_of(node)
        if source is None or self.routes.get(source.number, Route()).places is None:
            return ()
        return (Column(mine(self.stage_inputs[-1].name), pa.bool_()),)

    def select(self, node: logical.Select, needed: Needed) -> Node:
        if not (isinstance(node.input, logical.StreamSource | logical.TableSource) and self.host_filters):
            below = self.build(node.input, {*needed, *_reads(node.conjuncts)})
            return Select(below, node.conjuncts, self.filters)
        host = _for_host(node.conjuncts)
        rest = tuple(c for c in node.conjuncts if c not in host)
        leaf = self.stream if isinstance(node.input, logical.StreamSource) else self.table
        below = leaf(node.input, {*needed, *_reads(rest)}, conjunction(host))  # type: ignore[arg-type]
        return Select(below, rest, self.filters) if rest else below

    def project(self, node: logical.Project, needed: Needed) -> Node:
        shown = tuple((name, e) for name, e in node.columns if name in needed)
        return Project(self.build(node.input, _reads(e for _, e in shown)), shown)

    def join(self, node: logical.Join, needed: Needed) -> Node:
        inputs, lifted = zip(*map(self._lifted, node.inputs), strict=True)
        conjuncts = (*node.conjuncts, *(c for own in lifted for c in own))
        wanted = {*needed, *_reads(conjuncts)}
        parts = [self.build(i, wanted) for i in inputs]
        output = tuple(f.name for i in inputs for f in i.schema if f.name in needed)
        join = joined(parts, _labels(inputs), conjuncts, output, self.filters, self.chooser)
        return self.budgeted(join)

    def _lifted(self, node: logical.Logical) -> tuple[logical.Logical, tuple[Expression, ...]]:
        """Leave the predicates that the host does not evaluate on ``[NOW]`` to the join.

        There they are filters beside its probes, in one order. Nothing of such a window is kept for longer
        than an instant, so it does not matter that rows get into it that they would have dropped.
        """
        match node:
            case logical.Window(logical.Select(source, conjuncts), spec) if spec.is_now and self.host_filters:
                host = _for_host(conjuncts)
                rest = tuple(c for c in conjuncts if c not in host)
                below = logical.Select(source, host) if host else source
                return (replace(node, input=below), rest) if rest else (node, ())
        return node, ()

    def sampled(self, node: logical.Sampled, needed: Needed) -> Node:
        """The join as it is: that it is sampled, it knows by its budget."""
        return self.build(node.input, [n for n in needed if n in node.input.schema.names])

    def outer_join(self, node: logical.OuterJoin, needed: Needed) -> Node:
        """The pairs, and the rows of the kept sides that are in none, with NULLs for the other side."""
        wanted = {*needed, *_reads(node.conjuncts)}
        sides = [self._kept(node.left, wanted, _LEFT), self._kept(node.right, wanted, _RIGHT)]
        kept = {"left": (_LEFT,), "right": (_RIGHT,), "full": (_LEFT, _RIGHT)}[node.kind]
        shown = pa.schema([f for f in node.schema if f.name in needed])
        labels = _labels((node.left, node.right))
        pairs = changing(
            joined(sides, labels, node.conjuncts, (*shown.names, *kept), self.filters, self.chooser)
        )
        alone = [Antijoin(sides[_SIDES.index(s)], pairs, s) for s in kept]
        return Union(tuple(_padded(part, shown) for part in (pairs, *alone)))

    def _kept(self, node: logical.Logical, wanted: Needed, id: str) -> Node:
        return Identify(identified(self.build(node, wanted)), id)

    def semi_join(self, node: logical.SemiJoin, needed: Needed) -> Node:
        wanted = {*needed, *_reads(node.conjuncts)}
        left = self._kept(node.left, wanted, _LEFT)
        right = self.build(node.right, wanted)
        labels = _labels((node.left, node.right))
        pairs = changing(joined([left, right], labels, node.conjuncts, (_LEFT,), self.filters, self.chooser))
        return Antijoin(left, pairs, _LEFT, node.anti)

    def set_operation(self, node: logical.SetOperation, needed: Needed) -> Node:
        sides = self.exact(node.left), self.exact(node.right)
        match node.kind:
            case "except":
                return Except(tuple(map(changing, sides)), node.all)
            case "intersect":
                return Intersect(tuple(map(changing, sides)), node.all)
        if sides[0].pattern is not sides[1].pattern:
            sides = changing(sides[0]), changing(sides[1])
        union = Union(sides)
        return union if node.all else DuplicateEliminate((changing(union),))

    def distinct(self, node: logical.Distinct, needed: Needed) -> Node:
        below = self.exact(node.input)
        static = all(isinstance(leaf, logical.TableSource) for leaf in logical.leaves(node))
        return DuplicateEliminate((changing(below),), static)

    def single(self, node: logical.Single, needed: Needed) -> Node:
        return Single(changing(self.build(node.input, needed)))

    def derived_stream(self, node: logical.ToStream, needed: Needed) -> Node:
        return to_stream(self.exact(node.input), node.kind, node.every, self.time, distinct_lives=False)

    def aggregate(self, node: logical.Aggregate, needed: Needed) -> Node:
        calls = [(name, _function(call), call.argument, call.type) for name, call in node.calls]
        return self.grouped(node, calls)

    def grouped(
        self,
        node: logical.Aggregate,
        calls: Sequence[tuple[str, str, Expression | None, pa.DataType]],
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


def _checked_keys(name: str, route: Route) -> Iterator[StageInput]:
    """For each dimension in which a stream stays as its source has it: the input that its keys come by."""
    for number, axis in enumerate(route.axes):
        if axis.by_source:
            fields = [(str(e), e.type) for e in axis.keys]
            schema = pa.schema([*fields, (SOURCE, pa.int32())])
            yield StageInput(keys_of(name, number), schema, "keys", axis=number)


def _split_by(route: Route, shipped: tuple[tuple[str, Expression], ...]) -> str | None:
    """The column that a stream is split by, where it is one that is there."""
    keys = [axis.keys for axis in route.own if axis.keys]
    names = [name for name, e in shipped if len(keys) == 1 and keys[0] == (e,)]
    return names[0] if names else None


_SIDES = _LEFT, _RIGHT = ("#left", "#right")
"""Columns that number the rows of the sides of an outer join or semijoin."""


def joined(
    parts: Sequence[Node],
    labels: Sequence[str],
    conjuncts: Sequence[Expression],
    output: tuple[str, ...],
    filters: str,
    chooser: Chooser | None = None,
) -> Node:
    """The join of built inputs."""
    graph = join_graph([p.schema.names for p in parts], conjuncts)
    keyed = [_with_keys(p, graph.derived[k], graph.inner[k], filters) for k, p in enumerate(parts)]
    if any(p.pattern is Pattern.CHANGING for p in keyed):
        keyed = [identified(p) for p in keyed]
    kind = BinaryJoin if len(keyed) == 2 else MJoin
    parts_and_keys = (tuple(keyed), tuple(labels), graph.classes, graph.residual)
    return kind(*parts_and_keys, output, filters, graph.bands, chooser)


def _with_keys(
    part: Node, derived: tuple[tuple[str, Expression], ...], inner: tuple[Expression, ...], filters: str
) -> Node:
    if derived:
        plain = tuple((f.name, Column(f.name, f.type)) for f in part.schema)
        part = Project(part, (*plain, *derived))
    return Select(part, inner, filters) if inner else part


def identified(node: Node) -> Node:
    """With − elements that name the row that leaves."""
    if node.pattern is Pattern.EXPIRING:
        return Expire(node, ids=True)
    return Identify(node) if node.pattern is Pattern.CHANGING and not node.has_ids else node


def _padded(node: Node, schema: pa.Schema) -> Node:
    """The columns of a schema, NULL where the node has none."""
    have = set(node.schema.names)
    columns = [(f.name, Column(f.name, f.type) if f.name in have else Literal(None, f.type)) for f in schema]
    return Project(node, tuple(columns))


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


def conjunction(conjuncts: Sequence[Expression]) -> Expression | None:
    """Several predicates as one."""
    return reduce(lambda a, b: Call("and", (a, b), pa.bool_()), conjuncts) if conjuncts else None


def _for_host(conjuncts: Sequence[Expression]) -> tuple[Expression, ...]:
    """The predicates that Catalyst evaluates.

    Registered functions run in the engine. So does what may fail on rows that another predicate keeps
    from it (``b <> 0 AND a / b > 1``): Spark promises no order.
    """
    plain = [c for c in conjuncts if for_catalyst(c)]
    return tuple(c for c in plain if len(conjuncts) == 1 or not may_raise(c))


def _function(call: logical.AggregateCall) -> str:
    return call.function + DISTINCT if call.distinct else call.function


def _reads(expressions: Iterable[Expression]) -> set[str]:
    return set().union(*(columns(e) for e in expressions))


def _labels(nodes: Sequence[logical.Logical]) -> list[str]:
    """What inputs of a join are called, each differently."""
    labels: list[str] = []
    for node in nodes:
        name = _label(node)
        labels.append(next(n for n in numbered(name) if n not in labels))
    return labels


def _label(node: logical.Logical) -> str:
    """What the columns go by; where the query gives no name, the one stream or table below."""
    named = node.schema.names[0].rpartition(".")[0] if node.schema.names else ""
    leaves = logical.leaves(node)
    return leaves[0].alias if len(leaves) == 1 and (not named or named.startswith("#")) else named or "?"


def numbered(name: str) -> Iterator[str]:
    """A name, and names like it: ``C``, ``C (2)``, ``C (3)``."""
    return (name if n == 1 else f"{name} ({n})" for n in count(1))


_BUILD: dict[type, Callable[..., Node]] = {
    logical.StreamSource: Builder.stream,
    logical.RelationSource: Builder.relation,
    logical.TableSource: Builder.table,
    logical.Exchange: Builder.exchanged,
    logical.Window: Builder.window,
    logical.Select: Builder.select,
    logical.Project: Builder.project,
    logical.Join: Builder.join,
    logical.Sampled: Builder.sampled,
    logical.OuterJoin: Builder.outer_join,
    logical.SemiJoin: Builder.semi_join,
    logical.SetOperation: Builder.set_operation,
    logical.Distinct: Builder.distinct,
    logical.Single: Builder.single,
    logical.Aggregate: Builder.aggregate,
    logical.ToStream: Builder.derived_stream,
}
