"""The physical plan: stages of operators, and what the host does before, between and after them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.catalog import Input, TableDef
from penstock.engine.shares import Epochs
from penstock.engine.stage import Stage
from penstock.expression import Expression
from penstock.routing import Route
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class SourceInput:
    """How the host prepares one stream for a stage.

    ``columns`` are what the engine gets, named as the stage input's schema names them; ``filter`` is
    evaluated by the host. Both are written over the stream's columns qualified by ``alias``
    (``"C.pid"``). ``route`` says to which partitions a row goes. Rows of a relation go with the column
    ``SIGN``, made of its ``change`` column. ``ties`` are the columns that order rows of equal timestamps, if
    that matters; all partitions get them. ``epochs``: those by which rows are counted, if that is so.
    """

    name: str
    alias: str
    stream: Input
    columns: tuple[tuple[str, Expression], ...]
    filter: Expression | None = None
    route: Route = Route()
    ties: pa.Schema | None = field(default=None, compare=False)
    epochs: Epochs | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableInput:
    """A static table for a stage: read by the host, and whole in every partition."""

    name: str
    alias: str
    table: TableDef
    columns: tuple[tuple[str, Expression], ...]
    filter: Expression | None = None


@dataclass(frozen=True)
class ExchangeInput:
    """Elements of the stage before, moved by the hash of ``partition_by`` (column names of its output)."""

    name: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedStage:
    """A stage, its number of partitions, and where its inputs come from.

    ``why``: the reason if there is only one partition. ``notes``: the cube whose cells the partitions are,
    and other remarks for explain.
    """

    stage: Stage
    partitions: int
    inputs: tuple[SourceInput | TableInput | ExchangeInput, ...]
    why: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PhysicalPlan:
    """A chain of stages; the last one's elements are the result.

    ``shared_memory``: the bytes that the first stage shares with other queries, if it does.
    ``kind`` is ``"stream"`` (only insertions) or ``"relation"`` (a changelog). ``schema`` is the
    payload of a result element. ``warnings`` are for whoever makes the query.
    """

    stages: tuple[PlannedStage, ...]
    time: TimeDomain
    kind: str
    schema: pa.Schema
    notes: tuple[str, ...] = field(default=())
    shared_memory: int | None = None
    warnings: tuple[str, ...] = ()
