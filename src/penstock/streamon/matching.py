"""Which probes of a join ask for a first match only, and which take all matches at once.

Drop probing (thesis 5.2.2) asks each input whether there is a match, and finds all matches of the tuples that
no input drops afterwards: those probe twice. Taking all matches at once saves the second probe, and wastes
what it found for tuples that are dropped later. So it depends on the stream: on how many rows a probe finds,
how many tuples there are for a row by then, and how many of the rows that pass are dropped after all.

An instance of StreaMon whose plan is the set of filters that are asked for a first match. The profiler counts
what the executor does anyway. What all matches of a filter waste is

    lost · tuples · (1 + match · found)

probes for a row, where ``lost`` is the share of the rows that pass it and are dropped later, ``tuples`` those
of a row that probe, ``found`` the matches of each; a first match is one probe more, and some work. No clock
is read: counts follow from the input and A-Greedy's orders. Results never depend on the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from penstock.measurement import Property, Reading
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Price, Statistics
from penstock.streamon.settings import MATCHING, MatchingThresholds

FirstMatches = frozenset[int]
"""Filters that are asked for a first match only."""


class MatchProfiler:
    """Counts rows, tuples and matches of each filter, the recent ones most."""

    def __init__(self, n: int, thresholds: MatchingThresholds) -> None:
        self._memory, self._match = thresholds.memory, thresholds.match
        self._tuples = [1.0] * n
        self._found = [1.0] * n
        self._lost = [0.5] * n
        self.known = [False] * n
        """Filters of which it is known how many matches they have."""

    def asked(self, f: int, rows: int, tuples: int) -> None:
        """Rows with so many tuples came to a filter."""
        self._tuples[f] += (tuples / rows - self._tuples[f]) * self._weight(rows)

    def found(self, f: int, tuples: int, matches: int) -> None:
        """Tuples that probed, and their matches as far as those cost something."""
        self._found[f] += (matches / tuples - self._found[f]) * self._weight(tuples)
        self.known[f] = True

    def ended(self, f: int, passed: int, kept: int) -> None:
        """Of the rows that a filter let pass, so many were dropped by no other."""
        self._lost[f] += (1.0 - kept / passed - self._lost[f]) * self._weight(passed)

    def _weight(self, count: int) -> float:
        return count / (count + self._memory)

    def statistics(self, evidence: object) -> Statistics:
        """What all matches of each filter waste, in probes for a row."""
        lost, tuples, found = map(np.array, (self._lost, self._tuples, self._found))
        return np.asarray(lost * tuples * (1.0 + self._match * found), np.float64)


class LeastWaste:
    """Asks for a first match where all matches waste more than that costs."""

    def __init__(self, thresholds: MatchingThresholds) -> None:
        self._first, self._margin = thresholds.first, thresholds.margin
        self.plan: FirstMatches = frozenset()
        self.gain = 0.0

    def reconsider(self, evidence: Statistics, recall: Callable[[], FirstMatches | None]) -> bool:
        margins = [1 / self._margin if f in self.plan else self._margin for f in range(len(evidence))]
        chosen = frozenset(f for f, m in enumerate(margins) if evidence[f] > self._first * m)
        if chosen == self.plan:
            return False
        before, after = self.price(evidence, self.plan), self.price(evidence, chosen)
        self.gain = 1.0 - after / before if before else 0.0
        self.plan = chosen
        return True

    def price(self, waste: Statistics, plan: FirstMatches) -> float:
        """Probes for a row that its results do not need."""
        return float(sum(self._first if f in plan else w for f, w in enumerate(waste)))


class AdaptiveMatching:
    """The filters of ``n`` that are asked for a first match only; none at first."""

    def __init__(self, n: int, thresholds: MatchingThresholds = MATCHING) -> None:
        self.thresholds = thresholds
        self.profiler = MatchProfiler(n, thresholds)
        self.log = PlanLog[FirstMatches](thresholds.plan_log_size)
        self.first: FirstMatches = frozenset()
        self._best = LeastWaste(thresholds)
        self._streamon = StreaMon(self, self.profiler, self._best, self.log, self._pricing)
        self._rows = self._next = 0

    def _pricing(self, waste: Statistics, _: object) -> Price[FirstMatches]:
        return lambda plan: self._best.price(waste, plan)

    def use(self, plan: FirstMatches) -> None:
        self.first = plan

    def asks_first(self, f: int, rows: int, tuples: int, length: int = 1) -> bool:
        """Whether these rows with so many tuples are to be asked for a first match, by a path of a length."""
        return f in self.first or tuples > self.thresholds.most_tuples**length * rows

    def ended(self, rows: int) -> None:
        """So many rows have gone through all filters."""
        self._rows += rows
        if self._rows >= self._next:
            self._next = self._rows + self.thresholds.period
            self._streamon.adapt(self._rows, self.profiler.statistics(None))

    def measure(self, names: Sequence[str]) -> Iterator[Reading]:
        """The filters asked for a first match, and the last decisions."""
        yield from (Reading(Property.FIRST_MATCH, 0, names[f]) for f in sorted(self.first))
        yield Reading(Property.CHANGES, self.log.count)

        def shown(plan: FirstMatches) -> str:
            return ", ".join(names[f] for f in sorted(plan)) or "none"

        yield from self.log.measure(names, shown, self._rows)
