"""The timestamps of stream rows as columns, for what depends on the order in which rows came.

A row's time is the latest timestamp of the stream rows that it is joined from; those of a side of an outer
join without a match are NULL. Rows of tables and relations have none, nor has a row of an aggregate, a set
operation or DISTINCT, which may stand for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import BEFORE_TIME
from penstock.engine.operators import stamp
from penstock.expression import Call, Column, Expression, Literal
from penstock.plan.logical.operator import Logical, Needed, PerRow

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

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        return self, (Column(self.column, TICKS),)

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.build(self.input, [n for n in needed if n != self.column])
        return stamp.Stamp(below, self.column) if self.column in needed else below


def latest(columns: tuple[Column, ...], rows: Logical) -> Expression:
    """The time of rows, the last of their timestamps; that of a row without any is before all others."""
    time = columns[0] if len(columns) == 1 else Call("greatest", columns, TICKS)
    return Call("coalesce", (time, Literal(BEFORE_TIME, TICKS)), TICKS) if rows.lacks_time else time
