"""relation-to-stream: ISTREAM, DSTREAM, RSTREAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.constraint import UNUSED, Use
from penstock.engine.element import Pattern
from penstock.engine.operators import d_stream, i_stream, r_stream
from penstock.expression import Column
from penstock.plan.distribution import Distribution, Spread, SpreadError
from penstock.plan.estimates import CLUSTER, WEIGHT, Estimated, Sampling
from penstock.plan.logical.operator import Logical, Needed, Unary, leaves
from penstock.plan.logical.project import Project, renamed
from penstock.plan.logical.sources import Exchange, Source
from penstock.schema import TimeDomain

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.logical.window import Window


@dataclass(frozen=True)
class ToStream(Unary):
    """relation-to-stream: ``kind`` is ``"istream"``, ``"dstream"`` or ``"rstream"``.

    ``every`` is the period of RSTREAM's clock in ticks, if the query has EVERY. ``all``: ISTREAM ALL, every
    row that enters. ``use``: how the query exploits constraints; declared keys tell equal rows apart.
    """

    kind: str
    every: int | None = None
    all: bool = False
    use: Use = UNUSED

    is_stream = True

    def describe(self) -> str:
        return self.kind.capitalize() + " all" * self.all + (f" every {self.every}" if self.every else "")

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, input=renamed(self.input, names))

    def using(self, use: Use) -> Logical:
        return replace(self, use=use)

    @property
    def windows(self) -> tuple[Window, ...]:
        return ()

    @property
    def pattern(self) -> Pattern:
        return Pattern.APPEND

    @property
    def keeps_arrival_order(self) -> bool:
        return self.kind == "istream" and self.input.only_grows and self.input.keeps_arrival_order

    def reads_instants(self, time: TimeDomain) -> bool:
        """A relation whose rows are there only when there is input is output whenever it has rows."""
        clocked = self.kind == "rstream" and self.every is None and time.kind == "timestamp"
        return clocked and not self.input.is_momentary

    @property
    def shows_at_once(self) -> bool:
        """Whether results are emitted as they are found, so that none can cancel another.

        RSTREAM emits the relation row by row; ISTREAM does so where rows only enter, or where equal rows
        enter and leave together.
        """
        return self.kind == "rstream" or (
            self.kind == "istream" and (self.all or self._only_enters or self._distinct_lives)
        )

    @property
    def _only_enters(self) -> bool:
        return self.input.only_grows and self.input.holds_on

    @property
    def _distinct_lives(self) -> bool:
        certain = frozenset[str]() if self.use.how == "declared" else None
        return self.input.determines_life(self.schema.names, certain)

    @property
    def _in_order(self) -> bool:
        """Whether its rows come in the order of time: all are of one stream, which has no disorder."""
        streams = {s.definition.name: s for s in leaves(self.input) if isinstance(s, Source)}
        if any(isinstance(leaf, Exchange) for leaf in leaves(self.input)) or len(streams) != 1:
            return False
        (stream,) = streams.values()
        options = stream.definition.options
        return options.arrival or (options.skew == 0 and not options.adaptive)

    @property
    def _how_at_once(self) -> str:
        """What to write for results to be shown as they are found, if that can be done."""
        if self.input.unfixed or self.input.pattern is not Pattern.EXPIRING:
            return ""
        stamps = [w.stamp for w in self.input.windows]
        timed = all(stamps) and not any(leaf.is_static for leaf in leaves(self.input))
        select = [f"select {' and '.join(dict.fromkeys(stamps))}"] if timed else []
        return " or ".join([*select, "write ISTREAM ALL"])

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        if below[0].keys is None and not self.shows_at_once:
            raise SpreadError(
                f"equal rows under {self.kind.upper()} may cancel and are in several partitions"
            )
        return below[0]

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """The stream of a sample's rows, with their weights; or of estimates, compared by their values."""
        (rows,) = below
        if not rows.estimates:
            return replace(rows, node=replace(self, input=rows.node))
        named, estimates = rows.as_columns(sampling)
        added = tuple(Column(name, e.type) for name, e in named if name not in rows.names)
        own = tuple(c for c in rows.hidden if rows.weighted and c in (WEIGHT, CLUSTER))
        shown = Project(rows.node, (*named, *((c.name, c) for c in own)))
        return replace(rows, node=replace(self, input=shown), estimates=estimates, hidden=(*added, *own))

    @property
    def counts_columns(self) -> bool:
        return False

    def build(self, context: Builder, needed: Needed) -> Node:
        below = context.exact(self.input)
        match self.kind:
            case "istream":
                return self._built_istream(context, below)
            case "dstream":
                return d_stream.DStream(context.changing(below))
        if self.every is None and self.input.is_momentary and below.pattern is Pattern.EXPIRING:
            return r_stream.RStream(below, momentary=True)
        every = self.every or (None if self.reads_instants(context.time) else 1)
        return r_stream.RStream(context.changing(below), every, time=context.time)

    def _built_istream(self, context: Builder, below: Node) -> Node:
        """Corrections of ends matter only where equal rows may cancel."""
        if self.all or self._distinct_lives:
            return i_stream.IStream(below, distinct=True)
        if below.corrects:
            return i_stream.IStream(context.changing(below), hint=self._how_at_once)
        return i_stream.IStream(below, in_order=self._in_order, hint=self._how_at_once)
