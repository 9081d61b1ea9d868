"""The context in which logical operators build physical ones: a stage's inputs and shared helpers.

Building goes once from the root down, carrying the columns that are needed. Streams and tables at the leaves
become inputs of the stage; a filter right above one is left to the host, and the host sends only the columns
that some operator reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.joins.join_constraints import JoinConstraints
from penstock.engine.operator import Node
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.expire import Expire
from penstock.engine.operators.identify import Identify
from penstock.engine.operators.look_up import LookUp
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.project import Project
from penstock.engine.operators.select import Select
from penstock.engine.operators.source import Source
from penstock.engine.stage import SOURCE, StageInput
from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.constraints import counted, labels, numbered, with_counts
from penstock.plan.facts import Named
from penstock.plan.join_graph import JoinGraph, join_graph
from penstock.plan.join_trees import Traffic, Tree, as_tree, best_tree
from penstock.plan.logical.operator import Needed
from penstock.plan.physical import SourceInput, TableInput
from penstock.plan.settings import WINDOW_ROWS
from penstock.routing import Route, keys_of, own_column
from penstock.schema import TimeDomain
from penstock.streamon.access import Chooser


@dataclass
class Builder:
    """The context in which logical operators build a stage; it collects the stage's inputs on the way.

    ``routes``: where the rows of each stream go, by its number. ``exchanges``: for earlier stages by name,
    the node that their rows come from. ``host_filters``: whether a filter right above a stream may be left
    to the host (a clock that ticks at every instant with input must see them all). ``filters``: the
    algorithm that orders filters and probes. ``join``: the plan of joins of three or more inputs, and
    ``cache_memory`` the bytes of its caches; ``w_join``: the algorithm of joins with windows between streams.
    ``chooser``: what access methods cost. ``budgeted``: attaches its budget to a join.
    """

    time: TimeDomain
    routes: Mapping[int, Route] = field(default_factory=dict)
    exchanges: Mapping[str, Node] = field(default_factory=dict)
    host_filters: bool = True
    filters: str = "a-greedy"
    join: str = "mjoin"
    cache_memory: int | None = None
    w_join: str = "adaptive"
    chooser: Chooser | None = None
    budgeted: Callable[[logical.Budgeted, Node], Node] = lambda node, join: join
    stage_inputs: list[StageInput] = field(default_factory=list)
    host_inputs: list[SourceInput | TableInput] = field(default_factory=list)
    constants: dict[str, pa.Table] = field(default_factory=dict)
    owner: str = ""
    """The query of a pipeline, whose tables are its own."""
    counting: set[int] = field(default_factory=set)
    """The numbers of streams all of whose rows are counted: the host filters none of them."""
    sources: dict[int, Source] = field(default_factory=dict)
    """The nodes of streams, by number."""

    def build(self, node: logical.Logical, needed: Needed) -> Node:
        """Operators whose output has at least the needed columns."""
        built = node.build(self, needed)
        # An operator may run as one that changes in more ways than its relation does, never in fewer.
        assert built.pattern is Pattern.CHANGING or node.only_grows or built.pattern is node.pattern
        return built

    def exact(self, node: logical.Logical) -> Node:
        """Operators whose output has just the columns of the logical node, in its order."""
        names = node.schema.names
        built = self.build(node, names)
        return built if built.schema.names == names else _shown(built, names)

    # inputs of the stage

    def source(
        self,
        node: logical.Source,
        needed: Needed,
        filter: Expression | None = None,
        changes: Pattern = Pattern.APPEND,
    ) -> Node:
        """An input of the stage; one that sends places marks the rows that are the partition's own."""
        name, route = self._new_name(node.alias), self.routes.get(node.number, Route())
        fields = [f for f in node.schema if f.name in needed]
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        source = SourceInput(name, node.alias, node.definition, shipped, filter, route)
        self.host_inputs.append(source)
        if route.places is not None or route.sliced:
            fields.append(pa.field(own_column(name), pa.bool_()))
        self.stage_inputs += _checked_keys(name, route)
        taken = stream_input(pa.schema(fields), source)
        self.stage_inputs.append(taken)
        built = Source(name, taken.schema, changes, grows=changes is Pattern.APPEND)
        self.sources[node.number] = built
        return built

    def filters_in_host(self, leaf: logical.Logical) -> bool:
        """Whether a filter right above a leaf may be left to the host."""
        return self.host_filters and not (isinstance(leaf, logical.Source) and leaf.number in self.counting)

    def table(self, node: logical.TableSource, needed: Needed, filter: Expression | None = None) -> Node:
        name = self._new_name(self._owned(node.alias))
        # A table without columns would lose its number of rows in transport.
        fields = [f for f in node.schema if f.name in needed] or [node.schema.field(0)]
        self.stage_inputs.append(StageInput(name, pa.schema(fields), "table"))
        shipped = tuple((f.name, Column(f.name, f.type)) for f in fields)
        self.host_inputs.append(TableInput(name, node.alias, node.definition, shipped, filter))
        return Source(name, pa.schema(fields), Pattern.CHANGING, table=True)

    def constant(self, name: str, rows: pa.Table) -> Node:
        """A table that the query itself contains."""
        name = self._new_name(self._owned(name))
        self.stage_inputs.append(StageInput(name, rows.schema, "table"))
        self.constants[name] = rows
        return Source(name, rows.schema, table=True)

    def own_rows(self, source: logical.Source) -> tuple[Expression, ...]:
        """The predicate that a row is the partition's own, if the stream built last sends places."""
        if self.routes.get(source.number, Route()).places is None:
            return ()
        return (Column(own_column(self.stage_inputs[-1].name), pa.bool_()),)

    def _owned(self, name: str) -> str:
        return f"{self.owner}: {name}" if self.owner else name

    def sliced(self, source: logical.Source) -> bool:
        """Whether a stream is spread by time, and so marks the rows whose slices are the partition's."""
        return self.routes.get(source.number, Route()).sliced

    def _new_name(self, alias: str) -> str:
        taken = {i.name for i in self.stage_inputs}
        return next(n for n in numbered(alias) if n not in taken)

    # shared by several operators

    def joined(
        self,
        parts: Sequence[Node],
        inputs: Sequence[logical.Logical],
        conjuncts: Sequence[Expression],
        output: tuple[str, ...],
        constraints: JoinConstraints | None = None,
    ) -> Node:
        """The join of built inputs, labelled as the logical inputs are."""
        join = self.join_of(parts, inputs, conjuncts, output)
        if constraints is not None and constraints.useful:
            return self._constrained(join, inputs, constraints)
        if len(parts) == 2:
            return BinaryJoin(**join, constraints=constraints)
        tree = self._tree(MJoin(**join), inputs)
        if tree is None:
            caches = self.cache_memory if self.join == "adaptive" else None
            return MJoin(**join, constraints=constraints, cache_memory=caches)
        keyed = self._keyed(parts, join_graph([p.schema.names for p in parts], conjuncts))
        return as_tree(MJoin(**{**join, "parts": tuple(keyed)}), tree, self._identified)

    def _constrained(
        self, join: dict[str, Any], inputs: Sequence[logical.Logical], found: JoinConstraints
    ) -> Node:
        """The join by its constraints: windows that it alone reads, and the streams that it counts."""
        rows = {i: inputs[i].stream_rows for i in counted(found)}
        numbers = {i: r.source.number for i, r in sorted(rows.items()) if r is not None}
        own = {i: self._own_column(n) for i, n in numbers.items()}
        found = with_counts(found, inputs, own)
        identity = repr((join["labels"], join["classes"], join["residual"], join["output"], found))
        reader = blake2b(identity.encode(), digest_size=4).hexdigest()
        parts = tuple(p.read_by(f"{reader}.{i}") for i, p in enumerate(join["parts"]))
        kind = BinaryJoin if len(parts) == 2 else MJoin
        counts = tuple(self.sources[n] for n in numbers.values())
        return kind(**{**join, "parts": parts}, constraints=found, counts=counts)

    def _own_column(self, number: int) -> str | None:
        """The column that marks the partition's own rows of a stream."""
        sends_places = self.routes.get(number, Route()).places is not None
        return own_column(self.sources[number].input) if sends_places else None

    def _tree(self, flat: MJoin, inputs: Sequence[logical.Logical]) -> Tree | None:
        """The tree of a join's moving inputs that costs least; None for one operator."""
        if self.join not in ("xjoin", "tree") or len(flat.moving) < 3 or flat.is_static:
            return None
        found = best_tree(flat.moving, self._traffic(flat, inputs), self.join == "xjoin")
        return None if found == flat.moving else found

    def _traffic(self, flat: MJoin, inputs: Sequence[logical.Logical]) -> Traffic:
        """Rates as declared, rows as the windows say, and keys that are unique in the larger input."""
        rates = tuple(sum(_rate(leaf) for leaf in logical.leaves(i)) for i in inputs)
        lives = [i.longest_life or 0 for i in inputs]
        timed = [r * life / self.time.ticks_per_second for r, life in zip(rates, lives, strict=True)]
        rows = tuple(
            float(p.holds(None) or (timed[i] if _declared(inputs[i]) else 0) or WINDOW_ROWS)
            for i, p in enumerate(flat.parts)
        )
        pairs = [[(i, j) for i, _ in c for j, _ in c if i < j] for c in flat.classes]
        shares = tuple({(i, j): 1 / max(rows[i], rows[j], 1.0) for i, j in of} for of in pairs)
        return Traffic(rates, rows, shares)

    def looks_up(self, stream: Node, table: Node) -> bool:
        """Whether rows of a stream without window meet only tables, so that none has to be kept."""
        return stream.pattern is Pattern.APPEND and not stream.is_static and table.is_static

    def looked_up(
        self,
        parts: Sequence[Node],
        inputs: Sequence[logical.Logical],
        conjuncts: Sequence[Expression],
        output: tuple[str, ...],
        kind: str,
    ) -> Node:
        """The rows of the stream among the inputs by their matches in the table: see ``LookUp``."""
        return LookUp(**self.join_of(parts, inputs, conjuncts, output), kind=kind)

    def join_of(
        self,
        parts: Sequence[Node],
        inputs: Sequence[logical.Logical],
        conjuncts: Sequence[Expression],
        output: tuple[str, ...],
    ) -> dict[str, Any]:
        """The arguments of a join operator."""
        graph = join_graph([p.schema.names for p in parts], conjuncts)
        return {
            "parts": tuple(self._identified(self._keyed(parts, graph))),
            "labels": tuple(labels(inputs)),
            "classes": graph.classes,
            "residual": graph.residual,
            "output": output,
            "filters": self.filters,
            "bands": graph.bands,
            "chooser": self.chooser,
        }

    def _keyed(self, parts: Sequence[Node], graph: JoinGraph) -> list[Node]:
        return [self._with_keys(p, graph.derived[k], graph.inner[k]) for k, p in enumerate(parts)]

    def _identified(self, parts: Sequence[Node]) -> list[Node]:
        """The inputs of a join with what it needs to end their rows."""
        # An end that was wrong is corrected by values, so such rows become changes.
        changing = [p.pattern is Pattern.CHANGING or p.corrects for p in parts]
        if any(c and not p.is_static for c, p in zip(changing, parts, strict=True)):
            return [self._with_ids(p) for p in parts]
        # Rows of tables alone are ended by their ids.
        return [self._with_ids(p) if p.is_static and any(changing) else p for p in parts]

    def _with_keys(self, part: Node, derived: Named, inner: tuple[Expression, ...]) -> Node:
        if derived:
            part = Project(part, (*((f.name, Column(f.name, f.type)) for f in part.schema), *derived))
        return Select(part, inner, self.filters) if inner else part

    def _with_ids(self, node: Node) -> Node:
        """The node with − elements that identify the row that leaves."""
        if node.pattern is Pattern.EXPIRING:
            return Identify(Expire(node)) if node.corrects else Expire(node, ids=True)
        return Identify(node) if node.pattern is Pattern.CHANGING and not node.has_ids else node

    def identified(self, node: Node, id: str) -> Node:
        """The node with a column that numbers its rows."""
        return Identify(self._with_ids(node), id)

    def changing(self, node: Node) -> Node:
        """The node with − elements, for consumers that work on changes where ends are known."""
        return Expire(node) if node.pattern is Pattern.EXPIRING else node


