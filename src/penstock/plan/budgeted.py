"""The join of a query under WITHIN: with what it may use."""

from __future__ import annotations

from dataclasses import replace

from penstock.budget import Within
from penstock.engine.element import Pattern
from penstock.engine.operator import Node
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.errors import UnsupportedError
from penstock.schema import TimeDomain


def budgeted(within: Within, strategy: str, time: TimeDomain, join: Node) -> Node:
    """The join, sharing the budget between its two windows."""
    # It knows the cost model, which is part of this package.
    from penstock.approx.shedding import Shedding

    assert isinstance(join, MJoin)
    if join.pattern is Pattern.CHANGING:
        raise UnsupportedError("WITHIN takes a join of two [RANGE ...] windows of streams")
    a, b = (_seconds(part, time) for part in join.parts)
    return replace(join, shedding=Shedding(within, strategy, (a, b), time.ticks_per_second))


def _seconds(part: Node, time: TimeDomain) -> float | None:
    """How long a row stays in a window; None for ever."""
    while not isinstance(part, SeqWindow):
        part = part.inputs[0]
    return None if part.size is None else (part.size + 1) / time.ticks_per_second
