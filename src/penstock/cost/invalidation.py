"""What it costs to free expired tuples, actively and lazily (Kang et al., the earlier text, 3.1 and 3.2).

Active invalidation is made at each arrival. Lazy invalidation waits for a probe: tuples arrive at λb and the
window is probed at λa, so that λb / λa expired tuples are piled up by then. The text's formula is damaged; it
follows from that. Without an index the tuples are in the order of time, and a binary search among those that
piled up finds the first that has not expired, so that a time unit costs

    active  λa B C + 2 λb C          lazy  λa (B + log2(λb / λa) + 1) C + λb C

With a hash index a probe invalidates its own bucket only. In every bucket λb / λa tuples expire between two
probes of it; a probe reads and removes them, and nothing has to look for them:

    active  λa b P + 2 λb I          lazy  λa (b + λb / λa) P + λb I

for b tuples in a bucket. Trees are searched for what expires in both cases.

Penstock's stores free the rows of a step by one call, which passes over them. So the call of a step takes
the place of an arrival, and lazy saves the calls of the steps in which the window is not probed.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from penstock.cost.settings import INVALIDATION_CALL_S, INVALIDATION_ROW_S
from penstock.engine.settings import LAZY_ROOM

if TYPE_CHECKING:
    from penstock.cost.model import AccessMethod, Direction, Weights


def lazy_cost(direction: Direction, method: AccessMethod, weights: Weights) -> float:
    """The cost of a direction under lazy invalidation, as ``Direction.cost`` has it under active."""
    weight, window = weights[method.name], direction.window
    change = weight.change(method, window)
    if method.name == "none":
        piled = max(direction.updates / direction.rate, 1.0) if direction.rate else 1.0
        invalidation = direction.rate * (log2(piled) + 1) * change
    elif method.name == "hash":
        invalidation = direction.updates * weight.search
    else:
        invalidation = direction.updates * change
    return direction.rate * weight.probe(method, window) + direction.updates * change + invalidation


def invalidations(steps: float, probed: float, rows: float, window: float) -> dict[str, float]:
    """Seconds by each policy for so many steps, in some of which the window was probed, and rows that left.

    Lazy frees rows also when those that expired fill its room.
    """
    room = max((LAZY_ROOM - 1) * window, 1.0)
    made = min(steps, max(probed, rows / room))
    passed = rows * INVALIDATION_ROW_S
    found = {"active": steps * INVALIDATION_CALL_S + passed, "lazy": made * INVALIDATION_CALL_S + passed}
    return dict(sorted(found.items(), key=lambda item: item[1]))
