"""The definitions that a session registers by name: inputs, tables, views, functions and sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from penstock.constraint import Constraints
from penstock.errors import CatalogError
from penstock.schema import RESERVED, TimeDomain, sql_name


@dataclass(frozen=True)
class InputOptions:
    """How the rows of an input arrive, as declared by DDL or Python and checked by ``cql.input_options``.

    ``timestamp`` is the column that holds the time, in ticks of ``time``; None where elements carry their
    time beside the row, and with ``arrival``, by which rows have the time of their batch. ``change`` is the
    column of a relation's log that holds '+' or '-'. ``skew`` and ``idle_after`` are in ticks; with
    ``adaptive`` the bound of disorder follows the disorder seen and is at most ``skew``. Rows whose
    ``heartbeat`` column is true only advance the time.

    Three decide to which partitions rows are sent, never what a query returns: ``rate`` in rows per
    second; ``partitioned_by``, columns whose equal values come from one partition of the source; ``heavy``,
    per column the values that a large share of the rows have. By ``constraints``, joins keep less.
    """

    time: TimeDomain = TimeDomain()
    timestamp: str | None = None
    change: str | None = None
    skew: int = 0
    idle_after: int | None = None
    heartbeat: str | None = None
    bad_rows: str = "error"
    rate: float | None = None
    partitioned_by: tuple[str, ...] = ()
    heavy: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    adaptive: bool = False
    arrival: bool = False
    constraints: Constraints = Constraints()


@dataclass(frozen=True)
class Input:
    """A registered stream, or relation that changes over time: a stream of rows marked + and −.

    ``schema`` is that of the rows a query sees. ``source`` is opaque to all but the host that reads it.
    ``ties``: the columns that order rows of equal timestamps, the stream's own or, with RESERVED names, some
    that the host adds; rows equal in them keep the order of their arrival. None: so do all rows.
    """

    name: str
    schema: pa.Schema
    options: InputOptions = InputOptions()
    kind: str = "stream"
    source: Any = field(default=None, compare=False)
    ties: pa.Schema | None = field(default=None, compare=False)
    producers: int = field(default=0, compare=False)
    """How many producers of its rows report their progress: the partitions of a query. 0: none does."""

    @staticmethod
    def over(
        columns: pa.Schema,
        name: str,
        kind: str,
        options: InputOptions,
        source: object,
        ties: pa.Schema | None = None,
    ) -> Input:
        """The input whose source has these columns.

        A query sees all columns of a stream; of a relation's log, not its timestamp, change and heartbeat.
        """
        apart = (options.timestamp, options.change, options.heartbeat) if kind == "relation" else ()
        schema = pa.schema([f for f in columns if f.name not in apart])
        return Input(name, schema, options, kind, source, ties)

    @property
    def is_relation(self) -> bool:
        return self.kind == "relation"


@dataclass(frozen=True)
class ViewDef:
    """A registered view, or stream defined by a query: CQL text that replaces its name in FROM.

    ``columns`` names its columns, if the definition does.
    """

    name: str
    text: str
    kind: str = "view"
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class FunctionDef:
    """A registered vectorised function: Arrow arrays in, an array-like of ``returns`` out."""

    name: str
    returns: pa.DataType
    function: Any = field(compare=False)
    kind: ClassVar[str] = "function"


@dataclass(frozen=True)
class TableDef:
    """A registered static table; running queries read it again every ``refresh_every`` seconds, if given."""

    name: str
    schema: pa.Schema
    source: Any = field(default=None, compare=False)
    refresh_every: float | None = field(default=None, compare=False)
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class SinkDef:
    """Where INSERT INTO writes: a format of Spark with a path (Kafka's is the topic), or a function.

    ``trigger`` is as in ``SET penstock.trigger``, ``checkpoint`` a directory; without them the session's
    apply. ``function`` gets the DataFrame and the number of each batch (Spark's ``foreachBatch``).
    """

    name: str
    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    trigger: str | None = None
    checkpoint: str | None = None
    function: Any = field(default=None, compare=False)
    kind: ClassVar[str] = "sink"


Definition = Input | TableDef | ViewDef | FunctionDef | SinkDef
"""Anything that has a name; ``kind`` is the word for it in DDL."""


class Catalog(dict[str, Definition]):
    """Definitions by name, ignoring case."""

    def add(self, definition: Definition, if_taken: str = "error") -> None:
        """Register a definition; a name that is taken is an error, is kept, or is replaced."""
        if isinstance(definition, Input | TableDef):
            _check_names(definition)
        taken = self.known(definition.name)
        if taken is not None:
            if if_taken == "keep":
                return
            if if_taken != "replace":
                hint = "drop it first, replace it or choose another name"
                raise CatalogError(f"{taken!r} already exists; {hint}")
            self.drop(taken, definition.kind)
        self[definition.name] = definition

    def drop(self, name: str, kind: str | None = None, if_exists: bool = False) -> None:
        """Remove a definition, which must be of the given kind."""
        known = self.known(name)
        if known is None:
            if if_exists:
                return
            registered = ", ".join(self) or "nothing"
            raise CatalogError(f"there is no {kind or 'stream or table'} {name!r}; registered: {registered}")
        found = self[known].kind
        if kind is not None and kind != found:
            raise CatalogError(f"{known!r} is a {found}, not a {kind}; use DROP {found.upper()}")
        del self[known]

    def listed(self, kind: str) -> list[tuple[str, str]]:
        """The names of a kind's definitions, and what they are: columns, the text of a query, a type."""
        return [(d.name, _summary(d)) for d in self.values() if d.kind == kind]

    def known(self, name: str) -> str | None:
        """The registered spelling of a name; None if it is not registered."""
        return next((n for n in self if n.casefold() == name.casefold()), None)

    def input(self, name: str) -> Input:
        """A stream or relation."""
        known = self.known(name)
        definition = self[known] if known else None
        if not isinstance(definition, Input):
            raise CatalogError(f"unknown stream {name!r}; registered: {', '.join(self)}")
        return definition

    def sink(self, name: str) -> SinkDef:
        """A sink."""
        known = self.known(name)
        definition = self[known] if known else None
        if not isinstance(definition, SinkDef):
            sinks = ", ".join(n for n, d in self.items() if isinstance(d, SinkDef)) or "none"
            raise CatalogError(f"there is no sink {name!r}; sinks: {sinks}")
        return definition


def _summary(definition: Definition) -> str:
    match definition:
        case ViewDef(text=text):
            return text
        case Input(schema=schema) | TableDef(schema=schema):
            return ", ".join(f"{f.name} {sql_name(f.type)}" for f in schema)
        case SinkDef():
            return _written_to(definition)
    returns = getattr(definition, "returns", None)
    return sql_name(returns) if isinstance(returns, pa.DataType) else ""


def _written_to(sink: SinkDef) -> str:
    """The clauses of a sink, without its options, which may have passwords."""
    path = "" if sink.path is None else f" '{sink.path}'"
    parts = f" PARTITIONED BY ({', '.join(sink.partitioned_by)})" if sink.partitioned_by else ""
    trigger = "" if sink.trigger is None else f" TRIGGER '{sink.trigger}'"
    checkpoint = "" if sink.checkpoint is None else f" CHECKPOINT '{sink.checkpoint}'"
    return f"TO {sink.format.upper()}{path}{parts}{trigger}{checkpoint}"


def described(definition: Input) -> dict[str, str]:
    """What is declared of the columns of an input, by column."""
    options = definition.options
    time = "" if options.time.kind == "timestamp" else f" in {options.time.unit}"
    seen = ", as seen" if options.adaptive else ""
    late = f", out of order by up to {options.time.length(options.skew)}{seen}" if options.skew else ""
    idle = f", idle after {options.time.length(options.idle_after)}" if options.idle_after is not None else ""
    found = {options.timestamp: f"the timestamp{time}{late}{idle}"} if options.timestamp else {}
    heavy = {column: f"heavy: {', '.join(map(str, values))}" for column, values in options.heavy}
    notes = {**heavy, **found}
    for column, what in _constrained(options.constraints):
        notes[column] = ", ".join(filter(None, [notes.get(column), what]))
    return notes


def _constrained(declared: Constraints) -> Iterator[tuple[str, str]]:
    """The constraints that each column is part of."""
    for column in declared.primary_key:
        yield column, "primary key" if len(declared.primary_key) == 1 else "part of the primary key"
    for reference in declared.references:
        for column, theirs in zip(reference.columns, reference.target_columns, strict=True):
            yield column, f"refers to {reference.target}.{theirs} within {reference.within}"
    for arrival in declared.arrivals:
        yield arrival.column, f"{arrival.kind} within {arrival.within}"


def _check_names(definition: Input | TableDef) -> None:
    """Reject names of columns that queries could not tell apart from others."""
    taken: set[str] = set()
    for name in definition.schema.names:
        if name.startswith(RESERVED):
            raise CatalogError(
                f"column {name!r} of {definition.name!r}: names that begin with {RESERVED} are reserved; "
                f"rename it"
            )
        if name.casefold() in taken:
            raise CatalogError(f"{definition.name!r} has two columns {name!r}, in any case; rename one")
        taken.add(name.casefold())


def check_count(name: str, value: object) -> None:
    """Reject an argument that is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CatalogError(f"{name}={value!r} is not a whole number of 1 or more")
