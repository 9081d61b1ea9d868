"""A-Caching (thesis 5.5.5): which caches a join uses, kept up to date while it runs.

An instance of StreaMon whose plan is a set of caches. A candidate is *used*, *profiled* (its benefit and cost
are being estimated) or *unused*. All start profiled. When every statistic has enough observations the best
set becomes used and the others unused. After an interval unused ones are profiled again, and so are used ones
that contain one of them, since that cannot be profiled behind its container (point b); the selection runs
again only if a benefit or cost has changed by more than a share (point c). A used cache whose benefit falls
below its cost is dropped at once (point a). If the order of a pipeline changes, its caches are dropped, and
the candidates of the new order are profiled.

While no cache pays, each interval is twice as long as the one before, so that a join for which caches are no
use spends next to nothing on finding out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from penstock.streamon.cache_selection import Candidate, Value, Values, select, worth
from penstock.streamon.plan_log import Statistics
from penstock.streamon.settings import CacheThresholds

CacheSet = frozenset[Candidate]


class State(StrEnum):
    """Of a candidate (figure 5.9)."""

    USED = "used"
    PROFILED = "profiled"
    UNUSED = "unused"


@dataclass(frozen=True)
class CacheEvidence:
    """Benefits and costs of used and profiled candidates, in seconds per tuple of the join.

    ``work``: what a tuple takes on average without caches. ``traffic``: for each input its share of the
    tuples and what one takes without caches.
    """

    values: Values
    work: float
    traffic: tuple[tuple[float, float], ...]

    def price(self, plan: CacheSet) -> float:
        """What a tuple takes with some caches; those of which nothing is known save nothing."""
        return max(self.work - worth([c for c in plan if c in self.values], self.values), 0.0)


class CacheReoptimizer:
    """Keeps the states of the candidates and the set of caches in use."""

    def __init__(self, thresholds: CacheThresholds) -> None:
        self._thresholds = thresholds
        self.states: dict[Candidate, State] = {}
        self.plan: CacheSet = frozenset()
        self.gain = 0.0
        self.interval = thresholds.interval
        self._selected: CacheSet = frozenset()
        self._judged: dict[Candidate, Value] = {}

    def propose(self, candidates: Iterable[Candidate]) -> bool:
        """The candidates are these from now on; returns whether caches in use are gone (step 5)."""
        before = self.states
        self.states = {c: before.get(c, State.PROFILED) for c in candidates}
        self._judged = {c: v for c, v in self._judged.items() if c in self.states}
        lost = self._use(frozenset(c for c in self.plan if c in self.states))
        if lost:
            self.interval = self._thresholds.interval
        return lost

    def judged(self, c: Candidate) -> Value | None:
        """Benefit and cost of a candidate when caches were last selected."""
        return self._judged.get(c)

    def profiled(self) -> list[Candidate]:
        return [c for c, s in self.states.items() if s is State.PROFILED]

    def begin(self, promising: Callable[[Candidate], bool] = lambda c: True) -> bool:
        """An interval is over: profile again those that may pay (step 4, point b).

        Returns whether caches in use changed: one that contains a profiled one is set aside.
        """
        profiled = [c for c, s in self.states.items() if s is not State.USED and promising(c)]
        for c, state in self.states.items():
            if state is not State.USED:
                self.states[c] = State.PROFILED if c in profiled else State.UNUSED
        hidden = [u for u in self.plan if any(u.overlaps(c) and c.inputs < u.inputs for c in profiled)]
        for c in hidden:
            self.states[c] = State.PROFILED
        return self._use(self.plan.difference(hidden))

    def drop(self, losing: Iterable[Candidate]) -> bool:
        """Stop using caches that cost more than they save (point a); returns whether there were any."""
        losing = frozenset(losing)
        for c in losing:
            self.states[c] = State.UNUSED
        self._judged = {c: v for c, v in self._judged.items() if c not in losing}
        self._selected = self._selected.difference(losing)
        return self._use(self.plan.difference(losing))

    def _use(self, plan: CacheSet) -> bool:
        changed, self.plan = plan != self.plan, plan
        return changed

    def reconsider(self, evidence: CacheEvidence, recall: Callable[[], CacheSet | None]) -> bool:
        """Choose among the used and profiled candidates, if one of them has changed (step 3, point c)."""
        values = {c: v for c, v in evidence.values.items() if self.states.get(c) is not State.UNUSED}
        before, t = self.plan, self._thresholds
        if self._changed(values):
            self._judged = dict(values)
            chosen = select(values)
            pays = worth(chosen, values) >= t.least_gain * evidence.work
            self._selected = chosen if pays else frozenset()
        self.plan = self._selected.intersection(self.states)
        for c in self.states:
            self.states[c] = State.USED if c in self.plan else State.UNUSED
        self.interval = t.interval if self.plan else min(2 * self.interval, t.longest_interval)
        known = [c for c in self.plan if c in values]
        self.gain = worth(known, values) / evidence.work if evidence.work else 0.0
        return self.plan != before

    def _changed(self, values: Values) -> bool:
        """Whether a benefit or cost differs from that of the last selection by more than a share."""
        limit = self._thresholds.change

        def far(new: float, old: float) -> bool:
            return abs(new - old) > limit * max(abs(old), 1e-12)

        for c, value in values.items():
            old = self._judged.get(c)
            if old is None or far(value.benefit, old.benefit) or far(value.cost, old.cost):
                return True
        return False


class CacheProfiler:
    """The statistics that are logged with a decision: each input's share of the tuples, and their cost."""

    def statistics(self, evidence: CacheEvidence) -> Statistics:
        return np.array([number for pair in evidence.traffic for number in pair], np.float64)
