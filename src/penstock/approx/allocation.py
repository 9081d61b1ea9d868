"""Division of scarce CPU and memory between the two sides of a join.

After Kang, Naughton and Viglas, section 5.2, and for tuples dropped before the windows section 4.2 of their
earlier version ("moving window joins"). The goal is the rate of results, sigma (rate_a B + rate_b A): some
arriving tuples may probe, and some are kept for others to probe.

A strategy chooses the share of each side; :data:`STRATEGIES` has the optimum and the strategies it is
compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.cost.model import Workload


@dataclass(frozen=True)
class Budget:
    """The budget of a join: probes per unit of time, tuples in memory; None is unlimited.

    ``least`` and ``least_rows`` are the minimum of each side, as far as it can use them. With
    ``before_windows`` a tuple that does not probe does not enter its window either.
    """

    rate: float | None = None
    rows: float | None = None
    least: float = 0.0
    least_rows: float = 0.0
    before_windows: bool = False


@dataclass(frozen=True)
class Allocation:
    """The effective rates and window sizes."""

    rate_a: float
    rate_b: float
    window_a: float
    window_b: float

    def output_rate(self, selectivity: float) -> float:
        """Results per unit of time (equation 12 over the effective values)."""
        return selectivity * (self.rate_a * self.window_b + self.rate_b * self.window_a)


Pair = tuple[float, float]


@dataclass(frozen=True)
class Shortage:
    """A scarce resource: the total, how much each side could use, and the results per unit."""

    total: float
    needs: Pair
    gains: Pair
    least: float = 0.0

    def split(self, part_a: float) -> Pair:
        """Assign this part of the total to A, the rest to B; what one side cannot use goes to the other."""
        need_a, need_b = self.needs
        if self.total >= need_a + need_b:
            return self.needs
        low_a, low_b = min(self.least, need_a), min(self.least, need_b)
        a = min(max(part_a * self.total, low_a, self.total - need_b), need_a, self.total - low_b)
        return a, self.total - a


Strategy = Callable[[Shortage], float]
"""The part of the total that goes to A."""


def _part(a: float, b: float) -> float:
    return a / (a + b) if a + b > 0 else 0.5


STRATEGIES: dict[str, Strategy] = {
    "optimal": lambda s: 0.5 if s.gains[0] == s.gains[1] else float(s.gains[0] > s.gains[1]),
    "proportional": lambda s: _part(*s.needs),
    "inverse": lambda s: _part(s.needs[1], s.needs[0]),
    "equal": lambda _: 0.5,
    "max-a": lambda _: 1.0,
    "max-b": lambda _: 0.0,
}


def allocate(workload: Workload, budget: Budget, strategy: str = "optimal") -> Allocation:
    """The allocation of each side. A sufficient budget covers the whole need."""
    short_rate = budget.rate is not None and budget.rate < workload.rate_a + workload.rate_b
    short_rows = budget.rows is not None and budget.rows < workload.window_a + workload.window_b
    if short_rate and budget.before_windows:
        workload = _regulated(workload, budget, strategy)
        short_rows = budget.rows is not None and budget.rows < workload.window_a + workload.window_b
        rates = workload.rate_a, workload.rate_b
    elif short_rate and not short_rows:
        rates = _rates(workload, budget, (workload.window_b, workload.window_a), strategy)
    elif short_rate:
        return _both(workload, budget, strategy)
    else:
        rates = workload.rate_a, workload.rate_b
    windows = (workload.window_a, workload.window_b)
    if short_rows:
        windows = _windows(workload, budget, (rates[1], rates[0]), strategy)
    return Allocation(*rates, *windows)


def _rates(workload: Workload, budget: Budget, gains: Pair, strategy: str) -> Pair:
    """Probes: the side that probes the larger window returns more results (equation 14)."""
    assert budget.rate is not None
    shortage = Shortage(budget.rate, (workload.rate_a, workload.rate_b), gains, budget.least)
    return shortage.split(STRATEGIES[strategy](shortage))


def _windows(workload: Workload, budget: Budget, gains: Pair, strategy: str) -> Pair:
    """Memory: the window that the faster side probes returns more results (equation 16)."""
    assert budget.rows is not None
    needs = workload.window_a, workload.window_b
    by_rate = {"proportional": _part(*reversed(gains)), "inverse": _part(*gains)}
    shortage = Shortage(budget.rows, needs, gains, budget.least_rows)
    part = by_rate.get(strategy)
    return shortage.split(STRATEGIES[strategy](shortage) if part is None else part)


def _regulated(workload: Workload, budget: Budget, strategy: str) -> Workload:
    """Tuples dropped before the windows: results are proportional to the product of the rates, so equal rates
    are best.
    """
    chosen = "equal" if strategy == "optimal" else strategy
    a, b = _rates(workload, budget, (1.0, 1.0), chosen)
    return workload.regulated(a, b)


def _both(workload: Workload, budget: Budget, strategy: str) -> Allocation:
    """All memory to one window and all probes to the other side (equation 19), whichever is better."""
    if strategy != "optimal":
        rates = _rates(workload, budget, (1.0, 1.0), strategy)
        return Allocation(*rates, *_windows(workload, budget, (rates[1], rates[0]), strategy))
    ways = []
    for probes, memory in (("max-a", "max-b"), ("max-b", "max-a")):
        rates = _rates(workload, budget, (1.0, 1.0), probes)
        ways.append(Allocation(*rates, *_windows(workload, budget, (1.0, 1.0), memory)))
    return max(ways, key=lambda way: way.output_rate(1.0))
