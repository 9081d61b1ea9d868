"""Rows that the query itself contains."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.evaluate import evaluate
from penstock.expression import Expression
from penstock.plan.facts import NotNull
from penstock.plan.logical.operator import Needed, StaticLeaf

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class Values(StaticLeaf):
    """VALUES as it stands in FROM: a static table of constants, of which ``rows`` has the same types each."""

    names: tuple[str, ...]
    rows: tuple[tuple[Expression, ...], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(n, e.type) for n, e in zip(self.names, self.rows[0], strict=True)])

    def describe(self) -> str:
        return f"Values {', '.join('(' + ', '.join(map(str, row)) + ')' for row in self.rows)}"

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        return True

    def build(self, context: Builder, needed: Needed) -> Node:
        """An input that the plan itself fills; its name tells other rows from these."""
        columns = [
            pa.concat_arrays([evaluate(row[at], {}, 1) for row in self.rows]) for at in range(len(self.names))
        ]
        name = f"values {zlib.crc32(self.describe().encode()):08x}"
        return context.constant(name, pa.Table.from_arrays(columns, schema=self.schema))
