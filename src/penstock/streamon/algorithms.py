"""The ordering algorithms by the names that ``SET penstock.filters = ...`` knows."""

from __future__ import annotations

from penstock.streamon.a_greedy import AGreedy
from penstock.streamon.independent import Independent
from penstock.streamon.local_swaps import LocalSwaps
from penstock.streamon.ordering import Ordering, Static
from penstock.streamon.sweep import Sweep
from penstock.streamon.thresholds import DEFAULTS, Thresholds

ALGORITHMS: dict[str, type[Ordering]] = {a.name: a for a in (AGreedy, Sweep, Independent, LocalSwaps, Static)}


def ordering(name: str, n: int, thresholds: Thresholds | None = None) -> Ordering:
    """A fresh ordering of n filters by the named algorithm."""
    return ALGORITHMS[name](n, thresholds or DEFAULTS[name])
