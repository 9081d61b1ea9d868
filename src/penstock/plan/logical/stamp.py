"""The timestamps of stream rows as columns, for what depends on the order in which rows came.

A row's time is the latest timestamp of the stream rows that it is joined from; those of a side of an outer
join without a match are NULL. Rows of tables and relations have none, nor has a row of an aggregate, a set
operation or DISTINCT, which may stand for several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import BEFORE_TIME
from penstock.engine.operators import stamp
from penstock.expression import Call, Column, Expression, Literal
from penstock.plan.logical.join import Join
from penstock.plan.logical.operator import Logical, Needed, PerRow
from penstock.plan.logical.outer_join import OuterJoin
from penstock.plan.logical.project import Project
from penstock.plan.logical.select import Select
from penstock.plan.logical.semi_join import SemiJoin
from penstock.plan.logical.sources import StreamSource
from penstock.plan.logical.window import Window

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

TICKS = pa.int64()


@dataclass(frozen=True)
class Stamp(PerRow):
    """A derived stream with the timestamps of its elements in the column ``column``."""

    column: str

    is_stream = True

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, (self.column, TICKS)])

    def describe(self) -> str:
        return f"Stamp {self.column}"

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.build(self.input, [n for n in needed if n != self.column])
        return stamp.Stamp(below, self.column) if self.column in needed else below


def stamped(node: Logical) -> tuple[Logical, tuple[Column, ...]]:
    """The plan with the timestamps of the stream rows that its rows are joined from, and their columns."""
    match node:
        case Window(StreamSource() as source):
            marked = replace(source, stamp=True)
            return replace(node, input=marked), (Column(marked.stamp_column, TICKS),)
        case Window(Stamp() as below):
            return node, (Column(below.column, TICKS),)
        case Window(below):
            name = f"{below.schema.names[0].rpartition('.')[0]}.#ts"
            return replace(node, input=Stamp(below, name)), (Column(name, TICKS),)
        case Select(below):
            rows, columns = stamped(below)
            return replace(node, input=rows), columns
        case Project(below, shown):
            rows, columns = stamped(below)
            return replace(node, input=rows, columns=(*shown, *((c.name, c) for c in columns))), columns
        case SemiJoin():
            rows, columns = stamped(node.left)
            return replace(node, left=rows), columns
        case Join() | OuterJoin():
            sides = [stamped(i) for i in node.inputs]
            return node.with_inputs(*(s for s, _ in sides)), tuple(c for _, found in sides for c in found)
    return node, ()


def latest(columns: tuple[Column, ...], rows: Logical) -> Expression:
    """The time of rows, the last of their timestamps; that of a row without any is before all others."""
    time = columns[0] if len(columns) == 1 else Call("greatest", columns, TICKS)
    return Call("coalesce", (time, Literal(BEFORE_TIME, TICKS)), TICKS) if _lacks_time(rows) else time


def _lacks_time(node: Logical) -> bool:
    """Whether rows may have no stream row in them, as an outer join has of a relation without a match."""
    match node:
        case Window():
            return False
        case OuterJoin():
            return any(map(_lacks_time, node.passed_on))
        case Join():
            return all(map(_lacks_time, node.inputs))
        case Select(below) | Project(below):
            return _lacks_time(below)
        case SemiJoin():
            return _lacks_time(node.left)
    return True
