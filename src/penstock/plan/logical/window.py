"""stream-to-relation: windows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.element import Pattern
from penstock.engine.operators import select, seq_window, tie_order
from penstock.expression import Column, Expression, columns
from penstock.plan.distribution import Distribution, Spread, SpreadError
from penstock.plan.estimates import Estimated, SampleError, Sampling
from penstock.plan.facts import NotNull, for_host, not_null, reads
from penstock.plan.logical.operator import Logical, Needed, StreamRows, Unary, UniqueKey
from penstock.plan.logical.select import Select
from penstock.plan.logical.sources import StreamSource
from penstock.plan.logical.stamp import Stamp

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class WindowSpec:
    """``rows``: the last ``size`` rows (per ``partition_by`` group); ``range``: the last ``size`` ticks.

    ``hop``: the last whole window of ``size`` ticks, which moves on by ``slide`` ticks. ``session``: rows (of
    a ``partition_by`` group) less than ``size`` ticks apart, when the session ends.

    ``size`` None is UNBOUNDED; ``[NOW]`` is range 0. ``text`` is the window as the user wrote it, or
    the default that was filled in. With ``slide`` the window advances only at multiples of it: of ticks since
    time 0 for ``range``, of rows arrived (in the partition) for ``rows``.
    """

    kind: str
    size: int | None
    partition_by: tuple[str, ...] = ()
    text: str = ""
    slide: int | None = None

    @property
    def is_now(self) -> bool:
        """Whether a row is in the window only at the instant of its timestamp."""
        return self.kind == "range" and self.size == 0 and self.slide is None

    @property
    def is_bounded(self) -> bool:
        """Whether a row is in it only once the whole window is there, with the window's bounds."""
        return self.kind in ("hop", "session")

    @property
    def by_rows(self) -> bool:
        """Whether it depends on the rows before and after how long a row is in it."""
        return self.kind == "session" or (
            self.kind == "rows" and not (self.size is None and self.slide is None)
        )


