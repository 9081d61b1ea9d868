"""Each row once, and one row at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.element import Pattern
from penstock.engine.operators import duplicate_eliminate, single
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread, SpreadError, TwoPhases
from penstock.plan.estimates import Estimated, SampleError, Sampling
from penstock.plan.logical.operator import Logical, Needed, Unary, UniqueKey, grows_if
from penstock.plan.logical.project import renamed

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class Distinct(Unary):
    """Each row once."""

    in_chain = True

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, input=renamed(self.input, names))

    @property
    def unfixed(self) -> str:
        return "DISTINCT"

    @property
    def pattern(self) -> Pattern:
        """A row enters with the first of its duplicates and leaves with the last."""
        return grows_if(self.input.only_grows)

    @property
    def is_momentary(self) -> bool:
        return self.input.is_momentary

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        return ((tuple(self.schema.names), False),)

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        return tuple(Column(f.name, f.type) for f in self.schema)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        if below[0].keys is None:
            raise SpreadError("equal rows of DISTINCT are in several partitions")
        return below[0]

    def two_phases(self, joins: bool) -> TwoPhases:
        """Both stages eliminate duplicates: the first leaves less to send."""
        return TwoPhases(self.with_inputs, self.with_inputs, tuple(self.schema.names))

    @property
    def counts_columns(self) -> bool:
        return False

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.changing(context.exact(self.input))
        return duplicate_eliminate.DuplicateEliminate((below,))


@dataclass(frozen=True)
class Single(Unary):
    """At most one row: a scalar subquery's relation. More than one at an instant is an error."""

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, input=renamed(self.input, names))

    @property
    def unfixed(self) -> str:
        return "scalar subqueries"

    @property
    def pattern(self) -> Pattern:
        return grows_if(self.input.only_grows)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        raise SpreadError("a scalar subquery must have all its rows in one partition")

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        (row,) = below
        if row.weighted:
            raise SampleError("a scalar subquery without an aggregate", "write SUM, COUNT or AVG")
        return replace(row, node=Single(row.node))

    def build(self, context: Builder, needed: Needed) -> Node:
        return single.Single(context.changing(context.build(self.input, needed)))
