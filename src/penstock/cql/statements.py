"""Statements: CREATE, DROP, SET, and a query, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.catalog import RelationDef, StreamDef, TableDef, Traffic
from penstock.cql.expressions import types
from penstock.cql.syntax.ddl_parser import STATEMENTS
from penstock.cql.syntax.dialect import CQL
from penstock.cql.syntax.duration import ticks
from penstock.cql.syntax.errors import did_you_mean, error, from_sqlglot, unsupported
from penstock.cql.syntax.ignored import refuse_what_is_ignored
from penstock.cql.syntax.nodes import (
    DropDefinition,
    RelationToStream,
    Setting,
    Source,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
)
from penstock.cql.syntax.typos import meant
from penstock.errors import CQLError, UnsupportedError
from penstock.schema import TICKS_PER_SECOND, TIMESTAMP, TIMESTAMP_TIME, TimeDomain

RATE_SCHEMA = pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())])


@dataclass(frozen=True)
class SourceSpec:
    """Where rows come from: a format, a path (Kafka's is the topic, ``rate`` has none), reader options."""

    format: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateStream:
    """``skew`` and ``idle_after`` are in ticks of ``time``; ``bad_rows`` is "error" or "count"."""

    name: str
    schema: pa.Schema
    timestamp: str
    time: TimeDomain
    source: SourceSpec
    skew: int = 0
    idle_after: int | None = None
    bad_rows: str = "error"
    traffic: Traffic = Traffic()

    def definition(self, source: object = None) -> StreamDef:
        """The catalog's entry; ``source`` is what the host reads it from, the spec if not given."""
        return StreamDef(
            self.name,
            self.schema,
            self.time,
            self.timestamp,
            self.skew,
            self.idle_after,
            source=self.source if source is None else source,
            traffic=self.traffic,
        )


@dataclass(frozen=True)
class CreateRelation:
    """A relation as a log of its changes; ``schema`` has all columns of the log.

    The column ``change`` holds '+' where a row enters and '-' where one leaves.
    """

    name: str
    schema: pa.Schema
    timestamp: str
    change: str
    time: TimeDomain
    source: SourceSpec
    skew: int = 0
    idle_after: int | None = None
    bad_rows: str = "error"
    traffic: Traffic = Traffic()

    def definition(self, source: object = None) -> RelationDef:
        """The catalog's entry, whose schema is the relation's own: neither its time nor its changes."""
        own = [f for f in self.schema if f.name not in (self.timestamp, self.change)]
        return RelationDef(
            self.name,
            pa.schema(own),
            self.time,
            self.timestamp,
            self.change,
            self.skew,
            self.idle_after,
            source=self.source if source is None else source,
            traffic=self.traffic,
        )


@dataclass(frozen=True)
class CreateView:
    """A view, or (``kind`` "stream") a stream, defined by a query; :func:`define_view` makes its entry."""

    name: str
    kind: str
    text: str
    expression: exp.Expr = field(compare=False)


@dataclass(frozen=True)
class CreateTable:
    """A static table in files."""

    name: str
    schema: pa.Schema
    source: SourceSpec

    def definition(self, source: object = None) -> TableDef:
        """The catalog's entry; ``source`` is what the host reads it from, the spec if not given."""
        return TableDef(self.name, self.schema, self.source if source is None else source)


@dataclass(frozen=True)
class Drop:
    """``kind`` is ``"stream"``, ``"relation"``, ``"table"``, ``"view"`` or ``"function"``."""

    kind: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SelectStatement:
    """A query, parsed and not yet bound."""

    expression: exp.Expr


@dataclass(frozen=True)
class Set:
    """A setting, its value as written, without the quotes around it."""

    name: str
    value: str


Statement = CreateStream | CreateRelation | CreateTable | CreateView | Drop | Set | SelectStatement


def parse(text: str) -> list[Statement]:
    """The statements of a text, separated by ``;``.

    >>> [type(s).__name__ for s in parse("DROP TABLE t; SELECT * FROM S [ROWS 2] -- the last two")]
    ['Drop', 'SelectStatement']
    """
    return [statement(e) for e in parse_expressions(text)]


def parse_expressions(text: str) -> list[exp.Expr]:
    """The syntax trees of a text."""
    try:
        parsed = _parsed(text)
    except UnsupportedError:
        raise
    except CQLError as failure:
        raise (None if failure.hint else meant(text, failure, _parsed)) or failure from None
    statements = [e for e in parsed if e is not None and not isinstance(e, exp.Semicolon)]
    for node in statements:
        refuse_what_is_ignored(node)
    return statements


def _parsed(text: str) -> list[exp.Expr | None]:
    try:
        return CQL().parse(text)
    except SqlglotError as failure:
        raise from_sqlglot(failure, text) from None


def statement(node: exp.Expr) -> Statement:
    """The statement that a syntax tree is."""
    if isinstance(node, StreamDefinition):
        return _create_relation(node) if node.args["kind"] == "relation" else _create_stream(node)
    if isinstance(node, ViewDefinition):
        return _create_view(node)
    if isinstance(node, Setting):
        return Set(node.name, node.args["value"])
    if isinstance(node, TableDefinition):
        return CreateTable(node.name, _schema(node, "CREATE TABLE"), _source(node, "CREATE TABLE"))
    if isinstance(node, DropDefinition):
        return Drop(node.args["kind"], node.name, bool(node.args.get("exists")))
    if isinstance(node, exp.Query | RelationToStream):
        return SelectStatement(node)
    if isinstance(node, exp.Alias | exp.Column):
        # Words that start no statement read like a column and its other name.
        word = next(node.find_all(exp.Identifier, bfs=False)).name
        hint = did_you_mean(word, ("SELECT", "CREATE", "DROP", "SET"), STATEMENTS)
        raise error(f"no statement starts with '{word}'", node, hint)
    word = node.name.upper() if isinstance(node, exp.Command) else node.key.upper()
    raise unsupported(f"the statement {word}", node, STATEMENTS)


def schema_of(text: str) -> pa.Schema:
    """A schema as SQL writes it.

    >>> schema_of("a INT, b STRING").names
    ['a', 'b']
    """
    (node,) = parse_expressions(f"CREATE TABLE t ({text})")
    return _schema(node, "a schema")


def duration_ticks(text: str, time: TimeDomain, what: str = "interval") -> int:
    """A length of time as text (``"2 seconds"``, or ``"5"`` ticks) in ticks of ``time``."""
    (node,) = parse_expressions(f"CREATE STREAM s SKEW {text}")
    return ticks(node.args["skew"], time, what)


def _create_stream(node: StreamDefinition) -> CreateStream:
    if node.args.get("change"):
        hint = "write CREATE RELATION, or leave CHANGE BY out"
        raise error(f"stream '{node.name}' has only insertions", node.args["change"], hint)
    source = _source(node, "CREATE STREAM")
    schema = RATE_SCHEMA if source.format == "rate" else _schema(node, "CREATE STREAM")
    timestamp = _timestamp(node, schema)
    time = _time(node, timestamp)
    rest = (*_skew_and_idle(node, time), _bad_rows(node), declared_traffic(node, schema))
    return CreateStream(node.name, schema, timestamp.name, time, source, *rest)


def _create_relation(node: StreamDefinition) -> CreateRelation:
    source, schema = _source(node, "CREATE RELATION"), _schema(node, "CREATE RELATION")
    timestamp = _timestamp(node, schema)
    change, time = _change(node, schema), _time(node, timestamp)
    if len(schema) == 2:
        raise error(f"relation '{node.name}' has no column but its time and its changes", node)
    rest = (*_skew_and_idle(node, time), _bad_rows(node), declared_traffic(node, schema))
    return CreateRelation(node.name, schema, timestamp.name, change.name, time, source, *rest)


def _create_view(node: ViewDefinition) -> CreateView:
    query = node.args["query"]
    if not isinstance(query, exp.Query | RelationToStream):
        raise error(f"CREATE {node.args['kind'].upper()} takes AS and a query", node)
    return CreateView(node.name, node.args["kind"], node.args["text"], query)


def _skew_and_idle(node: StreamDefinition, time: TimeDomain) -> tuple[int, int | None]:
    skew, idle = node.args.get("skew"), node.args.get("idle_after")
    return (
        ticks(skew, time, "SKEW") if skew else 0,
        ticks(idle, time, "IDLE AFTER", least=1) if idle else None,
    )


def declared_traffic(node: StreamDefinition, schema: pa.Schema) -> Traffic:
    """What RATE, PARTITIONED BY and HEAVY say."""
    rate, by = node.args.get("rate"), node.args.get("partitioned_by") or ()
    heavy: dict[str, tuple[object, ...]] = {}
    for clause in node.args.get("heavy") or ():
        column = _column(clause.this, schema, "HEAVY")
        values = tuple(_heavy_value(e, column) for e in clause.expressions)
        heavy[column.name] = (*heavy.get(column.name, ()), *values)
    columns = tuple(_column(c, schema, "PARTITIONED BY").name for c in by)
    return Traffic(float(rate.name) if rate else None, columns, tuple(heavy.items()))


def _heavy_value(node: exp.Expr, column: pa.Field) -> object:
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal | exp.Boolean):
        raise error("HEAVY takes values: numbers, text in quotes, TRUE or FALSE", node)
    text = ("-" if negative else "") + str(literal.this)
    try:
        return pa.scalar(text).cast(column.type).as_py()
    except pa.ArrowInvalid:
        message = f"{text!r} is no value of the column '{column.name}'"
        raise error(message, node, f"it is {types.sql_name(column.type)}") from None


