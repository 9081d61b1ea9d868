"""How far averages estimated from a sample are from the true ones (Srivastava and Widom, section 6.2.4).

A windowed average of an attribute of S1 is taken at every time unit, of all results and of the sampled ones
by their weights. The attribute is a mean and some standard deviations, so errors are told in the latter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.paper.budget_joins import WINDOW, Experiment, seeded
from bench.paper.figure import Scale
from penstock.approx.memory_policy import MemoryBudget
from penstock.budget import WEIGHT
from penstock.engine.element import Chunk
from penstock.measurement import Property
from penstock.workloads.memory_limited import SECOND, by_value, correlated

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SCHEMES = ("UNIFORM", "PPS-CLUSTER", "EQ-CLUSTER")
SKEW = 2.0
"""Z."""
RATES = (20.0, 5.0)
"""r1 is 1 in the paper, where 10 % of the window are 50 tuples; r2 is as there, so clusters are as large."""
KNOWN = "(known)"
"""Mark of what is computed with models known, by the paper's algorithms to the letter."""
TUPLE, WITH_COUNTERS = 32, 34
"""Bytes of a tuple, and of one of UNIFORM's with its two counters."""


@dataclass(frozen=True)
class Aggregation:
    """The average over a join, true and by samples."""

    run: Experiment

    @staticmethod
    def of(case: str, scale: Scale) -> Aggregation:
        """Over streams of values whose frequencies are correlated as a case says."""
        seconds = (6 if scale.quick else 12) * WINDOW
        return Aggregation(Experiment(by_value(correlated(case, SKEW), RATES, seconds)))

    @cached_property
    def _times(self) -> Int64s:
        return np.arange(self.run.from_ + WINDOW * SECOND, int(self.run.streams[1].ts[-1]), SECOND)

    @cached_property
    def _truth(self) -> Floats:
        exact, _ = self.run.run(self.run.plan(2 * self.run.rows, "MAXIMIZE RESULTS"))
        return _averages(exact, np.ones(len(exact)), self._times)

    def picked(self, percent: float) -> str:
        """The scheme that SAMPLE takes for this average, where nothing is said."""
        node = self.run.plan(self.run.rows * percent / 100, "SAMPLE")
        assert isinstance(node.budget, MemoryBudget)
        _, found = self.run.run(replace(node, budget=replace(node.budget, aggregated=True, constant=True)))
        return found.text(Property.POLICY).replace("_", "-")

    def error(self, percent: float, scheme: str, seeds: range) -> float:
        """The mean error of a scheme with so much memory, in standard deviations of the attribute."""
        rows = self.run.rows * percent / 100
        if scheme == "UNIFORM":
            node = self.run.plan(rows * TUPLE / WITH_COUNTERS, "SAMPLE UNIFORM")
        else:
            node = self.run.plan(rows, "SAMPLE CLUSTER")
        errors = []
        for seed in seeds:
            # All clusters have the same chance where nothing is known of how often values come.
            found, _ = self.run.run(seeded(node, seed, by_value=scheme != "EQ-CLUSTER"))
            weights = found.column(WEIGHT).to_numpy(zero_copy_only=False)
            errors.append(np.nanmean(np.abs(_averages(found, weights, self._times) - self._truth)))
        return float(np.mean(errors))


def _averages(results: Chunk, weights: Floats, times: Int64s) -> Floats:
    return averages(results.ts, results.column("S1.v").to_numpy(zero_copy_only=False), weights, times)


def averages(ts: Int64s, values: Floats, weights: Floats, times: Int64s) -> Floats:
    """The weighted average of what came in the window before each of some times; NaN where nothing did."""
    order = np.argsort(ts, kind="stable")
    until, since = (np.searchsorted(ts[order], times - back, "right") for back in (0, WINDOW * SECOND))
    total, count = (
        sums[until] - sums[since]
        for sums in (np.append(0.0, np.cumsum(a[order])) for a in (weights * values, weights))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(until > since, total / count, np.nan)


def crossover(ratio: dict[float, float]) -> str:
    """Between which memories a ratio rises above 1."""
    below, above = [m for m in ratio if ratio[m] < 1], [m for m in ratio if ratio[m] >= 1]
    return f"between {max(below):g} and {min(above):g} %" if below and above else "nowhere"
