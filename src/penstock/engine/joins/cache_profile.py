"""What A-Caching knows of the pipelines of a join (thesis 5.5.3), and what caches would save by that (5.5.1).

Of each pipeline there are three kinds of slices whose time is known: *plain* ones, processed as without
caches; *cached* ones; and *profiled* ones, which take all probes one after the other, each
of them timed: that gives the tuples d and the cost c of each join. Plain slices are what a join without
caches does anyway, so they are looked at first, and most joins are left alone after that: a cache cannot save
more than its pipeline takes, and not for keys that do not come again (``JoinProfile.bound``).

Units: seconds per tuple of the whole join, so that rates are shares of its tuples. Of several observations
the median counts: whatever interferes makes some of them slower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from penstock.engine.kernels.caching import mark
from penstock.streamon.cache_selection import Candidate, Value, benefit
from penstock.streamon.settings import CacheThresholds


class Keys:
    """How many look-ups of a candidate would miss: a Bloom filter over windows of tuples (5.5.3).

    The thesis counts all different keys of a window. Here those count that are new in its second half: the
    first half is for keys that a cache which has been in use would have.
    """

    def __init__(self, thresholds: CacheThresholds) -> None:
        self._bits = np.zeros(thresholds.bloom_tuples * thresholds.bloom_bits, np.bool_)
        self._window = thresholds.bloom_tuples
        self._most = thresholds.bloom_windows
        self._tuples = self._late = self._new = 0
        self._shares: list[float] = []

    @property
    def enough(self) -> bool:
        return len(self._shares) >= self._most

    def add(self, words: np.ndarray) -> None:
        new = mark(self._bits, words)
        if 2 * self._tuples >= self._window:
            self._new, self._late = self._new + new, self._late + len(words)
        self._tuples += len(words)
        if self._tuples >= self._window and self._late:
            self._shares.append(self._new / self._late)
            self._bits[:] = False
            self._tuples = self._late = self._new = 0

    @property
    def miss_probability(self) -> float | None:
        """The share of tuples whose key is the first of its kind; None while there are too few."""
        if self._shares:
            return fmean(self._shares)
        return self._new / self._late if 4 * self._late > self._window else None


class Slice(NamedTuple):
    """A slice whose time is known."""

    seconds: float
    tuples: int
    results: int


class PipelineProfile:
    """What is known of the pipeline of one input: the last observations of each statistic."""

    def __init__(self, joins: int, size: int) -> None:
        self.tuples = self.entered = 0.0
        """Recent tuples, and recent rows that entered the input."""
        self.plain: deque[Slice] = deque(maxlen=size)
        self.cached: deque[Slice] = deque(maxlen=size)
        self.joins: deque[np.ndarray] = deque(maxlen=size)
        self._joins = joins

    def clear(self) -> None:
        self.joins.clear()
        self.cached.clear()

    @property
    def uncached(self) -> float:
        """Seconds of a tuple without caches; 0 as long as it is unknown."""
        return _each(self.plain)

    @property
    def saved(self) -> float:
        """Seconds that its caches save per tuple."""
        return self.uncached - _each(self.cached)

    @property
    def results(self) -> float:
        """Results per tuple."""
        return sum(s.results for s in self.plain) / max(sum(s.tuples for s in self.plain), 1)

    @property
    def slice_size(self) -> float:
        return median(s.tuples for s in self.plain) if self.plain else 1.0

    def probes(self) -> tuple[np.ndarray, np.ndarray]:
        """For each join the tuples that reach it per tuple of the input, and what each of those takes; at the
        end, the tuples that all joins return.
        """
        if not self.joins:
            return np.ones(self._joins + 1), np.zeros(self._joins + 1)
        seen = np.array(self.joins)
        tuples, seconds = seen[:, 0], seen[:, 1]
        each = np.where(tuples > 0, seconds / np.maximum(tuples, 1.0), np.nan)
        known = np.isfinite(each).any(axis=0)
        costs = np.zeros(self._joins + 1)
        costs[known] = np.nanmedian(each[:, known], axis=0)
        total = tuples.sum(axis=0)
        return total / max(total[0], 1.0), costs


def _each(slices: Sequence[Slice] | deque[Slice]) -> float:
    return median(s.seconds / max(s.tuples, 1) for s in slices) if slices else 0.0


class JoinProfile:
    """The profiles of all pipelines, and what follows from them for candidates."""

    def __init__(self, count: int, thresholds: CacheThresholds) -> None:
        self._thresholds = thresholds
        self.pipelines = [PipelineProfile(count - 1, thresholds.observations) for _ in range(count)]

    def __getitem__(self, root: int) -> PipelineProfile:
        return self.pipelines[root]

    @property
    def recent(self) -> float:
        """Recent tuples of the join."""
        return max(sum(p.tuples for p in self.pipelines), 1.0)

    def age(self) -> None:
        """What was until now counts half."""
        for p in self.pipelines:
            p.tuples, p.entered = p.tuples / 2, p.entered / 2

    def rate(self, root: int) -> float:
        return self.pipelines[root].tuples / self.recent

    def traffic(self) -> tuple[tuple[float, float], ...]:
        """For each input its share of the tuples, and what one takes without caches."""
        return tuple((self.rate(root), p.uncached) for root, p in enumerate(self.pipelines))

    def work(self) -> float:
        """What a tuple of the join takes without caches."""
        return sum(share * cost for share, cost in self.traffic())

    def bound(self, c: Candidate, miss: float, shown: Collection[int] = ()) -> Value:
        """The most that a cache can save, and the least that it costs, by plain slices alone.

        A hit saves at most all that a tuple takes, except for its results. A new row of the segment is at
        least looked up, unless its pipeline shows what it joins: ``shown`` are the inputs for which it does.
        """
        p, t = self.pipelines[c.root], self._thresholds
        least = t.probe_s + t.read_s * p.results + t.call_s / p.slice_size
        fed = sum(self.pipelines[j].entered for j in (c.inputs | c.beside).difference(shown)) / self.recent
        return Value(self.rate(c.root) * ((1.0 - miss) * p.uncached - least), fed * t.probe_s)

    def value(
        self, c: Candidate, orders: Sequence[Sequence[int]], miss: float, shown: Collection[int] = ()
    ) -> Value:
        """Benefit and cost of a profiled candidate; it has no benefit if its pipeline was not profiled."""
        p, t = self.pipelines[c.root], self._thresholds
        if not p.joins:
            return Value(0.0, self.cost(c, orders, shown))
        tuples, seconds = p.probes()
        at, stop = c.first, c.first + len(c.inputs)
        entry = tuples[stop] / max(tuples[at], 1e-9)
        probe = t.probe_s + t.read_s * entry + t.call_s / max(p.slice_size * tuples[at], 1.0)
        joins = tuples[at:stop].tolist(), seconds[at:stop].tolist()
        saved = benefit(*joins, tuples[stop], probe, t.update_s, miss)
        # Without caches, first matches may be asked for, and rows profiled: that takes more or less than
        # all probes do.
        dearer = float(tuples[:-1] @ seconds[:-1]) - p.uncached
        return Value(self.rate(c.root) * (saved - dearer), self.cost(c, orders, shown))

    def cost(self, c: Candidate, orders: Sequence[Sequence[int]], shown: Collection[int] = ()) -> float:
        """Insertions for new rows of the candidate's inputs, and probes where their pipelines do not show
        what they join.
        """
        total, fed = 0.0, c.inputs | c.beside
        for j in fed:
            p = self.pipelines[j]
            if not p.joins:  # so few rows that they were not profiled
                total += p.entered / self.recent * p.uncached
                continue
            tuples, seconds = p.probes()
            inside = [at for at, k in enumerate(orders[j]) if k in fed]
            work = 0.0 if j in shown else sum(tuples[at] * seconds[at] for at in inside)
            total += p.entered / self.recent * (work + tuples[inside[-1] + 1] * self._thresholds.update_s)
        return total


class ProfilingBudget:
    """Seconds that may be spent on slices which take longer than others, to learn from them (3.1)."""

    def __init__(self, thresholds: CacheThresholds) -> None:
        self._share, self._allowance = thresholds.overhead_share, thresholds.allowance_s
        self.busy = self.spent = 0.0

    def allows(self) -> bool:
        return self.spent <= self._allowance + self._share * self.busy