def _bad_rows(node: StreamDefinition) -> str:
    said = node.args.get("bad_rows")
    return said.name if said else "error"


def _change(node: StreamDefinition, schema: pa.Schema) -> pa.Field:
    if node.args.get("change") is None:
        hint = "add CHANGE BY with the column that holds '+' or '-'"
        raise error(f"relation '{node.name}' does not say how it changes", node, hint)
    found = _column(node.args["change"], schema, "CHANGE BY")
    if not types.is_string(found.type):
        message = f"CHANGE BY column '{found.name}' is {types.sql_name(found.type)}"
        raise error(message, node.args["change"], "it holds '+' or '-', so it is a STRING")
    return found


def _timestamp(node: StreamDefinition, schema: pa.Schema) -> pa.Field:
    column = node.args.get("timestamp")
    if column is None:
        raise error(
            f"{node.args['kind']} '{node.name}' has no timestamp",
            node,
            "add TIMESTAMP BY with the column that holds the time",
        )
    return _column(column, schema, "TIMESTAMP BY")


def _column(column: exp.Expr, schema: pa.Schema, clause: str) -> pa.Field:
    found = [f for f in schema if f.name.casefold() == column.name.casefold()]
    if not found:
        hint = did_you_mean(column.name, schema.names, f"the columns are {', '.join(schema.names)}")
        raise error(f"{clause} names an unknown column '{column.name}'", column, hint)
    return found[0]


