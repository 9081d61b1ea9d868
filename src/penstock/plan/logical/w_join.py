"""W-join: the inner join of streams with windows between them (Hammad, Aref, Elmagarmid)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.joins.window_graph import UnconnectedError, WindowGraph
from penstock.expression import Call, Column, Expression, Literal, connected
from penstock.plan.logical.join import Join
from penstock.plan.logical.select import conjunction_text
from penstock.plan.logical.stamp import TICKS

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
