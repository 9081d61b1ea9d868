"""Selection."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.operators import select
from penstock.expression import Column, Expression
from penstock.plan.estimates import Estimated, Sampling
from penstock.plan.facts import NotNull, conjunction, for_host, not_null, reads, with_equal
from penstock.plan.logical.operator import Logical, Needed, PerRow, StreamRows, UniqueKey
from penstock.plan.logical.sources import FilteredByHost

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.meaning import Meant, Reader


@dataclass(frozen=True)
class Select(PerRow):
    """Rows for which every conjunct is true."""

    conjuncts: tuple[Expression, ...]

    def describe(self) -> str:
        return f"Select {conjunction_text(self.conjuncts)}"

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        certain = None if certain is None else {*certain, *not_null(self.conjuncts)}
        return self.input.determines_life(with_equal(shown, self.conjuncts), certain)

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        return self.input.unique_keys

    @property
    def stream_rows(self) -> StreamRows | None:
        rows = self.input.stream_rows
        return rows and replace(rows, filters=(*rows.filters, *self.conjuncts))

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        below, columns = self.input.stamped()
        return replace(self, input=below), columns

    @property
    def lacks_time(self) -> bool:
        return self.input.lacks_time

    @property
    def filtered(self) -> tuple[Logical, tuple[Expression, ...]]:
        return self.input, self.conjuncts

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """A filter of sampled rows, or of groups by estimates (HAVING), which is approximate."""
        (rows,) = below
        conjuncts = tuple(rows.over(c, sampling, "HAVING or WHERE") for c in self.conjuncts)
        return replace(rows, node=Select(rows.node, conjuncts))

    def meant(self, reader: Reader, below: Sequence[Meant]) -> Meant:
        (rows,) = below
        conjuncts = reader.conjuncts(self.conjuncts, rows.made_of)
        return rows._replace(text=f"select {conjuncts} of [{rows.text}]") if conjuncts else rows

    def build(self, context: Builder, needed: Needed) -> Node:
        """Predicates right above a stream or table are left to the host if it can evaluate them."""
        if not (isinstance(self.input, FilteredByHost) and context.filters_in_host(self.input)):
            below = context.build(self.input, {*needed, *reads(self.conjuncts)})
            return select.Select(below, self.conjuncts, context.filters)
        host = for_host(self.conjuncts)
        rest = tuple(c for c in self.conjuncts if c not in host)
        below = self.input.build_filtered(context, {*needed, *reads(rest)}, conjunction(host))
        return select.Select(below, rest, context.filters) if rest else below


def conjunction_text(conjuncts: tuple[Expression, ...]) -> str:
    """Conjuncts as text."""
    return " AND ".join(f"({c})" if getattr(c, "function", "") == "or" else str(c) for c in conjuncts)
