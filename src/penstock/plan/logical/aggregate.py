"""Grouping and aggregation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import aggregate, project, window_aggregate
from penstock.expression import Call, Column, Expression, Literal
from penstock.functions import types
from penstock.functions.aggregate_call import AggregateCall, Parts
from penstock.functions.aggregates import parts
from penstock.plan.distribution import Distribution, Spread, SpreadError, TwoPhases
from penstock.plan.estimates import (
    CLUSTER,
    DOUBLE,
    WEIGHT,
    Estimated,
    SampleError,
    Sampling,
    Totals,
    double,
)
from penstock.plan.facts import Named, NotNull, Origins, origins_of, reads
from penstock.plan.logical.operator import Logical, Needed, Unary, UniqueKey
from penstock.plan.logical.project import Project

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.meaning import Meant, Reader


@dataclass(frozen=True)
class Aggregate(Unary):
    """Grouping and aggregation; the schema is the keys, then the calls. Without keys it has one row."""

    keys: Named
    calls: tuple[tuple[str, AggregateCall], ...]

    in_chain = True

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in (*self.keys, *self.calls)])

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        return ((tuple(name for name, _ in self.keys), False),) if self.keys else ()

    def describe(self) -> str:
        by = [f"BY {', '.join(str(e) for _, e in self.keys)}"] if self.keys else []
        return " ".join(["Aggregate", ", ".join(str(c) for _, c in self.calls), *by]).replace("  ", " ")

    @property
    def unfixed(self) -> str:
        return "aggregates"

    @cached_property
    def _of_windows(self) -> bool:
        """Whether the rows of a group enter and leave together, since its keys say when."""
        return self.input.pattern is Pattern.EXPIRING and self.input.determines_life(
            self._below(name for name, _ in self.keys)
        )

    def _below(self, shown: Iterable[str]) -> set[str]:
        """The columns of the input that keys show as they are."""
        wanted = set(shown)
        return {e.name for name, e in self.keys if isinstance(e, Column) and name in wanted}

    @property
    def pattern(self) -> Pattern:
        return Pattern.EXPIRING if self._of_windows else Pattern.CHANGING

    @property
    def longest_life(self) -> int | None:
        return self.input.longest_life if self._of_windows else None

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        return self._of_windows and self.input.determines_life(self._below(shown))

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """Two aggregates in place of one, by cluster and over clusters, whose sums the estimates read."""
        (rows,) = below
        self._check_sample(rows)
        read = frozenset().union(*(rows.parts_of(a) for _, call in self.calls for a in call.arguments))
        sampling.uses.update(dict.fromkeys(rows.joins, read))
        sampling.aggregates += 1
        totals = Totals(sampling.aggregates, rows.confidence)
        inside = {str(c): c for _, call in self.calls for c in _in_clusters(call)}
        within = (*self.keys, (CLUSTER.name, CLUSTER), (WEIGHT.name, WEIGHT))
        clusters = Aggregate(rows.node, within, tuple(inside.items()))
        factors = {name: e for _, call in self.calls for name, e in _factors(call, totals).items()}
        every = totals.sums(factors)
        wanted = {n: every[n] for n in every if n in (sampling.wanted or ())} or dict([*every.items()][:1])
        sums = tuple((name, AggregateCall("sum", e, DOUBLE)) for name, e in wanted.items())
        keys = self._own_keys
        counted = tuple((name, _or_zero(name, totals)) for name in wanted)
        node = Project(Aggregate(clusters, keys, sums), (*keys, *counted))
        estimates = {name: totals.estimate(call.function, call.argument) for name, call in self.calls}
        hidden = tuple(Column(name, DOUBLE) for name in wanted)
        return Estimated(node, tuple(self.schema.names), False, estimates, hidden)

    def _check_sample(self, rows: Estimated) -> None:
        """Reject what has no estimate."""
        if not rows.weighted:
            raise SampleError("an aggregate over estimates", "aggregate the rows of the sample once")
        read = [*(e for _, e in self.keys), *(a for _, c in self.calls for a in c.arguments)]
        if any(rows.reads_estimates(e) for e in read):
            raise SampleError("an aggregate over estimates", "aggregate the rows of the sample once")
        if not self.calls:
            raise SampleError("GROUP BY without an aggregate", "add SUM, COUNT or AVG")
        for _, call in self.calls:
            if call.function not in ESTIMATED or call.distinct or call.others:
                raise SampleError(str(call), "SUM, COUNT and AVG can be")
            if call.function != "count" and not all(types.is_numeric(a.type) for a in call.arguments):
                raise SampleError(str(call), "SUM, COUNT and AVG of numbers can be")

    @property
    def is_momentary(self) -> bool:
        """Groups exist while they have rows; without keys there is a row also over nothing."""
        return bool(self.keys) and self.input.is_momentary

    @property
    def origins(self) -> Origins:
        return origins_of(self.keys, self.input.origins)

    @property
    def bounds(self) -> frozenset[str]:
        below = self.input.bounds
        return frozenset(name for name, e in self.keys if isinstance(e, Column) and e.name in below)

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
        whole = [call for name, call in self.calls if parts(name, call) is None]
        if whole and not self.keys and not joins:
            raise SpreadError(f"{whole[0]} cannot be combined from partial results")
        if whole:
            return TwoPhases(self._arguments, self._over_arguments, keys)
        return TwoPhases(self._partial, self._final, keys)

    @property
    def _own_keys(self) -> Named:
        return tuple((name, Column(name, e.type)) for name, e in self.keys)

    @cached_property
    def _names(self) -> dict[Expression, str]:
        """The columns of the calls' arguments: named by their text, two that read the same apart."""
        names, taken = dict[Expression, str](), dict[str, Expression](self.keys)
        for argument in (a for _, c in self.calls for a in c.arguments):
            free = (str(argument) if n == 1 else f"{argument} #{n}" for n in count(1))
            name = next(n for n in free if taken.setdefault(n, argument) == argument)
            names[argument] = name
        return names

    @property
    def _shown(self) -> Named:
        """The keys, and the arguments of the calls."""
        arguments = ((name, e) for e, name in self._names.items())
        return (*self.keys, *(named for named in arguments if named not in self.keys))

    def _arguments(self, below: Logical) -> Logical:
        return Project(below, self._shown)

    def _over_arguments(self, below: Logical) -> Logical:
        return Aggregate(
            below, self._own_keys, tuple((name, self._over_columns(c)) for name, c in self.calls)
        )

    def _over_columns(self, call: AggregateCall) -> AggregateCall:
        """The call over columns that hold its arguments."""
        columns: list[Expression] = [Column(self._names[a], a.type) for a in call.arguments]
        return replace(call, argument=columns[0], others=tuple(columns[1:])) if columns else call

    @property
    def _parts(self) -> list[tuple[str, Parts]]:
        return [(name, two) for name, call in self.calls if (two := parts(name, call)) is not None]

    def _partial(self, below: Logical) -> Logical:
        partial = {p.name: p.call for _, two in self._parts for p in two.partial}
        return replace(self, input=below, calls=tuple(partial.items()))

    def _final(self, below: Logical) -> Logical:
        """The combined aggregates, projected to the query's columns."""
        combining = tuple((p.name, p.call) for _, two in self._parts for p in two.final)
        whole = Aggregate(below, self._own_keys, combining)
        return Project(whole, (*self._own_keys, *((name, two.result) for name, two in self._parts)))

    def meant(self, reader: Reader, below: Sequence[Meant]) -> Meant:
        (rows,) = below
        keys, calls = (
            {name: reader.text(e, rows.made_of) for name, e in own} for own in (self.keys, self.calls)
        )
        shown = f"{sorted(set(calls.values()))} by {sorted(set(keys.values()))}"
        return reader.made_by(f"{type(self).__name__} {shown} of [{rows.text}]", {**keys, **calls})

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.build(self.input, reads(e for _, e in self._shown))
        prepared = project.Project(below, self._shown)
        functions = tuple(
            aggregate.AggregateColumn(
                name,
                c.function,
                tuple(self._names[a] for a in c.arguments),
                c.type,
                c.distinct,
                c.constants,
                c.own,
            )
            for name, c in self.calls
        )
        keys = tuple(name for name, _ in self.keys)
        if self._of_windows and below.pattern is Pattern.EXPIRING and not below.corrects:
            return window_aggregate.WindowAggregate(prepared, keys, functions)
        return aggregate.Aggregate(context.changing(prepared), keys, functions)


