"""Attaches the budget of WITHIN to the join of a query."""

from __future__ import annotations

from dataclasses import replace

from penstock.budget import Within
from penstock.engine.element import Pattern
from penstock.engine.operator import Node
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.errors import UnsupportedError
from penstock.plan import logical
from penstock.plan.sampled import constant_in_clusters
from penstock.schema import TimeDomain
from penstock.settings import Settings


def budgeted(within: Within, settings: Settings, time: TimeDomain, root: logical.Logical, join: Node) -> Node:
    """The join with the budget, which its two windows share."""
    assert isinstance(join, MJoin)
    if within.shared:
        within = _of_session(within, settings)
    by_rows = any(_window(p).kind == "rows" for p in join.parts)
    if join.pattern is Pattern.CHANGING and not (by_rows and within.goal is None):
        raise UnsupportedError("WITHIN takes a join of two [RANGE ...] windows of streams")
    if within.goal is not None:
        return _keeping(within, settings.seed, root, join)
    # Imported late: it imports the cost model.
    from penstock.approx.shedding import Shedding

    a, b = (_seconds(part, time) for part in join.parts)
    rows_a, rows_b = (_window(p).size if _window(p).kind == "rows" else None for p in join.parts)
    shared = within, settings.allocation, (a, b), time.ticks_per_second, settings.seed
    return replace(join, budget=Shedding(*shared, sizes=(rows_a, rows_b)))


def _of_session(within: Within, settings: Settings) -> Within:
    if settings.memory is None:
        raise UnsupportedError(
            "MAXIMIZE RESULTS without WITHIN MEMORY needs a memory limit of the session; "
            "SET penstock.memory = '256 MB' first, or write WITHIN MEMORY 20000 ROWS"
        )
    return replace(within, bytes=settings.memory, weight=settings.weight)


def _keeping(within: Within, seed: int, root: logical.Logical, join: MJoin) -> Node:
    """The join that keeps the tuples most useful for the goal."""
    from penstock.approx.memory_policy import MemoryBudget

    if getattr(within.goal, "using", None) == "PROB" and not join.classes:
        raise UnsupportedError("PROB needs an equality predicate, and this join has none; write USING AGE")
    a, b = (_window(part) for part in join.parts)
    assert a.size is not None and b.size is not None
    aggregated = any(isinstance(n, logical.Aggregate) for n in logical.walk(root))
    keeping = MemoryBudget(
        within, (a.size + 1, b.size + 1), bool(join.classes), aggregated, constant_in_clusters(root), seed
    )
    return replace(join, budget=keeping)


def _window(part: Node) -> SeqWindow:
    while not isinstance(part, SeqWindow):
        part = part.inputs[0]
    return part


def _seconds(part: Node, time: TimeDomain) -> float | None:
    """Seconds that a row stays in a window; None if it never leaves."""
    size = _window(part).size
    return None if size is None else (size + 1) / time.ticks_per_second
