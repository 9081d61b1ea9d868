"""The sampling algorithms to the letter, where all is known that they have to know (section 4, figure 4).

How many results to expect of a tuple is given, the sampling fraction is that at which the tuples fit, and
rates are the paper's. So UNIFORM discards a tuple of which less than one result is expected, and whatever a
tuple gives beyond what was expected is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.paper.aggregation_errors import SKEW, TUPLE, WITH_COUNTERS, averages
from bench.paper.budget_joins import WINDOW
from bench.paper.figure import Scale
from penstock.approx.sampling import largest
from penstock.workloads.memory_limited import SECOND, Streams, by_value, correlated, pairs

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Sampling = Callable[[np.random.Generator], tuple[Bools, Floats]]
"""Which results are in a sample by some chance, and the weights of all."""

RATES = (1.0, 5.0)
WINDOWS = 40
STREAMS, SAMPLES = 6, 16
"""Pairs of streams that an error is the mean of, and samples of each."""
HALVINGS = 14
"""Of what is counted, not computed, there are no more digits."""


@dataclass(frozen=True)
class Known:
    """A join of which all results are at hand, each with its tuple of S1; ``expected``: n(s) of those."""

    streams: Streams
    expected: Floats

    @staticmethod
    def of(case: str, seed: int, order: int = 0) -> Known:
        """Over streams of values whose frequencies are correlated as a case says; UC in an order drawn."""
        parts = correlated(case, SKEW, order)
        streams = by_value(parts, RATES, WINDOWS * WINDOW, seed)
        return Known(streams, RATES[1] * WINDOW * parts[1][streams[0].key])

    @cached_property
    def _results(self) -> tuple[Int64s, Int64s, Int64s]:
        """Tuple of S1, number among its results, and time of each result."""
        one, two = pairs(self.streams, WINDOW)
        order = np.argsort(one, kind="stable")
        one = one[order]
        starts = np.searchsorted(one, one, "left")
        return one, np.arange(len(one)) - starts + 1, self.streams[1].ts[two[order]]

    def error(self, percent: float, scheme: str, samples: int) -> float:
        """The mean error of an average over some samples, in standard deviations of the attribute."""
        rows = RATES[0] * WINDOW * percent / 100
        taken = self._uniform(rows) if scheme == "UNIFORM" else self._by_size(rows)
        found = (self._averages(*taken(np.random.default_rng(seed))) for seed in range(samples))
        return float(np.mean([np.nanmean(np.abs(averages - self._truth)) for averages in found]))

    @cached_property
    def _truth(self) -> Floats:
        every = np.ones(len(self._results[0]))
        return self._averages(every > 0, every)

    def _averages(self, taken: Bools, weights: Floats) -> Floats:
        tuples, _, ts = self._results
        times = np.arange(2 * WINDOW * SECOND, int(self.streams[1].ts[-1]), SECOND)
        values = self.streams[0].deviation[tuples]
        return averages(ts[taken], values[taken], weights[taken], times)

    def _by_size(self, rows: float) -> Sampling:
        """PPS-CLUSTER: all results of a tuple, with a chance that grows with their number."""
        need, tuples = RATES[0] * WINDOW, self._results[0]

        def used(per_result: float) -> float:
            return float(np.minimum(1.0, per_result * self.expected).mean()) * need

        chance = np.minimum(1.0, largest(used, rows, 1 / float(self.expected.min())) * self.expected)
        return lambda random: ((random.random(len(chance)) < chance)[tuples], 1 / chance[tuples])

    def _uniform(self, rows: float) -> Sampling:
        """UNIFORM: results one by one, as long as a tuple may be expected to give one more that is taken."""
        used = lambda p: self._held(p, np.random.default_rng(0))[0]  # noqa: E731
        fraction = largest(used, rows * TUPLE / WITH_COUNTERS, halvings=HALVINGS)
        weights = np.ones(len(self._results[0]))
        return lambda random: (self._held(fraction, random)[1], weights)

    def _held(self, fraction: float, random: np.random.Generator) -> tuple[float, Bools]:
        """Tuples in memory, on average, and the results that are taken."""
        (tuples, number, ts), first = self._results, self.streams[0].ts
        taken = (random.random(len(tuples)) < fraction) & (number <= self.expected[tuples])
        life = np.zeros(len(first))
        np.maximum.at(life, tuples[taken], (ts - first[tuples])[taken])
        missing = np.floor(self.expected) - np.bincount(tuples, minlength=len(first))
        # Expected results that never come: if one of them would be taken, the tuple waits till it expires.
        waits = random.random(len(first)) < 1 - (1 - fraction) ** np.maximum(missing, 0)
        life[waits] = WINDOW * SECOND
        return float(life.sum()) / int(first[-1]), taken


def known_joins(case: str, scale: Scale) -> list[Known]:
    """As many as it takes."""
    return [Known.of(case, seed) for seed in scale.seeds(STREAMS)]


def mean_error(joins: Sequence[Known], percent: float, scheme: str) -> float:
    """Over all of them."""
    return float(np.mean([join.error(percent, scheme, SAMPLES) for join in joins]))
