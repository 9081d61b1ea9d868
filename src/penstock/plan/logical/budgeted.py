"""A join within a budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.budget import Sample, Within
from penstock.engine.element import Pattern
from penstock.plan.distribution import Distribution, Spread
from penstock.plan.estimates import CLUSTER, WEIGHT, Estimated, Sampling, exactly
from penstock.plan.facts import NotNull
from penstock.plan.logical.join import Join
from penstock.plan.logical.operator import Logical, Needed, Unary

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class Budgeted(Unary):
    """An inner join of two relations that may hold a part of their rows only, and so finds a part of its own.

    ``weighted``: its rows are a sample and carry weight and cluster. ``aggregated``: operators above
    aggregate the sample; ``constant``: only columns of one side of the join.
    """

    within: Within
    weighted: bool = False
    aggregated: bool = False
    constant: bool = False

    @property
    def samples(self) -> bool:
        return isinstance(self.within.goal, Sample)

    @property
    def join(self) -> Join:
        """The join that the budget is for."""
        assert isinstance(self.input, Join)
        return self.input

    @cached_property
    def schema(self) -> pa.Schema:
        beside = [(c.name, c.type) for c in (WEIGHT, CLUSTER) if self.weighted]
        return pa.schema([*self.input.schema, *beside])

    def describe(self) -> str:
        return f"Within {self.within}"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    @property
    def longest_life(self) -> int | None:
        return self.input.longest_life

    @property
    def passed_on(self) -> tuple[Logical, ...]:
        """None: a budget above is for another join."""
        return ()

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        return self.input.determines_life(shown, certain)

    @property
    def unfixed(self) -> str:
        return self.input.unfixed

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return below[0]

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        exactly(below, "a join within a budget", "leave WITHIN out of one of the queries")
        (rows,) = below
        assert isinstance(self.within.goal, Sample)
        read = sampling.uses.get(id(self))
        constant = bool(read) and any(read <= set(i.schema.names) for i in self.join.parts if read)
        node = replace(self, input=rows.node, weighted=True, aggregated=read is not None, constant=constant)
        own = {name: frozenset([name]) for name in rows.names}
        confidence = self.within.goal.confidence
        return Estimated(node, rows.names, True, {}, (WEIGHT, CLUSTER), confidence, (id(self),), own)

    def build(self, context: Builder, needed: Needed) -> Node:
        own = [n for n in needed if n in self.input.schema.names]
        return context.budgeted(self, context.build(self.input, own))
