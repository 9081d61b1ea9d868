"""Windows with bounds: tumbling, hopping and session windows, whose rows also say when their window is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import hop_window, select, session_window
from penstock.expression import Expression, columns
from penstock.plan.facts import NotNull
from penstock.plan.logical.operator import Needed
from penstock.plan.logical.window import Window

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

WINDOW_START, WINDOW_END = "window_start", "window_end"


@dataclass(frozen=True)
class BoundedWindow(Window):
    """``[TUMBLE w]``, ``[HOP w EVERY s]`` or ``[SESSION g PARTITION BY k]`` over a stream named ``alias``.

    Its schema is the stream's and the bounds, which have the type of the query's time.
    """

    alias: str = ""
    time_type: pa.DataType = pa.int64()

    @cached_property
    def schema(self) -> pa.Schema:
        return hop_window.with_bounds(self.input.schema, (self._names, self.time_type))

    @property
    def _names(self) -> tuple[str, str]:
        return f"{self.alias}.{WINDOW_START}", f"{self.alias}.{WINDOW_END}"

    @property
    def pattern(self) -> Pattern:
        return Pattern.EXPIRING

    @property
    def bounds(self) -> frozenset[str]:
        return self.input.bounds | set(self._names)

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        """A row lives from its window's end to the next one, or for one instant if that is a session."""
        start, end = self._names
        if end in shown or (start in shown and self.spec.kind == "hop"):
            return True
        return self.spec.slide == self.spec.size and super().determines_life(shown)

    @property
    def unfixed(self) -> str:
        """A row is in one tumbling window only; it enters several that hop by less than their size."""
        return "" if self.spec.slide == self.spec.size else self.spec.text

    def commutes(self, predicate: Expression) -> bool:
        return columns(predicate).isdisjoint(self._names) and super().commutes(predicate)

    def build(self, context: Builder, needed: Needed) -> Node:
        spec = self.spec
        below = context.build(self.input, {*needed, *spec.partition_by} - set(self._names))
        own = context.own_rows(self.source) if self.source else ()
        if own and not spec.by_rows:
            below, own = select.Select(below, own, context.filters), ()
        bounds = None if set(needed).isdisjoint(self._names) else (self._names, self.time_type)
        assert spec.size is not None
        window: Node
        if spec.kind == "session":
            window = session_window.SessionWindow(below, spec.size, spec.partition_by, bounds, spec.text)
        else:
            assert spec.slide is not None
            window = hop_window.HopWindow(below, spec.size, spec.slide, bounds, spec.text)
        return select.Select(window, own, context.filters) if own else window
