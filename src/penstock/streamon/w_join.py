"""The algorithm of a W-join, chosen again while it runs.

An instance of StreaMon whose plan is the name of an algorithm. The executor sweeps by it. The profiler counts
the rows that arrive and, for a sample of them, the rows in the other streams' buffers, the share that finds a
row in every buffer, and the share of the pairs that match: all in stream order, so that the same input leads
to the same choices. The re-optimizer compares what each algorithm would cost:

* a tuple that looks for rows of the next stream costs ``tuple``; by ``nlw`` each row of the buffer costs
  ``scan``, by ``mw``, ``gca`` and ``lca`` it costs ``test``; by ``hw`` the table costs ``probe``, each match
  ``match``;
* ``mw``, ``gca`` and ``lca`` look into the buffers only for rows that find one in every buffer, and pay
  ``locate`` for each stream to know;
* ``mjoin`` probes the indexes, the most selective stream first; they find rows out of the window too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.measurement import Property, Reading, curve
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Price, Statistics
from penstock.streamon.settings import W_JOIN, WJoinThresholds


@dataclass(frozen=True)
class Traffic:
    """What a W-join was like lately: per stream, rows that arrived and rows in its buffer when others came.

    ``located``: the share of the rows that found a row in every buffer. ``matching``: the share of the rows
    in a buffer that matched a tuple, in keys and time. ``near``: the share of them that is in a tuple's
    period, as the windows say. ``widest``: per stream, how many times more rows the largest window has.
    ``stored``: per stream, all rows in its store, with those of the step: an index finds them too.
    """

    arrived: tuple[float, ...]
    buffered: tuple[float, ...]
    located: float
    matching: float
    near: float = 1.0
    widest: tuple[float, ...] = ()
    stored: tuple[float, ...] = ()

    def cost(self, algorithm: str, unit: WJoinThresholds) -> float:
        """Seconds for the rows that arrived."""
        streams = range(len(self.arrived))
        return sum(self.arrived[i] * self._of_root(algorithm, i, unit) for i in streams)

    def _of_root(self, algorithm: str, root: int, unit: WJoinThresholds) -> float:
        """Seconds for a row of stream ``root``."""
        others = [*range(root + 1, len(self.arrived)), *range(root)]
        merges = algorithm in ("mw", "gca", "lca")
        matching = min(self.matching / self.near, 1.0) if merges else self.matching
        if algorithm == "mjoin":
            others.sort(key=lambda j: self.buffered[j])
        seconds, tuples = 0.0, 1.0
        for j in others:
            rows = self.buffered[j] * (self.widest[j] if algorithm in ("gca", "mw") and self.widest else 1.0)
            if algorithm == "mjoin":
                found = max(self.stored[j] if self.stored else 0.0, rows) * min(matching / self.near, 1.0)
                seconds += tuples * (unit.index_probe + found * unit.index_match)
            elif algorithm == "hw":
                seconds += tuples * (unit.tuple + unit.probe + rows * matching * unit.match)
            else:
                seconds += tuples * (unit.tuple + rows * (unit.test if merges else unit.scan))
            tuples *= rows * matching
        return seconds * self.located + len(others) * unit.locate if merges else seconds


class TrafficProfiler:
    """Counts of one period; the counts of earlier ones are halved with each."""

    def __init__(self, streams: int, near: float, widest: tuple[float, ...]) -> None:
        self.rows = 0
        self._near, self._widest = near, widest
        self._arrived, self._buffered = np.zeros(streams), np.zeros(streams)
        self._sampled, self._located, self._pairs, self._matched = 0.0, 0.0, 0.0, 0.0
        self._stored = (0.0,) * streams
        self.pending = 0

    def arrived(self, counts: Sequence[int]) -> None:
        self._arrived += counts
        self.pending += sum(counts)
        self.rows += sum(counts)

    def sampled(self, count: int, located: int, buffered: Sequence[float]) -> None:
        """Rows, how many of them found a row in every buffer, and the rows in the buffers of all of them."""
        self._sampled += count
        self._located += located
        self._buffered += buffered

    def stored(self, rows: Sequence[float]) -> None:
        """The rows in the stores."""
        self._stored = tuple(map(float, rows))

    def matched(self, pairs: int, matched: int) -> None:
        self._pairs += pairs
        self._matched += matched

    def end_period(self) -> Traffic:
        """The traffic up to now; if nothing was sampled it is the one before."""
        count = max(self._sampled, 1e-9)
        found = Traffic(
            tuple(self._arrived.tolist()),
            tuple((self._buffered / count).tolist()),
            self._located / count,
            self._matched / self._pairs if self._pairs else 1.0,
            self._near,
            self._widest,
            self._stored,
        )
        self._arrived, self._buffered = self._arrived / 2, self._buffered / 2
        self._sampled, self._located = self._sampled / 2, self._located / 2
        self._pairs, self._matched, self.pending = self._pairs / 2, self._matched / 2, 0
        return found

    def statistics(self, evidence: Traffic) -> Statistics:
        return np.array([*evidence.arrived, *evidence.buffered, evidence.located, evidence.matching])


class CheapestAlgorithm:
    """Re-optimizes by the cost of each algorithm."""

    def __init__(self, algorithms: Sequence[str], thresholds: WJoinThresholds) -> None:
        self._algorithms, self._thresholds = algorithms, thresholds
        self.plan = algorithms[0]
        self.gain = 0.0

    def reconsider(self, evidence: Traffic, recall: Callable[[], str | None]) -> bool:
        costs = self.costs(evidence)
        best = min(costs, key=costs.__getitem__)
        if best == self.plan or costs[self.plan] < self._thresholds.margin * costs[best]:
            return False
        self.gain = 1.0 - costs[best] / costs[self.plan]
        self.plan = best
        return True

    def costs(self, evidence: Traffic) -> dict[str, float]:
        return {name: evidence.cost(name, self._thresholds) for name in self._algorithms}


class AdaptiveWJoin:
    """Which of ``algorithms`` joins the streams: the first, then the cheapest."""

    def __init__(
        self,
        algorithms: Sequence[str],
        streams: int,
        near: float = 1.0,
        widest: tuple[float, ...] = (),
        thresholds: WJoinThresholds = W_JOIN,
    ) -> None:
        self.algorithms, self.algorithm = tuple(algorithms), algorithms[0]
        self.log = PlanLog[str](thresholds.plan_log_size)
        self.profiler = TrafficProfiler(streams, near, widest)
        self.traffic: Traffic | None = None
        self._period = thresholds.period
        self._cheapest = CheapestAlgorithm(self.algorithms, thresholds)
        self._streamon = StreaMon(self, self.profiler, self._cheapest, self.log, self._pricing)

    def use(self, plan: str) -> None:
        self.algorithm = plan

    def looks(self, rows: int) -> bool:
        """Whether a step with so many new rows is one to look at: the first, and then one per period."""
        first = self.traffic is None and rows > 0
        return len(self.algorithms) > 1 and (first or self.profiler.pending + rows >= self._period)

    def _pricing(self, _: Statistics, traffic: Traffic) -> Price[str]:
        costs = self._cheapest.costs(traffic)
        return lambda algorithm: costs[algorithm]

    def reconsider(self) -> None:
        """Compare the algorithms before a step that was looked at."""
        self.traffic = self.profiler.end_period()
        self._streamon.adapt(self.profiler.rows, self.traffic)

    def measure(self) -> Iterator[Reading]:
        """The algorithm, what each would cost for the rows now counted, and the last changes."""
        yield Reading(Property.METHOD, 0, self.algorithm)
        if self.traffic is None:
            return
        costs = self._cheapest.costs(self.traffic)
        yield from curve(Property.COST, costs.values(), costs)
        yield Reading(Property.CHANGES, self.log.count)
        of_each = [
            f"{what} {i}" for what in ("arrived", "buffered") for i in range(len(self.traffic.arrived))
        ]
        names = [*of_each, "located", "matching"]
        yield from self.log.measure(names, str, self.profiler.rows)
