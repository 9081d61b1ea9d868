"""W-join: the inner join of streams with windows between them (Hammad, Aref, Elmagarmid)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.joins.window_graph import UnconnectedError, WindowGraph
from penstock.engine.operators import w_join
from penstock.expression import Call, Column, Expression, Literal, columns, connected
from penstock.plan.distribution import UNKNOWN_KEY, Distribution, Spread, SpreadError
from penstock.plan.facts import reads
from penstock.plan.logical.join import Join
from penstock.plan.logical.operator import Logical, Needed
from penstock.plan.logical.select import conjunction_text
from penstock.plan.logical.stamp import TICKS
from penstock.plan.logical.window import Window
from penstock.routing import is_own

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

__all__ = ["UnconnectedError", "WJoin", "WindowGraph", "conditions"]

Given = dict[tuple[int, int], int]
"""By two streams, the most by which a row of the second may be later than one of the first."""


@dataclass(frozen=True)
class WJoin(Join):
    """An inner join some of whose inputs are streams with windows between them.

    The windows are among the conjuncts too, so that it is also right as any other join; ``between``
    has those that follow too.
    """

    between: WindowGraph = WindowGraph((), ())

    def describe(self) -> str:
        return " ".join(["W-join", conjunction_text(self.conjuncts)]).strip()

    @property
    def constraints(self) -> None:
        """None: the windows between the streams say how long a row is kept."""
        return None

    @property
    def takes_slices(self) -> bool:
        return self.sliceable

    @property
    def sliceable(self) -> bool:
        """Whether it can be spread by time: all inputs are windows of time over registered streams."""
        windows = [_window(part) for part in self.parts]
        sources = [w.source for w in windows if w is not None]
        stamped = [s for s in sources if s is not None and not s.definition.options.arrival]
        return len(stamped) == len(self.between) == len(self.parts)

    def ages(self) -> dict[int, int]:
        """By number of its streams, by how much a row may be later than another of the result."""
        windows = [_window(part) for part in self.parts]
        numbers = [w.source.number for w in windows if w is not None and w.source is not None]
        return {n: self.between.age(self._member(p)) for n, p in zip(numbers, self.parts, strict=True)}

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """By time, each result is at the coordinate of its earliest row."""
        if not any(s.sliced for s in below):
            return super().spread(below, distribution)
        if not all(s.sliced for s in below):
            raise SpreadError("some streams of the join are spread by time and others are not")
        return UNKNOWN_KEY

    def build(self, context: Builder, needed: Needed) -> Node:
        """One operator for the windows where it can run, else a join with the windows as predicates."""
        windows = [_window(part) for part in self.parts]
        specs = [w.spec for w in windows if w is not None]
        sliced = any(context.sliced(w.source) for w in windows if w is not None and w.source is not None)
        plain = context.w_join == "mjoin" and not sliced
        if plain or len(specs) < len(windows) or len(self.between) < len(windows):
            return super().build(context, needed)
        graph = self.between.among([self._member(part) for part in self.parts])
        # The operator reads timestamps where the rows' lives begin; a constant condition is no window.
        conjuncts = tuple(c for c in self.conjuncts if not columns(c) or columns(c) - set(graph.columns))
        spare = [0 if s.size is None else max(s.size - graph.reach(i), 0) for i, s in enumerate(specs)]
        wanted = {*needed, *reads(conjuncts)}
        parts = [context.build(part, wanted) for part in self.parts]
        output = tuple(f.name for part in self.parts for f in part.schema if f.name in needed)
        joined = context.join_of(parts, self.parts, conjuncts, output)
        own = [n for part in parts for n in part.schema.names if is_own(n)] if sliced else []
        return w_join.WJoin(
            **joined,
            between=graph,
            algorithm=context.w_join,
            spare=tuple(spare),
            own=tuple(own),
            time=context.time,
        )

    def _member(self, part: Logical) -> int:
        """The stream of the windows that an input is."""
        return next(k for k, c in enumerate(self.between.columns) if c in part.schema.names)


def _window(node: Logical) -> Window | None:
    """The window of time that an input of the join is, if a row's life in it begins at its timestamp."""
    below, _ = node.filtered
    if type(below) is not Window or below.spec.slide is not None or below.spec.by_rows:
        return None
    return below


def conditions(columns: tuple[str, ...], given: Given, path: tuple[int, ...] = ()) -> Iterator[Expression]:
    """The given windows as conditions on the columns of timestamps."""
    at = [Column(name, TICKS) for name in columns]
    for (i, j), most in given.items():
        later = _minus(at[j], at[i])
        if given.get((j, i)) != most:
            yield _at_most(later, most) if most else Call("<=", (at[j], at[i]), pa.bool_())
        elif i < j:
            yield _at_most(Call("abs", (later,), TICKS), most)
    if len(path) > 2:
        yield connected("or", [_in_order([at[i] for i in order]) for order in (path, path[::-1])])


def _minus(left: Expression, right: Expression) -> Expression:
    return Call("-", (left, right), TICKS)


def _at_most(value: Expression, most: int) -> Expression:
    return Call("<=", (value, Literal(most, TICKS)), pa.bool_())


def _in_order(times: list[Column]) -> Expression:
    pairs = zip(times, times[1:], strict=False)
    return connected("and", [Call("<=", pair, pa.bool_()) for pair in pairs])
