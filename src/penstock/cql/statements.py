"""Statements: CREATE, DROP, INSERT, REFRESH, SET, SHOW, DESCRIBE, EXPLAIN, and a query, as plain data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import Input, InputOptions, SinkDef, TableDef
from penstock.cql.expressions.coercion import from_sql
from penstock.cql.inputs import declared_options
from penstock.cql.pipelines import DropQuery, PipelineStatement, pipeline_statement
from penstock.cql.syntax.ddl_parser import STATEMENTS
from penstock.cql.syntax.duration import is_bare, ticks
from penstock.cql.syntax.errors import FIRST_WORDS, did_you_mean, error, unsupported
from penstock.cql.syntax.nodes import (
    DropDefinition,
    Duration,
    InputDefinition,
    Insertion,
    Inspection,
    PipelineDefinition,
    PipelineSwitch,
    QueryAlteration,
    QueryRegistration,
    RelationToStream,
    Setting,
    SinkDefinition,
    Source,
    TableDefinition,
    ViewDefinition,
)
from penstock.cql.syntax.parser import parse_duration, parse_expressions, split
from penstock.schema import TIMESTAMP, TimeDomain

RATE_SCHEMA = pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())])


@dataclass(frozen=True)
class SourceSpec:
    """Where rows come from: a format, a path (Kafka's is the topic, ``rate`` has none), reader options."""

    format: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateInput:
    """A stream, or a relation as the log of its changes; ``schema`` has all columns of the source."""

    kind: str
    name: str
    schema: pa.Schema
    options: InputOptions
    source: SourceSpec
    if_taken: str = "error"

    def definition(self, source: object = None) -> Input:
        """The catalog's entry; ``source`` is what the host reads it from, the spec if not given."""
        return Input.over(self.schema, self.name, self.kind, self.options, source or self.source)


@dataclass(frozen=True)
class CreateView:
    """A view, or (``kind`` "stream") a stream, defined by a query; :func:`define_view` makes its entry."""

    name: str
    kind: str
    text: str
    expression: exp.Expr = field(compare=False)
    columns: tuple[str, ...] = ()
    if_taken: str = "error"


@dataclass(frozen=True)
class CreateTable:
    """A static table in files; ``refresh_every`` is in seconds."""

    name: str
    schema: pa.Schema
    source: SourceSpec
    refresh_every: float | None = None
    if_taken: str = "error"

    def definition(self, source: object = None) -> TableDef:
        """The catalog's entry; ``source`` is what the host reads it from, the spec if not given."""
        return TableDef(self.name, self.schema, self.source if source is None else source, self.refresh_every)


@dataclass(frozen=True)
class CreateSink:
    """A sink, as the catalog has it."""

    sink: SinkDef
    if_taken: str = "error"

    @property
    def name(self) -> str:
        return self.sink.name


@dataclass(frozen=True)
class Refresh:
    """Running queries read a static table again."""

    name: str


@dataclass(frozen=True)
class Drop:
    """``kind`` is ``"stream"``, ``"relation"``, ``"table"``, ``"view"``, ``"sink"`` or ``"function"``."""

    kind: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SelectStatement:
    """A query, parsed and not yet bound; ``text`` is what was written."""

    expression: exp.Expr
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Insert:
    """A query that writes to a sink; ``at`` is where errors about the sink are reported."""

    sink: str
    query: SelectStatement
    at: exp.Expr = field(compare=False)


@dataclass(frozen=True)
class Set:
    """A setting, its value as written, without the quotes around it."""

    name: str
    value: str


@dataclass(frozen=True)
class Show:
    """SHOW STREAMS and the like; ``kind`` is as in :class:`Drop`."""

    kind: str


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name."""

    name: str


@dataclass(frozen=True)
class Explain:
    """EXPLAIN query."""

    query: SelectStatement


Create = CreateInput | CreateTable | CreateView | CreateSink
Statement = (
    Create | Drop | Insert | Refresh | Set | Show | Describe | Explain | SelectStatement | PipelineStatement
)
"""``if_taken`` of a definition says what it does if the name is taken: ``Catalog.add``."""


def parse(text: str) -> list[Statement]:
    """The statements of a text, separated by ``;``.

    >>> [type(s).__name__ for s in parse("DROP TABLE t; SELECT * FROM S [ROWS 2] -- the last two")]
    ['Drop', 'SelectStatement']
    """
    found = [statement(e) for e in parse_expressions(text)]
    parts = split(text)
    if len(parts) != len(found):
        return found
    return [_written_as(s, part) for s, part in zip(found, parts, strict=True)]


def _written_as(found: Statement, text: str) -> Statement:
    """A statement whose query has its text."""
    if isinstance(found, SelectStatement):
        return replace(found, text=text.strip())
    if isinstance(found, Insert):
        return replace(found, query=replace(found.query, text=text.strip()))
    return found


def statement(node: exp.Expr) -> Statement:
    """The statement that a syntax tree is."""
    if isinstance(node, InputDefinition):
        return _create_input(node)
    if isinstance(node, ViewDefinition):
        return _create_view(node)
    if isinstance(node, Setting):
        return Set(node.name, node.args["value"])
    if isinstance(node, TableDefinition):
        what = "CREATE TABLE"
        schema, source = _schema(node, what), _source(node, what)
        every = refresh_period(node.args.get("refresh"))
        return CreateTable(node.name, schema, source, every, _if_taken(node))
    if isinstance(node, SinkDefinition):
        return CreateSink(_sink(node), _if_taken(node))
    if isinstance(node, PipelineDefinition | PipelineSwitch | QueryRegistration | QueryAlteration):
        return pipeline_statement(node, _trigger)
    if isinstance(node, DropDefinition) and node.args["kind"] == "query":
        pipeline = node.args.get("pipeline")
        return DropQuery(node.name, pipeline.name if pipeline else None, bool(node.args.get("exists")))
    if isinstance(node, Insertion):
        return Insert(node.name, _written(node), node.this)
    if isinstance(node, exp.Refresh) and node.args.get("kind") == "TABLE":
        return Refresh(node.this.name)
    if isinstance(node, Inspection):
        return _inspection(node)
    if isinstance(node, DropDefinition):
        return Drop(node.args["kind"], node.name, bool(node.args.get("exists")))
    if isinstance(node, exp.Query | RelationToStream):
        return SelectStatement(node)
    if isinstance(node, exp.Alias | exp.Column):
        # Words that start no statement read like a column and its other name.
        word = next(node.find_all(exp.Identifier, bfs=False)).name
        hint = did_you_mean(word, FIRST_WORDS, STATEMENTS)
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


def _create_input(node: InputDefinition) -> CreateInput:
    what = f"CREATE {node.args['kind'].upper()}"
    source = _source(node, what)
    schema = RATE_SCHEMA if source.format == "rate" else _schema(node, what)
    options = declared_options(node, schema)
    return CreateInput(node.args["kind"], node.name, schema, options, source, _if_taken(node))


def _create_view(node: ViewDefinition) -> CreateView:
    query = node.args["query"]
    if not isinstance(query, exp.Query | RelationToStream):
        raise error(f"CREATE {node.args['kind'].upper()} takes AS and a query", node)
    columns = tuple(c.name for c in node.args.get("columns") or ())
    return CreateView(node.name, node.args["kind"], node.args["text"], query, columns, _if_taken(node))


def _if_taken(node: exp.Expr) -> str:
    return node.args.get("if_taken") or "error"


def _inspection(node: Inspection) -> Show | Describe | Explain:
    kind, inside, text = node.args["kind"], node.this, node.args["text"]
    if kind == "show":
        return Show(inside.name)
    if kind == "describe":
        return Describe(inside.name)
    query = statement(inside)
    if isinstance(query, Insert):
        return Explain(replace(query.query, text=inside.args["text"]))
    if not isinstance(query, SelectStatement):
        raise error("EXPLAIN takes a query", node, "write EXPLAIN SELECT ...")
    return Explain(replace(query, text=text))


def _schema(node: exp.Expr, what: str) -> pa.Schema:
    columns: Iterable[exp.Expr] = node.args.get("columns") or ()
    fields: dict[str, pa.Field] = {}
    for column in columns:
        if column.name.casefold() in fields:
            raise error(f"column '{column.name}' is defined twice", column)
        fields[column.name.casefold()] = pa.field(column.name, from_sql(column.args["kind"]))
    if not fields:
        raise error(f"{what} '{node.name}' needs its columns", node, "write (name TYPE, ...) after the name")
    return pa.schema(fields.values())


def refresh_period(length: str | dt.timedelta | Duration | None) -> float | None:
    """The period of REFRESH EVERY in seconds.

    >>> refresh_period("5 minutes")
    300.0
    """
    return None if length is None else seconds(length, "REFRESH EVERY")


def seconds(length: str | dt.timedelta | Duration, what: str) -> float:
    """A length of real time in seconds; ``what`` names it in errors.

    >>> seconds("1 HOUR 30 MINUTES", "KEEP")
    5400.0
    """
    if isinstance(length, dt.timedelta):
        return length.total_seconds()
    if isinstance(length, str):
        return seconds(parse_duration(length, "DISORDER"), what)
    if is_bare(length):
        raise error(f"{what} needs a unit", length, f"write e.g. {what} 5 MINUTES")
    time = TimeDomain("integer", "milliseconds")
    return ticks(length, time, what, least=1) / time.ticks_per_second


def _sink(node: SinkDefinition) -> SinkDef:
    format_, path = node.args.get("format"), node.args.get("path")
    if format_ is None:
        hint = "write e.g. TO PARQUET 'directory' or TO CONSOLE"
        raise error(f"CREATE SINK '{node.name}' needs a format", node, hint)
    name = format_.name if isinstance(format_, exp.Literal) else format_.name.lower()
    if name == "kafka" and path is None:
        raise error("TO KAFKA takes a topic in quotes", format_)
    if name.lower() in _NO_STREAMS:
        hint = "write with a function of each batch, ps.create_sink(name, function), and in it df.write"
        raise error(f"Spark does not write streams to {name.upper()}", format_, hint)
    checkpoint = node.args.get("checkpoint")
    return SinkDef(
        node.name,
        name,
        path.name if path else None,
        _options(node),
        tuple(c.name for c in node.args.get("partitioned_by") or ()),
        _trigger(node.args.get("trigger")),
        checkpoint.name if checkpoint else None,
    )


_NO_STREAMS = frozenset({"jdbc", "binaryfile", "libsvm", "image", "rate", "rate-micro-batch", "socket"})
"""The formats of Spark that take batches only, or are sources only, in lower case."""


def _trigger(given: exp.Expr | None) -> str | None:
    """A trigger as ``SET penstock.trigger`` takes it."""
    if isinstance(given, Duration):
        if is_bare(given):
            raise error("TRIGGER EVERY needs a unit", given, "write e.g. TRIGGER EVERY 5 SECONDS")
        return f"{ticks(given, TimeDomain('integer', 'milliseconds'), 'TRIGGER EVERY')} milliseconds"
    return given.name if given else None


def _written(node: Insertion) -> SelectStatement:
    query = node.args["query"]
    if not isinstance(query, exp.Query | RelationToStream) or isinstance(query, exp.Values):
        raise error("INSERT INTO takes a sink and a query", node, f"write INSERT INTO {node.name} SELECT ...")
    return SelectStatement(query)


def _source(node: exp.Expr, what: str) -> SourceSpec:
    source: Source | None = node.args.get("source")
    if source is None:
        raise error(f"{what} '{node.name}' needs a source", node, "write e.g. FROM PARQUET 'directory'")
    path, rate = source.args.get("path"), source.args.get("rate")
    options = _options(source)
    if rate is not None:
        options["rowsPerSecond"] = rate.name
    return SourceSpec(source.args["format"], path.name if path else None, options)


def _options(node: exp.Expr) -> dict[str, str]:
    return {o.this.name: _option(o.args["value"]) for o in node.args.get("options") or ()}


def _option(value: exp.Expr) -> str:
    return str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
