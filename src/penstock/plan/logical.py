"""The logical plan: what a bound query asks for, in the papers' algebra.

The binder in ``cql`` builds it, the rules in ``plan/rules`` rewrite it, ``plan/physical`` turns it into
the operators that ``engine`` runs. Nodes are frozen; a rewrite makes new ones.

Column names are unique within a node's schema. Below the topmost project they are qualified by the
alias under which their source appears (``"C.pid"``); the topmost project gives them their output names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from penstock.budget import CLUSTER, WEIGHT, Within
from penstock.catalog import Input, TableDef
from penstock.expression import Expression
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class StreamSource:
    """A stream as it stands in FROM. ``schema`` has the names qualified by ``alias``.

    ``number`` tells the places at which streams stand in a plan apart, once it is ``numbered``.
    """

    stream: Input
    alias: str
    schema: pa.Schema
    number: int = 0


@dataclass(frozen=True)
class TableSource:
    """A static table as it stands in FROM."""

    table: TableDef
    alias: str
    schema: pa.Schema


@dataclass(frozen=True)
class RelationSource:
    """A relation that changes over time as it stands in FROM: its rows are marked + and −."""

    relation: Input
    alias: str
    schema: pa.Schema
    number: int = 0


@dataclass(frozen=True)
class Exchange:
    """What the stage before gives, as a leaf of the plan of the next stage."""

    schema: pa.Schema
    alias: str = "stage 1"


@dataclass(frozen=True)
class WindowSpec:
    """``rows``: the last ``size`` rows (per ``partition_by`` group); ``range``: the last ``size`` ticks.

    ``size`` None is UNBOUNDED; ``[NOW]`` is range 0. ``text`` is how the user wrote it, or how the
    default that was filled in reads. With ``slide`` the window moves on only at multiples of it: of ticks
    since time 0 for ``range``, of rows arrived (in the partition) for ``rows``.
    """

    kind: str
    size: int | None
    partition_by: tuple[str, ...] = ()
    text: str = ""
    slide: int | None = None

    @property
    def is_now(self) -> bool:
        """Whether a row is there at the instant of its timestamp alone."""
        return self.kind == "range" and self.size == 0 and self.slide is None

    @property
    def by_rows(self) -> bool:
        """Whether what it holds depends on how many rows arrived, and so on their order."""
        return self.kind == "rows" and not (self.size is None and self.slide is None)


@dataclass(frozen=True)
class Window:
    """stream-to-relation, over a stream: a source, what a filter leaves of one, or a ToStream below.

    ``keep``: predicates on the window's rows; a row window holds only placeholders of the others.
    """

    input: Logical
    spec: WindowSpec
    keep: tuple[Expression, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class Select:
    """Rows for which every conjunct is true."""

    input: Logical
    conjuncts: tuple[Expression, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class Join:
    """Inner join of any number of relations; ``cross`` if the user asked for a cross product by name."""

    inputs: tuple[Logical, ...]
    conjuncts: tuple[Expression, ...] = ()
    cross: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([f for i in self.inputs for f in i.schema])


@dataclass(frozen=True)
class Sampled:
    """A join of which the query takes a sample: each row with its weight and the number of its cluster."""

    input: Logical

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, (WEIGHT, pa.float64()), (CLUSTER, pa.int64())])


@dataclass(frozen=True)
class OuterJoin:
    """``left``, ``right`` or ``full`` outer join; columns of the side without a match are NULL."""

    left: Logical
    right: Logical
    kind: str
    conjuncts: tuple[Expression, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.left.schema, *self.right.schema])


@dataclass(frozen=True)
class SemiJoin:
    """Rows of ``left`` that have a match in ``right``; with ``anti``, those that have none.

    EXISTS and IN; NOT EXISTS and, with conjuncts that are true also where a comparison is NULL, NOT IN.
    """

    left: Logical
    right: Logical
    conjuncts: tuple[Expression, ...]
    anti: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema


@dataclass(frozen=True)
class SetOperation:
    """``union``, ``except`` or ``intersect`` of two relations, column by column; as bags if ``all``.

    Both inputs have the same column types; the names are the left one's.
    """

    left: Logical
    right: Logical
    kind: str
    all: bool

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema


@dataclass(frozen=True)
class Distinct:
    """Each row once."""

    input: Logical

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class Single:
    """At most one row: a scalar subquery's relation. More than one at an instant is an error."""

    input: Logical

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class Project:
    """Duplicate-preserving projection to named expressions."""

    input: Logical
    columns: tuple[tuple[str, Expression], ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in self.columns])


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function of an expression (``count`` with none is COUNT(*)).

    ``count``, ``sum``, ``avg``, ``min``, ``max``, ``stddev`` and ``variance`` (of a sample), ``stddev_pop``,
    ``var_pop``; with ``distinct``, of the distinct values.
    """

    function: str
    argument: Expression | None
    type: pa.DataType
    distinct: bool = False

    def __str__(self) -> str:
        inside = "*" if self.argument is None else str(self.argument)
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{inside})"


@dataclass(frozen=True)
class Aggregate:
    """Grouping and aggregation; the schema is the keys, then the calls. No keys: one row, always."""

    input: Logical
    keys: tuple[tuple[str, Expression], ...]
    calls: tuple[tuple[str, AggregateCall], ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in (*self.keys, *self.calls)])


@dataclass(frozen=True)
class ToStream:
    """relation-to-stream: ``kind`` is ``"istream"``, ``"dstream"`` or ``"rstream"``.

    ``every`` is the period of RSTREAM's clock in ticks, where the query names one.
    """

    input: Logical
    kind: str
    every: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


Logical = (
    StreamSource
    | TableSource
    | RelationSource
    | Exchange
    | Window
    | Select
    | Join
    | Sampled
    | OuterJoin
    | SemiJoin
    | SetOperation
    | Distinct
    | Single
    | Project
    | Aggregate
    | ToStream
)
Leaf = StreamSource | TableSource | RelationSource | Exchange
Spreadable = StreamSource | RelationSource
"""Leaves whose rows a host sends to partitions."""
Binary = OuterJoin | SemiJoin | SetOperation


@dataclass(frozen=True)
class Query:
    """A bound query: its plan, the time it runs in, what was filled in for the user, what it may use."""

    root: Logical
    time: TimeDomain
    notes: tuple[str, ...] = field(default=())
    within: Within | None = None


def inputs(node: Logical) -> tuple[Logical, ...]:
    """The nodes a node reads."""
    if isinstance(node, Join):
        return node.inputs
    if isinstance(node, Leaf):
        return ()
    if isinstance(node, Binary):
        return (node.left, node.right)
    return (node.input,)


def leaves(node: Logical) -> list[Leaf]:
    """The streams, relations and tables below a node, from left to right."""
    if isinstance(node, Leaf):
        return [node]
    return [leaf for i in inputs(node) for leaf in leaves(i)]


def with_inputs(node: Logical, new: tuple[Logical, ...]) -> Logical:
    """The same node reading others."""
    if isinstance(node, Join):
        return replace(node, inputs=new)
    if isinstance(node, Leaf):
        return node
    if isinstance(node, Binary):
        return replace(node, left=new[0], right=new[1])
    return replace(node, input=new[0])


def rewrite(node: Logical, rule: Callable[[Logical], Logical]) -> Logical:
    """Apply a rule to every node, inputs first."""
    return rule(with_inputs(node, tuple(rewrite(i, rule) for i in inputs(node))))


def walk(node: Logical) -> Iterator[Logical]:
    """A node and all below it, what reads before what is read, from left to right."""
    yield node
    for below in inputs(node):
        yield from walk(below)


def numbered(root: Logical) -> Logical:
    """The same plan, each stream and relation with the number of its place."""
    places = count()

    def number(node: Logical) -> Logical:
        return replace(node, number=next(places)) if isinstance(node, Spreadable) else node

    return rewrite(root, number)


def spreadable(root: Logical) -> list[Spreadable]:
    """The streams and relations of a plan, from left to right."""
    return [node for node in walk(root) if isinstance(node, Spreadable)]


def definition_of(leaf: Spreadable) -> Input:
    """What a leaf is registered as."""
    return leaf.stream if isinstance(leaf, StreamSource) else leaf.relation


def stream_of(window: Window) -> StreamSource | None:
    """The registered stream below a window, None over a derived one."""
    below = window.input.input if isinstance(window.input, Select) else window.input
    return below if isinstance(below, StreamSource) else None


def show(node: Logical, indent: str = "") -> str:
    """A plan as text, one node a line, inputs below what reads them.

    The notation is the algebra's: ``Project C.size AS size``, ``Window C [RANGE 10 MINUTES]``.
    """
    lines = [f"{indent}{_describe(node)}"]
    below = () if isinstance(node, Window) and isinstance(node.input, StreamSource) else inputs(node)
    return "\n".join([*lines, *(show(i, indent + "  ") for i in below)])


def _describe(node: Logical) -> str:
    match node:
        case StreamSource(stream, alias):
            return f"Stream {stream.name}" + _as(alias, stream.name)
        case TableSource(table, alias):
            return f"Table {table.name}" + _as(alias, table.name)
        case RelationSource(relation, alias):
            return f"Relation {relation.name}" + _as(alias, relation.name)
        case Exchange():
            return "Exchange"
        case Window(StreamSource(stream, alias), spec, keep):
            return f"Window {stream.name} {spec.text}" + _as(alias, stream.name) + _keeping(keep)
        case Window(_, spec, keep):
            return f"Window {spec.text}" + _keeping(keep)
        case OuterJoin(_, _, kind, conjuncts):
            return f"{kind.capitalize()} outer join " + " AND ".join(map(str, conjuncts))
        case SemiJoin(_, _, conjuncts, anti):
            return ("Antijoin " if anti else "Semijoin ") + " AND ".join(map(str, conjuncts))
        case SetOperation(_, _, kind, every):
            return kind.capitalize() + (" all" if every else "")
        case Distinct():
            return "Distinct"
        case Single():
            return "Single"
        case Select(_, conjuncts):
            return f"Select {_conjunction(conjuncts)}"
        case Join(_, conjuncts, cross):
            return " ".join(["Join", *["CROSS"] * cross, _conjunction(conjuncts)]).strip()
        case Sampled():
            return "Sample"
        case Project(_, columns):
            return "Project " + ", ".join(f"{e} AS {name}" for name, e in columns)
        case Aggregate(_, keys, calls):
            by = [f"BY {', '.join(str(e) for _, e in keys)}"] if keys else []
            return " ".join(["Aggregate", ", ".join(str(c) for _, c in calls), *by]).replace("  ", " ")
        case ToStream(_, kind, every):
            return kind.capitalize() + (f" every {every}" if every else "")


def _conjunction(conjuncts: tuple[Expression, ...]) -> str:
    return " AND ".join(f"({c})" if getattr(c, "function", "") == "or" else str(c) for c in conjuncts)


def _keeping(keep: tuple[Expression, ...]) -> str:
    return f" keeping {' AND '.join(map(str, keep))}" if keep else ""


def _as(alias: str, name: str) -> str:
    return "" if alias == name else f" AS {alias}"