def _time(node: StreamDefinition, timestamp: pa.Field) -> TimeDomain:
    unit, type_ = node.args.get("unit"), timestamp.type
    if types.is_integer(type_):
        return TimeDomain("integer", _unit(unit))
    if not types.is_timestamp(type_):
        raise error(
            f"TIMESTAMP BY column '{timestamp.name}' is {types.sql_name(type_)}",
            node.args["timestamp"],
            "the time of a stream is a TIMESTAMP or an integer",
        )
    if unit is not None:
        raise error(f"IN {unit.name.upper()} is for integer columns, and this is a TIMESTAMP", unit)
    return TIMESTAMP_TIME


def _unit(unit: exp.Expr | None) -> str:
    if unit is None:
        return "seconds"
    name = unit.name.lower()
    name = name if name.endswith("s") else f"{name}s"
    if name not in TICKS_PER_SECOND:
        raise error(f"unknown unit of time '{unit.name}'", unit, f"use {', '.join(TICKS_PER_SECOND).upper()}")
    return name


def _schema(node: exp.Expr, what: str) -> pa.Schema:
    columns: Iterable[exp.Expr] = node.args.get("columns") or ()
    fields: dict[str, pa.Field] = {}
    for column in columns:
        if column.name.casefold() in fields:
            raise error(f"column '{column.name}' is defined twice", column)
        fields[column.name.casefold()] = pa.field(column.name, types.from_sql(column.args["kind"]))
    if not fields:
        raise error(f"{what} '{node.name}' needs its columns", node, "write (name TYPE, ...) after the name")
    return pa.schema(fields.values())


def _source(node: exp.Expr, what: str) -> SourceSpec:
    source: Source | None = node.args.get("source")
    if source is None:
        raise error(f"{what} '{node.name}' needs a source", node, "write e.g. FROM PARQUET 'directory'")
    path, rate = source.args.get("path"), source.args.get("rate")
    options = {o.this.name: _option(o.args["value"]) for o in source.args.get("options") or ()}
    if rate is not None:
        options["rowsPerSecond"] = rate.name
    return SourceSpec(source.args["format"], path.name if path else None, options)


def _option(value: exp.Expr) -> str:
    return str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
