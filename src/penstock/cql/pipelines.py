"""The statements of pipelines as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog import Definition, Input
from penstock.cql.names.scope import lookup
from penstock.cql.syntax.duration import is_bare, ticks
from penstock.cql.syntax.errors import did_you_mean, error
from penstock.cql.syntax.nodes import (
    Duration,
    PipelineDefinition,
    PipelineSwitch,
    QueryAlteration,
    QueryRegistration,
    RelationToStream,
)
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class CreatePipeline:
    """A pipeline over streams; ``split``: by stream lists of columns, ``keep`` in seconds, ``stages`` 1 or 2.

    ``columns``: by stream those that queries may read.

    Of what is None, the session's settings or the defaults apply.
    """

    name: str
    streams: tuple[str, ...]
    checkpoint: str | None = None
    keep: float | None = None
    split: dict[str, list[list[str]]] = field(default_factory=dict)
    trigger: str | None = None
    stages: int | None = None
    columns: dict[str, list[str]] = field(default_factory=dict)
    definition: exp.Expr = field(default_factory=PipelineDefinition, compare=False)
    """Where errors about streams and columns are reported."""


@dataclass(frozen=True)
class RegisterQuery:
    """A query for a pipeline, the session's only one if not named; its results go to the sink, if given.

    ``history``: it sees rows from before its registration, as far as windows of other queries have them.
    """

    name: str
    text: str
    expression: exp.Expr = field(compare=False)
    pipeline: str | None = None
    sink: str | None = None
    history: bool = False
    at: exp.Expr | None = field(default=None, compare=False)
    """Where errors about the sink are reported."""


@dataclass(frozen=True)
class DropQuery:
    """A pipeline, the only one if not named, ends a query."""

    name: str
    pipeline: str | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class SwitchPipeline:
    """START PIPELINE or STOP PIPELINE: ``action`` is "start" or "stop"."""

    action: str
    name: str


@dataclass(frozen=True)
class Alter:
    """ALTER QUERY or ALTER PIPELINE: a setting of a running query."""

    name: str
    setting: str
    value: str


PipelineStatement = CreatePipeline | RegisterQuery | DropQuery | SwitchPipeline | Alter


def pipeline_statement(node: exp.Expr, trigger: Callable[[exp.Expr | None], str | None]) -> PipelineStatement:
    """The statement that a syntax tree is; ``trigger`` reads a TRIGGER clause."""
    if isinstance(node, PipelineSwitch):
        return SwitchPipeline(node.args["kind"], node.name)
    if isinstance(node, QueryRegistration):
        return _registration(node)
    if isinstance(node, QueryAlteration):
        setting = node.args["setting"]
        return Alter(node.name, setting.name, setting.args["value"])
    assert isinstance(node, PipelineDefinition)
    if node.args.get("if_taken"):
        raise error("a pipeline is not replaced", node, f"write DROP PIPELINE {node.name} before it")
    streams, checkpoint = tuple(s.name for s in node.args["streams"]), node.args.get("checkpoint")
    split: dict[str, list[list[str]]] = {}
    for part in node.args["splits"]:
        split.setdefault(part.name, []).append([c.name for c in part.expressions])
    return CreatePipeline(
        node.name,
        streams,
        checkpoint.name if checkpoint else None,
        _keep(node.args.get("keep")),
        split,
        trigger(node.args.get("trigger")),
        node.args.get("stages"),
        {part.name: [c.name for c in part.expressions] for part in node.args.get("columns") or ()},
        node,
    )


def check_pipeline(statement: CreatePipeline, catalog: Mapping[str, Definition]) -> None:
    """Reject streams and columns that are not there."""
    node, read = statement.definition, {}
    for stream in node.args["streams"]:
        found = lookup(catalog, stream.name)
        if not isinstance(found, Input):
            what = f"pipeline {statement.name!r} reads {stream.name!r}"
            raise error(f"{what}, which is not a stream or relation", stream)
        read[stream.name] = found.schema.names
    for word in ("splits", "columns"):
        for part in node.args.get(word) or ():
            known = lookup(read, part.name)
            if known is None:
                hint = f"it reads {', '.join(read)}"
                raise error(f"'{part.name}' is not a stream of the pipeline", part.this, hint)
            for column in part.expressions:
                if column.name not in known:
                    near = did_you_mean(column.name, known, f"it has {', '.join(known)}")
                    raise error(f"'{part.name}' has no column '{column.name}'", column, near)


def _registration(node: QueryRegistration) -> RegisterQuery:
    query = node.args["query"]
    if not isinstance(query, exp.Query | RelationToStream):
        hint = f"write REGISTER QUERY {node.name} AS SELECT ..."
        raise error("REGISTER QUERY takes AS and a query", node, hint)
    pipeline, sink = node.args.get("pipeline"), node.args.get("sink")
    named = (pipeline.name if pipeline else None, sink.name if sink else None)
    history = bool(node.args.get("history"))
    return RegisterQuery(node.name, node.args["text"], query, *named, history, at=sink)


def _keep(given: Duration | None) -> float | None:
    if given is None:
        return None
    if is_bare(given):
        raise error("KEEP needs a unit", given, "write e.g. KEEP 2 HOURS")
    time = TimeDomain("integer", "milliseconds")
    return ticks(given, time, "KEEP", least=1) / time.ticks_per_second