@dataclass(frozen=True)
class Window(Unary):
    """stream-to-relation over a source, a filter of one, or a ToStream.

    ``keep``: predicates on the window's rows; a row window stores only placeholders of the others.
    """

    spec: WindowSpec
    keep: tuple[Expression, ...] = ()

    @property
    def source(self) -> StreamSource | None:
        """The registered stream below, None over a derived one."""
        below, _ = self.input.filtered
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
    def windows(self) -> tuple[Window, ...]:
        return (self,)

    @property
    def pattern(self) -> Pattern:
        if self.spec.size is None:
            return Pattern.APPEND
        return Pattern.EXPIRING if self.spec.kind == "range" else Pattern.CHANGING

    @property
    def longest_life(self) -> int | None:
        spec = self.spec
        if spec.size is None or spec.kind != "range":
            return None
        return spec.size + 1 if spec.slide is None else (spec.size // spec.slide + 1) * spec.slide

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """A sampled row is in a window of time exactly while it is in that over all rows."""
        (rows,) = below
        if rows.weighted and self.spec.by_rows:
            raise SampleError(self.spec.text, "write [RANGE ...]")
        keep = tuple(rows.over(k, sampling, "WHERE") for k in self.keep)
        names = tuple(self.schema.names)
        return replace(rows, node=replace(self, input=rows.node, keep=keep), names=names)

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        if self.source is None or self.spec.by_rows:
            return False
        if certain is None:
            return self.stamp in shown
        _, passed = self.input.filtered
        told = set(shown) & {*certain, *not_null((*passed, *self.keep))}
        keys = (set(columns) for columns, lasting in self.unique_keys if lasting)
        return self.stamp in shown or any(key <= told for key in keys)

    @property
    def stamp(self) -> str:
        """Its column with the timestamps of a registered stream's rows; "" if there is none."""
        column = self.source.definition.options.timestamp if self.source else None
        return f"{self.source.alias}.{column}" if self.source and column is not None else ""

    @property
    def unfixed(self) -> str:
        """Each row of a time window enters once; that of a row window may do so by the rows beside it."""
        return self.spec.text if self.spec.by_rows else ""

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        """The primary key of the stream; a window of one row per partition has one row for each."""
        declared = self.source.definition.options.constraints.primary_key if self.source else ()
        keys: list[UniqueKey] = []
        if declared and self.source and not self.spec.is_bounded:
            keys.append((tuple(f"{self.source.alias}.{c}" for c in declared), True))
        if self.spec.kind == "rows" and self.spec.size == 1 and self.spec.partition_by:
            keys.append((self.spec.partition_by, False))
        return tuple(keys)

    @property
    def stream_rows(self) -> StreamRows | None:
        """The rows of the registered stream below, unless the window moves in steps."""
        source, spec = self.source, self.spec
        if source is None or spec.slide is not None or spec.is_bounded:
            return None
        _, below = self.input.filtered
        rows = spec.size if spec.kind == "rows" and not spec.partition_by else None
        names = {f"{source.alias}.{c}": c for c in source.definition.schema.names}
        return StreamRows(source, names, (*below, *self.keep), rows)

    @property
    def is_momentary(self) -> bool:
        """``[NOW]``, unless it is over a derived stream, whose rows may come at instants without input."""
        return self.spec.is_now and self.source is not None

    @property
    def keeps_arrival_order(self) -> bool:
        return self.spec.size is None and self.spec.slide is None and self.input.keeps_arrival_order

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        """A derived stream gets an operator for the timestamps."""
        below, stamps = self.input.stamped()
        if not stamps:
            name = f"{self.input.schema.names[0].rpartition('.')[0]}.#ts"
            below, stamps = Stamp(self.input, name).stamped()
        return replace(self, input=below), stamps

    @property
    def lacks_time(self) -> bool:
        return False

    def commutes(self, predicate: Expression) -> bool:
        """Whether rows may be filtered by it before the window instead of after it.

        Not if others depend on a row that is dropped, unless whole partitions are.
        """
        read = columns(predicate)
        return not self.spec.by_rows or (bool(read) and read <= set(self.spec.partition_by))

    @property
    def takes_slices(self) -> bool:
        """Each row has its life by itself; what is done with it only a W-join knows."""
        return not self.spec.by_rows

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        return tuple(Column(c, self.schema.field(c).type) for c in self.spec.partition_by)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """A row window needs nothing more if each of its partitions is at one coordinate."""
        (spread,), by = below, set(self.meets_by)
        if not self.spec.by_rows or (spread.keys is not None and all(h & by for h in spread.keys)):
            return spread
        if self.source is None:
            raise SpreadError(f"{self.spec.text} of a derived stream needs the whole order of the stream")
        # The window counts by these columns; a filter below reads the others, and may run in the engine.
        _, filters = self.input.filtered
        distribution.need_places(self.source.number, (*self.spec.partition_by, *reads(filters)))
        return spread

    def unfiltered(self) -> tuple[Logical, tuple[Expression, ...]]:
        below, conjuncts = self.input.filtered
        return (self, ()) if self.spec.by_rows else (replace(self, input=below), conjuncts)

    def lifted(self, host_filters: bool) -> tuple[Logical, tuple[Expression, ...]]:
        """For ``[NOW]``, the predicates that the host does not evaluate.

        In a join they become filters, ordered together with its probes. Such a window keeps rows for one
        instant only, so it does no harm that rows enter it that the predicates would have dropped.
        """
        below, conjuncts = self.input.filtered
        if not (self.spec.is_now and host_filters and conjuncts):
            return self, ()
        host = for_host(conjuncts)
        rest = tuple(c for c in conjuncts if c not in host)
        below = Select(below, host) if host else below
        return (replace(self, input=below), rest) if rest else (self, ())

    @property
    def counts_columns(self) -> bool:
        return not self.source

    def build(self, context: Builder, needed: Needed) -> Node:
        spec = self.spec
        below = context.build(self.input, {*needed, *spec.partition_by, *reads(self.keep)})
        if spec.by_rows and not self.input.keeps_arrival_order:
            below = tie_order.TieOrder(below)
        own = context.own_rows(self.source) if self.source else ()
        if own and not spec.by_rows:
            below, own = select.Select(below, own, context.filters), ()
        keep = (*own, *self.keep) if spec.slide is None else self.keep
        form = (spec.kind, spec.size, spec.partition_by, spec.text, spec.slide)
        # Rows of other partitions are excluded before any filter sees them.
        window = seq_window.SeqWindow(below, *form, keep, context.filters, len(own))
        return select.Select(window, own, context.filters) if own and spec.slide is not None else window
