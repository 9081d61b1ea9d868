"""Grouping and aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.operators import aggregate, project
from penstock.engine.synopses.accumulators import DISTINCT
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread, SpreadError, TwoPhases
from penstock.plan.facts import Named, Origins, origins_of, reads
from penstock.plan.logical.aggregate_call import AggregateCall, combines, parts
from penstock.plan.logical.operator import Logical, Needed, Unary
from penstock.plan.logical.project import Project

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class Aggregate(Unary):
    """Grouping and aggregation; the schema is the keys, then the calls. Without keys it has one row."""

    keys: Named
    calls: tuple[tuple[str, AggregateCall], ...]

    in_chain = can_sample = True

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in (*self.keys, *self.calls)])

    def describe(self) -> str:
        by = [f"BY {', '.join(str(e) for _, e in self.keys)}"] if self.keys else []
        return " ".join(["Aggregate", ", ".join(str(c) for _, c in self.calls), *by]).replace("  ", " ")

    @property
    def origins(self) -> Origins:
        return origins_of(self.keys, self.input.origins)

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        return tuple(e for _, e in self.keys)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        grouped = below[0].renamed(self.keys)
        if grouped.keys is None:
            raise SpreadError("groups have rows in several partitions")
        return grouped

    def two_phases(self, joins: bool) -> TwoPhases:
        """Partial aggregates that are combined or, where a call has none, the rows brought together."""
        keys = tuple(name for name, _ in self.keys)
        whole = [call for _, call in self.calls if not combines(call)]
        if whole and not self.keys and not joins:
            raise SpreadError(f"{whole[0]} cannot be combined from partial results")
        if whole:
            return TwoPhases(self._arguments, self._over_arguments, keys)
        return TwoPhases(self._partial, self._final, keys)

    @property
    def _own_keys(self) -> Named:
        return tuple((name, Column(name, e.type)) for name, e in self.keys)

    def _arguments(self, below: Logical) -> Logical:
        arguments = {str(c.argument): c.argument for _, c in self.calls if c.argument is not None}
        beside = tuple((name, e) for name, e in arguments.items() if (name, e) not in self.keys)
        return Project(below, (*self.keys, *beside))

    def _over_arguments(self, below: Logical) -> Logical:
        calls = tuple(
            (name, c if c.argument is None else replace(c, argument=Column(str(c.argument), c.argument.type)))
            for name, c in self.calls
        )
        return Aggregate(below, self._own_keys, calls)

    def _partial(self, below: Logical) -> Logical:
        partial = {p[0]: p for name, call in self.calls for p in parts(name, call).partial}
        calls = tuple((n, AggregateCall(f, a, t)) for n, f, a, t in partial.values())
        return replace(self, input=below, calls=calls)

    def _final(self, below: Logical) -> Logical:
        """The combined aggregates, projected to the query's columns."""
        both = [(name, parts(name, call)) for name, call in self.calls]
        finals = [f for _, two in both for f in two.final]
        combining = tuple(
            (n, AggregateCall(f, Column(a, below.schema.field(a).type), t)) for n, f, a, t in finals
        )
        whole = Aggregate(below, self._own_keys, combining)
        return Project(whole, (*self._own_keys, *((name, two.result) for name, two in both)))

    def build(self, context: Builder, needed: Needed) -> Node:
        arguments = {str(c.argument): c.argument for _, c in self.calls if c.argument is not None}
        shown = (*self.keys, *((name, e) for name, e in arguments.items() if (name, e) not in self.keys))
        below = context.build(self.input, reads(e for _, e in shown))
        prepared = context.changing(project.Project(below, shown))
        functions = tuple(
            aggregate.AggregateColumn(name, _function(c), str(c.argument) if c.argument else None, c.type)
            for name, c in self.calls
        )
        return aggregate.Aggregate(prepared, tuple(name for name, _ in self.keys), functions)


def _function(call: AggregateCall) -> str:
    return call.function + DISTINCT if call.distinct else call.function
