"""explain: the directions of a join, by the access methods that the cost model expects to be cheapest.

A direction is chosen alone (Kang et al., section 4.1): by how often the window is probed, how often it
changes, and how large it is. A running engine chooses again, with the rates it counts itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.cost.model import ByCost
from penstock.engine.joins.inputs import BY_EQUALITY, BY_RANGE
from penstock.engine.operator import Node
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.plan.settings import WINDOW_ROWS


def costs_of(join: MJoin) -> Iterator[str]:
    """The directions of a join in words: into each window, what it costs, and where another is better."""
    if not isinstance(join.chooser, ByCost):
        return
    for i, label in enumerate(join.labels):
        equal = any(k == i for c in join.classes for k, _ in c)
        if equal or any(i in b.inputs for b in join.bands):
            methods = BY_EQUALITY if equal else BY_RANGE
            yield f"into {label}: {_direction(join.chooser, methods, join.parts[i])}"


def _direction(chooser: ByCost, methods: Sequence[str], part: Node) -> str:
    known = rows_of(part)
    window = known or WINDOW_ROWS
    (best, cost), (second, more), *_ = chooser.costs(1, 1, window, methods).items()
    rows = f"{window:,} rows" + ("" if known else " (assumed)")
    told = f"{best}, {cost * 1e9:.0f} ns with {rows}; next {second}, {more * 1e9:.0f} ns"
    idle = min(methods, key=lambda m: chooser.costs(0, 1, window, (m,))[m])
    ratio = chooser.crossover(best, idle, window) if idle != best else 0.0
    return told + (f"; {idle} from {1 / ratio:,.0f} arrivals per probe on" if 0 < ratio < 1 else "")


def rows_of(part: Node) -> int | None:
    """The rows that an input of a join holds, where its window says so."""
    while len(part.inputs) == 1:
        if isinstance(part, SeqWindow):
            return part.size if part.kind == "rows" and not part.partition_by else None
        part = part.inputs[0]
    return None
