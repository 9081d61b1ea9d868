"""Semijoins and antijoins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.element import Pattern
from penstock.engine.operators import antijoin
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread, SpreadError
from penstock.plan.estimates import Estimated, Sampling, exactly
from penstock.plan.facts import Origins, reads
from penstock.plan.logical.join import AnyJoin
from penstock.plan.logical.operator import Binary, Logical, Needed, grows_if
from penstock.plan.logical.select import conjunction_text

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

_ID = "#left"
"""Column that numbers the rows of the left side."""


@dataclass(frozen=True)
class SemiJoin(Binary, AnyJoin):
    """Rows of ``left`` that have a match in ``right``; with ``anti``, those that have none.

    EXISTS and IN; NOT EXISTS and, with conjuncts that are true also where a comparison is NULL, NOT IN.
    """

    conjuncts: tuple[Expression, ...]
    anti: bool = False

    def describe(self) -> str:
        return f"{'Antijoin' if self.anti else 'Semijoin'} {conjunction_text(self.conjuncts)}"

    @property
    def unfixed(self) -> str:
        return "IN, EXISTS and semijoins"

    @property
    def pattern(self) -> Pattern:
        """A row leaves with its last match; in an antijoin, when the first match arrives."""
        right = self.right.is_static if self.anti else self.right.only_grows
        return grows_if(self.left.only_grows and right)

    @property
    def is_momentary(self) -> bool:
        return self.left.is_momentary

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        below, columns = self.left.stamped()
        return replace(self, left=below), columns

    @property
    def lacks_time(self) -> bool:
        return self.left.lacks_time

    @property
    def passed_on(self) -> tuple[Logical, ...]:
        return (self.left,)

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """A filter of sampled rows; which values a sample lacks is not known."""
        left, right = below
        exactly([right], "EXISTS or IN", "leave SAMPLE out of the subquery")
        conjuncts = tuple(left.over(c, sampling, "EXISTS or IN") for c in self.conjuncts)
        return replace(left, node=replace(self, left=left.node, right=right.node, conjuncts=conjuncts))

    @property
    def origins(self) -> Origins:
        return self.left.origins

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        left, right = below
        if right.everywhere:
            return left
        if left.everywhere:
            raise SpreadError("no single partition knows which rows have a match in the subquery")
        self.aligned(below, "the subquery is not correlated by a key that both sides are spread by")
        return left

    def build(self, context: Builder, needed: Needed) -> Node:
        wanted = {*needed, *reads(self.conjuncts)}
        left, right = (context.build(i, wanted) for i in self.inputs)
        if context.looks_up(left, right):
            shown, kind = tuple(n for n in left.schema.names if n in needed), "anti" if self.anti else "semi"
            return context.looked_up((left, right), self.inputs, self.conjuncts, shown, kind)
        left = context.identified(left, _ID)
        pairs = context.changing(context.joined([left, right], self.inputs, self.conjuncts, (_ID,)))
        return antijoin.Antijoin(left, pairs, _ID, self.anti)
