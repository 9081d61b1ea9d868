"""stream-to-relation: windows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.element import Pattern
from penstock.engine.operators import select, seq_window
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread, SpreadError
from penstock.plan.facts import for_host, reads
from penstock.plan.logical.operator import Logical, Needed, Unary
from penstock.plan.logical.select import Select
from penstock.plan.logical.sources import StreamSource

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class WindowSpec:
    """``rows``: the last ``size`` rows (per ``partition_by`` group); ``range``: the last ``size`` ticks.

    ``size`` None is UNBOUNDED; ``[NOW]`` is range 0. ``text`` is how the user wrote it, or how the
    default that was filled in reads. With ``slide`` the window moves on only at multiples of it: of ticks
    since time 0 for ``range``, of rows arrived (in the partition) for ``rows``.
    """

    kind: str
    size: int | None
    partition_by: tuple[str, ...] = ()
    text: str = ""
    slide: int | None = None

    @property
    def is_now(self) -> bool:
        """Whether a row is there at the instant of its timestamp alone."""
        return self.kind == "range" and self.size == 0 and self.slide is None

    @property
    def by_rows(self) -> bool:
        """Whether what it holds depends on how many rows arrived, and so on their order."""
        return self.kind == "rows" and not (self.size is None and self.slide is None)


@dataclass(frozen=True)
class Window(Unary):
    """stream-to-relation, over a stream: a source, what a filter leaves of one, or a ToStream below.

    ``keep``: predicates on the window's rows; a row window holds only placeholders of the others.
    """

    spec: WindowSpec
    keep: tuple[Expression, ...] = ()

    can_sample = True

    @property
    def source(self) -> StreamSource | None:
        """The registered stream below, None over a derived one."""
        below = self.input.input if isinstance(self.input, Select) else self.input
        return below if isinstance(below, StreamSource) else None

    def describe(self) -> str:
        keeping = f" keeping {' AND '.join(map(str, self.keep))}" if self.keep else ""
        if not isinstance(self.input, StreamSource):
            return f"Window {self.spec.text}{keeping}"
        return f"Window {self.input.called(f'{self.input.definition.name} {self.spec.text}')}{keeping}"

    @property
    def described_inputs(self) -> tuple[Logical, ...]:
        return () if isinstance(self.input, StreamSource) else self.inputs

    @property
    def pattern(self) -> Pattern:
        if self.spec.size is None:
            return Pattern.APPEND
        return Pattern.EXPIRING if self.spec.kind == "range" else Pattern.CHANGING

    def determines_life(self, shown: Collection[str]) -> bool:
        source = self.source
        if source is None or source.definition.options.timestamp is None or self.spec.by_rows:
            return False
        return f"{source.alias}.{source.definition.options.timestamp}" in shown

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        return tuple(Column(c, self.schema.field(c).type) for c in self.spec.partition_by)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """A row window whose partitions are in one place each needs nothing else."""
        (spread,), by = below, set(self.meets_by)
        if not self.spec.by_rows or (spread.keys is not None and all(h & by for h in spread.keys)):
            return spread
        if self.source is None:
            raise SpreadError(f"{self.spec.text} of a derived stream needs the whole order of the stream")
        # What the window counts by, and what a filter below reads, which the engine may have to evaluate.
        filters = self.input.conjuncts if isinstance(self.input, Select) else ()
        distribution.places[self.source.number] = tuple(sorted({*self.spec.partition_by, *reads(filters)}))
        return spread

    def lifted(self, host_filters: bool) -> tuple[Logical, tuple[Expression, ...]]:
        """Of ``[NOW]``, the predicates that the host does not evaluate.

        In a join they are filters beside its probes, in one order. Nothing of such a window is kept for
        longer than an instant, so it does not matter that rows get into it that they would have dropped.
        """
        if not (self.spec.is_now and host_filters and isinstance(self.input, Select)):
            return self, ()
        conjuncts = self.input.conjuncts
        host = for_host(conjuncts)
        rest = tuple(c for c in conjuncts if c not in host)
        below = Select(self.input.input, host) if host else self.input.input
        return (replace(self, input=below), rest) if rest else (self, ())

    def build(self, context: Builder, needed: Needed) -> Node:
        spec = self.spec
        below = context.build(self.input, {*needed, *spec.partition_by, *reads(self.keep)})
        own = context.own_rows(self.source) if self.source else ()
        keep = (*own, *self.keep) if spec.slide is None else self.keep
        form = (spec.kind, spec.size, spec.partition_by, spec.text, spec.slide)
        # No filter sees a row that is another partition's.
        window = seq_window.SeqWindow(below, *form, keep, context.filters, len(own))
        return select.Select(window, own, context.filters) if own and spec.slide is not None else window