def stream_input(schema: pa.Schema, source: SourceInput) -> StageInput:
    """The input of a stage that a stream comes by."""
    options, key = source.stream.options, _split_by(source.route, source.columns)
    order = (-1 if options.arrival else options.skew, options.idle_after)
    made = StageInput(source.name, schema, "source", *order, key=key)
    made = replace(made, adaptive=options.adaptive, stamped=options.arrival, stream=source.stream.name)
    return replace(made, ties=source.ties, producers=source.stream.producers)


def _shown(node: Node, names: Sequence[str]) -> Node:
    return Project(node, tuple((n, Column(n, node.schema.field(n).type)) for n in names))


def _checked_keys(name: str, route: Route) -> Iterator[StageInput]:
    """Per dimension that keeps the source's partitioning: the input by which its keys arrive."""
    for number, axis in enumerate(route.axes):
        if axis.by_source:
            fields = [(str(e), e.type) for e in axis.keys]
            schema = pa.schema([*fields, (SOURCE, pa.int32())])
            yield StageInput(keys_of(name, number), schema, "keys", axis=number)


def _split_by(route: Route, shipped: Named) -> str | None:
    """The column that a stream is split by, if it is a single one and is sent."""
    keys = [axis.keys for axis in route.own if axis.keys]
    names = [name for name, e in shipped if len(keys) == 1 and keys[0] == (e,)]
    return names[0] if names else None


def _rate(leaf: logical.Leaf) -> float:
    """The declared rate of a stream; that of others is not known. A table has none."""
    if not isinstance(leaf, logical.Source):
        return 0.0
    return leaf.definition.options.rate or 1.0


def _declared(node: logical.Logical) -> bool:
    """Whether all streams below a node have a declared rate."""
    sources = [leaf for leaf in logical.leaves(node) if isinstance(leaf, logical.Source)]
    return bool(sources) and all(leaf.definition.options.rate for leaf in sources)
