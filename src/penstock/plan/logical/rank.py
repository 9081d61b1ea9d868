"""Ranks: the first rows of a relation, or of each of its groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import rank, window_rank
from penstock.engine.synopses.sorted_rows import SortKey
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread, SpreadError, TwoPhases
from penstock.plan.estimates import Estimated, SampleError, Sampling
from penstock.plan.facts import Named, NotNull
from penstock.plan.logical.operator import Needed, Unary, grows_if

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

RANKS = tuple(rank.KINDS)
"""The functions that rank rows."""


@dataclass(frozen=True)
class Rank(Unary):
    """Rows with ``skip < rank <= last`` in their group, by ``keys`` and then by all columns as they stand.

    ``kind`` is ``"row_number"``, ``"rank"`` or ``"dense_rank"``; ``shown`` is the column that holds it.
    """

    groups: tuple[str, ...]
    keys: tuple[SortKey, ...]
    kind: str = "row_number"
    skip: int = 0
    last: int | None = None
    shown: str | None = None

    in_chain = True

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *([(self.shown, pa.int32())] if self.shown else [])])

    def describe(self) -> str:
        by = f" BY {', '.join(self.groups)}" if self.groups else ""
        limits = f" > {self.skip}" * bool(self.skip) + f" <= {self.last}" * (self.last is not None)
        return f"Rank {self.kind.upper()}{limits}{by} ORDER {', '.join(map(str, self.keys))}"

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        kind = self.kind.upper()
        what = f"{kind} or ORDER BY ... LIMIT" if self.kind == "row_number" else kind
        raise SampleError(what, "use MAXIMIZE RESULTS, or leave SAMPLE out")

    @property
    def unfixed(self) -> str:
        return "LIMIT and ranks"

    @property
    def _of_windows(self) -> bool:
        """Whether the rows of a group enter and leave together, since its columns say when."""
        return self.input.pattern is Pattern.EXPIRING and self.input.determines_life(self.groups)

    @property
    def pattern(self) -> Pattern:
        """A row leaves when others come before it, or with its group."""
        return Pattern.EXPIRING if self._of_windows else grows_if(self.is_static)

    @property
    def longest_life(self) -> int | None:
        return self.input.longest_life if self._of_windows else None

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        return self._of_windows and self.input.determines_life(set(shown) - {self.shown})

    @property
    def is_momentary(self) -> bool:
        return self.input.is_momentary

    @property
    def _group_columns(self) -> Named:
        return tuple((name, Column(name, self.schema.field(name).type)) for name in self.groups)

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        return tuple(e for _, e in self._group_columns)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        if not self.groups or below[0].renamed(self._group_columns).keys is None:
            raise SpreadError("rows that are ranked together are in several partitions")
        return below[0]

    def two_phases(self, joins: bool) -> TwoPhases:
        """A row among the first of all is among the first of its partition; both stages rank."""
        partial = replace(self, skip=0, shown=None)
        first = partial.with_inputs if self.last is not None else (lambda rows: rows)
        return TwoPhases(first, self.with_inputs, self.groups)

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.exact(self.input)
        of_windows = self._of_windows and below.pattern is Pattern.EXPIRING and not below.corrects
        node, below = (window_rank.WindowRank, below) if of_windows else (rank.Rank, context.changing(below))
        shown = self.shown if self.shown in needed else None
        return node(below, self.groups, self.keys, self.kind, self.skip, self.last, shown)