def _over_columns(call: AggregateCall) -> AggregateCall:
    """The call over columns that hold its arguments."""
    columns: list[Expression] = [Column(str(a), a.type) for a in call.arguments]
    return replace(call, argument=columns[0], others=tuple(columns[1:])) if columns else call


# over a sample

ESTIMATED = ("sum", "count", "avg")
"""Functions that have an estimate from a sample."""


def _in_clusters(call: AggregateCall) -> list[AggregateCall]:
    """The aggregates of a cluster that a call is estimated from: how many values, and their sum."""
    count = AggregateCall("count", call.argument, pa.int64())
    if call.function == "count" or call.argument is None:
        return [count]
    return [count, AggregateCall("sum", double(call.argument), DOUBLE)]


def _factors(call: AggregateCall, totals: Totals) -> dict[str, Expression]:
    """The same by the names of the sums that they are parts of."""
    count, *total = _in_clusters(call)
    found = {totals.count(call.argument).name: double(Column(str(count), count.type))}
    if total and call.argument is not None:
        found[totals.total(call.argument).name] = Column(str(total[0]), DOUBLE)
    return found


def _or_zero(name: str, totals: Totals) -> Expression:
    """A sum over no clusters is 0; only that of no values is NULL."""
    column = Column(name, DOUBLE)
    return column if totals.is_total(name) else Call("coalesce", (column, Literal(0.0, DOUBLE)), DOUBLE)
