"""The logical plan: what a bound query asks for, in the papers' algebra.

The binder in ``cql`` builds it, the rules in ``plan/rules`` rewrite it, ``plan/physical`` turns it into
the operators that ``engine`` runs. Nodes are frozen; a rewrite makes new ones.

Column names are unique within a node's schema. Below the topmost project they are qualified by the
alias under which their source appears (``"C.pid"``); the topmost project gives them their output names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.catalog import StreamDef, TableDef
from penstock.expression import Expression
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class StreamSource:
    """A stream as it stands in FROM. ``schema`` has the names qualified by ``alias``."""

    stream: StreamDef
    alias: str
    schema: pa.Schema


@dataclass(frozen=True)
class TableSource:
    """A static table as it stands in FROM."""

    table: TableDef
    alias: str
    schema: pa.Schema


@dataclass(frozen=True)
class WindowSpec:
    """``rows``: the last ``size`` rows (per ``partition_by`` group); ``range``: the last ``size`` ticks.

    ``size`` None is UNBOUNDED; ``[NOW]`` is range 0. ``text`` is how the user wrote it, or how the
    default that was filled in reads.
    """

    kind: str
    size: int | None
    partition_by: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Window:
    """stream-to-relation, over a stream or what a filter that commutes with the window leaves of it."""

    input: StreamSource | Select
    spec: WindowSpec

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
class Project:
    """Duplicate-preserving projection to named expressions."""

    input: Logical
    columns: tuple[tuple[str, Expression], ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in self.columns])


@dataclass(frozen=True)
class AggregateCall:
    """``count`` (with no argument: COUNT(*)), ``sum``, ``avg``, ``min`` or ``max`` of an expression."""

    function: str
    argument: Expression | None
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.function.upper()}({'*' if self.argument is None else self.argument})"


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


Logical = StreamSource | TableSource | Window | Select | Join | Project | Aggregate | ToStream


@dataclass(frozen=True)
class Query:
    """A bound query: its plan, the time it runs in, and what was filled in for the user (for explain)."""

    root: Logical
    time: TimeDomain
    notes: tuple[str, ...] = field(default=())


def inputs(node: Logical) -> tuple[Logical, ...]:
    """The nodes a node reads."""
    if isinstance(node, Join):
        return node.inputs
    if isinstance(node, StreamSource | TableSource):
        return ()
    return (node.input,)


def stream_of(window: Window) -> StreamSource:
    """The stream below a window."""
    return window.input if isinstance(window.input, StreamSource) else _only_source(window.input)


def _only_source(select: Select) -> StreamSource:
    assert isinstance(select.input, StreamSource)
    return select.input


def rewrite(node: Logical, rule: Callable[[Logical], Logical]) -> Logical:
    """Apply a rule to every node, inputs first."""
    if isinstance(node, Join):
        node = replace(node, inputs=tuple(rewrite(i, rule) for i in node.inputs))
    elif not isinstance(node, StreamSource | TableSource):
        node = replace(node, input=rewrite(node.input, rule))  # type: ignore[arg-type]
    return rule(node)


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
        case Window(_, spec):
            source = stream_of(node)
            return f"Window {source.stream.name} {spec.text}" + _as(source.alias, source.stream.name)
        case Select(_, conjuncts):
            return f"Select {_conjunction(conjuncts)}"
        case Join(_, conjuncts, cross):
            return " ".join(["Join", *["CROSS"] * cross, _conjunction(conjuncts)]).strip()
        case Project(_, columns):
            return "Project " + ", ".join(f"{e} AS {name}" for name, e in columns)
        case Aggregate(_, keys, calls):
            by = [f"BY {', '.join(str(e) for _, e in keys)}"] if keys else []
            return " ".join(["Aggregate", ", ".join(str(c) for _, c in calls), *by]).replace("  ", " ")
        case ToStream(_, kind, every):
            return kind.capitalize() + (f" every {every}" if every else "")


def _conjunction(conjuncts: tuple[Expression, ...]) -> str:
    return " AND ".join(f"({c})" if getattr(c, "function", "") == "or" else str(c) for c in conjuncts)


def _as(alias: str, name: str) -> str:
    return "" if alias == name else f" AS {alias}"
