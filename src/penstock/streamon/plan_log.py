"""The plan log (thesis 7.1): which plan was chosen when, by which statistics, and what follows from it.

* A plan that was good under similar statistics is *recalled*, without a search.
* *What if* the plan had never changed: every entry can say what any plan costs under its statistics, so the
  log knows the average cost of each single plan over the time it covers, and with that what adapting gained
  over the best of them. Between two entries the statistics count as those of the first.
* Statistics that change and soon come back are *transient*: a plan that follows them pays for two changes.

>>> log = PlanLog[str](8)
>>> for time, rows in ((0, 10.0), (100, 900.0), (110, 10.0), (300, 900.0), (310, 10.0)):
...     plan = "scan" if rows < 50 else "hash"
...     log.add(time, np.array([rows, 1.0]), plan, price=lambda p, r=rows: r if p == "scan" else 50.0)
>>> log.what_if(now=400)
WhatIf(since=0, adapted=12.0, single='hash', single_cost=50.0)
>>> log.transient().tolist()
[True, False]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.measurement import Kind, Property, Reading, curve, under
from penstock.streamon import kernels
from penstock.streamon.settings import (
    PUBLISHED_DECISIONS,
    TRANSIENT_CHANGE,
    TRANSIENT_PART,
    TRANSIENT_TIMES,
)

Statistics = npt.NDArray[np.float64]
Plan = TypeVar("Plan")
Price = Callable[[Plan], float]
"""What plans cost, by the statistics of one time."""


@dataclass(frozen=True)
class Decision(Generic[Plan]):
    """A change of plan: when (a count of tuples), by which statistics, and the share of the cost it saves."""

    time: int
    statistics: tuple[float, ...]
    plan: Plan
    gain: float = 0.0
    recalled: bool = False
    """Whether the plan was found in the log."""
    reason: str = ""
    """Why the plan was left, if it was not for a better one."""
    price: Price[Plan] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class WhatIf(Generic[Plan]):
    """The average cost of the plans that were used since a time, and the single plan with the least."""

    since: int
    adapted: float
    single: Plan
    single_cost: float


class PlanLog(Generic[Plan]):
    """The last ``size`` decisions; a plan is recalled for statistics that differ by ``distance`` at most."""

    def __init__(self, size: int, distance: float = 0.0) -> None:
        self._decisions: deque[Decision[Plan]] = deque(maxlen=size)
        self._statistics = np.empty((size, 0))
        self._distance = distance
        self.count = self.recalled = 0

    def add(
        self,
        time: int,
        statistics: Statistics,
        plan: Plan,
        gain: float = 0.0,
        recalled: bool = False,
        price: Price[Plan] | None = None,
        reason: str = "",
    ) -> None:
        if not self.count:
            self._statistics = np.empty((len(self._statistics), len(statistics)))
        self._statistics[self.count % len(self._statistics)] = statistics
        self.count += 1
        self.recalled += recalled
        self._decisions.append(
            Decision(time, tuple(statistics.tolist()), plan, gain, recalled, reason, price)
        )

    def recall(self, statistics: Statistics) -> Plan | None:
        """The plan of the decision with the most similar statistics, if they are similar enough."""
        if not self._decisions:
            return None
        kept = len(self._decisions)
        nearest, distance = kernels.nearest(self._statistics[:kept], statistics)
        # The next decision replaces the oldest one.
        plan = self._decisions[(nearest - self.count) % kept].plan
        return plan if distance <= self._distance else None

    def last(self, count: int) -> list[Decision[Plan]]:
        """The newest decisions, oldest first."""
        return list(self._decisions)[-count:]

    def what_if(self, now: int, since: int | None = None) -> WhatIf[Plan] | None:
        """What adapting gained from ``since`` (the oldest entry) until ``now``; None if it is not known."""
        if not self._decisions:
            return None
        first = self._decisions[0].time
        since = first if since is None else max(since, first)
        ends = [*(d.time for d in self.last(len(self._decisions))[1:]), now]
        spans = [(d, min(e, now) - max(d.time, since)) for d, e in zip(self._decisions, ends, strict=True)]
        priced = [(d, d.price, length) for d, length in spans if length > 0 and d.price is not None]
        whole = sum(length for *_, length in priced)
        if not whole:
            return None
        plans = dict.fromkeys(d.plan for d, *_ in priced)
        costs = {p: sum(length * price(p) for _, price, length in priced) / whole for p in plans}
        adapted = sum(length * price(d.plan) for d, price, length in priced) / whole
        best = min(costs, key=lambda p: costs[p])
        return WhatIf(since, adapted, best, costs[best])

    def transient(self) -> npt.NDArray[np.bool_]:
        """Which statistics often change and soon come back."""
        decisions = list(self._decisions)
        if len(decisions) < 3:
            return np.zeros(self._statistics.shape[1], np.bool_)
        seen = np.array([d.statistics for d in decisions])
        lengths = np.array([b.time - a.time for a, b in pairwise(decisions)])
        far = TRANSIENT_CHANGE * np.maximum(np.ptp(seen, axis=0), 1e-12)
        changed = np.abs(np.diff(seen, axis=0)) > far
        back = np.abs(seen[2:] - seen[:-2]) <= far
        short = lengths[1:] <= TRANSIENT_PART * max(int(lengths.max()), 1)
        excursions = changed[:-1] & back & short[:, None]
        # Each takes two changes, there and back.
        counts = excursions.sum(axis=0)
        return (counts >= TRANSIENT_TIMES) & (4 * counts >= changed.sum(axis=0))

    def measure(
        self, names: Sequence[str], shown: Callable[[Plan], str], now: int | None = None
    ) -> Iterator[Reading]:
        """The newest decisions by number, with plan, gain and statistics, whose ``names`` these are; with
        ``now``, what adapting gained.
        """
        yield from (
            Reading(Property.TRANSIENT, 1, name)
            for name, found in zip(names, self.transient(), strict=False)
            if found
        )
        what_if = None if now is None else self.what_if(now)
        if what_if is not None:
            yield Reading(Property.SINGLE_PLAN, what_if.single_cost, shown(what_if.single))
            yield Reading(Property.ADAPTED, what_if.adapted)
        newest = self.last(PUBLISHED_DECISIONS)
        for number, d in enumerate(newest, start=self.count - len(newest) + 1):
            made = [
                Reading(Property.DECIDED_AT, d.time, shown(d.plan)),
                Reading(Property.GAIN, d.gain),
                Reading(Property.FROM_LOG, d.recalled),
                *([Reading(Property.REASON, 0, d.reason)] if d.reason else []),
                *curve(Property.STATISTIC, d.statistics, names),
            ]
            yield from under(str(number), Kind.DECISION, made)
