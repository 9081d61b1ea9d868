"""Rows several times, each with other values: what GROUPING SETS, ROLLUP and CUBE are grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.operators import project, union
from penstock.expression import Column
from penstock.plan.estimates import Estimated, SampleError, Sampling
from penstock.plan.facts import Named, reads
from penstock.plan.logical.operator import Needed, PerRow

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class Expand(PerRow):
    """Each row once per variant, with the columns of the variant added; all variants have the same names."""

    variants: tuple[Named, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *((name, e.type) for name, e in self.variants[0])])

    def describe(self) -> str:
        shown = ("(" + ", ".join(str(e) for _, e in variant) + ")" for variant in self.variants)
        return f"Expand {', '.join(name for name, _ in self.variants[0])}: {', '.join(shown)}"

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """Every grouping set is a grouping of the same sample."""
        (rows,) = below
        if any(rows.reads_estimates(e) for variant in self.variants for _, e in variant):
            raise SampleError("an aggregate over estimates", "aggregate the rows of the sample once")
        made_of = {**rows.made_of, **{name: rows.parts_of(e) for v in self.variants for name, e in v}}
        names = tuple(self.schema.names)
        return replace(rows, node=Expand(rows.node, self.variants), names=names, made_of=made_of)

    @property
    def counts_columns(self) -> bool:
        return False

    def build(self, context: Builder, needed: Needed) -> Node:
        added = [tuple((name, e) for name, e in variant if name in needed) for variant in self.variants]
        wanted = {*needed, *reads(e for variant in added for _, e in variant)}
        below = context.build(self.input, [f.name for f in self.input.schema if f.name in wanted])
        own = tuple((f.name, Column(f.name, f.type)) for f in self.input.schema if f.name in needed)
        return union.Union(tuple(project.Project(below, (*own, *variant)) for variant in added))
