"""How far averages estimated from a sample are from the true ones (Srivastava and Widom, section 6.2.4).

A windowed average of an attribute of S1 is taken by queries in CQL, every few time units, of all results and
of the sampled ones. The attribute is a mean and some standard deviations, so errors are told in the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.paper.budget_joins import LEARNS, WINDOW
from bench.paper.figure import Scale
from bench.paper.sampled_queries import EQUALITY, NEAR, SampledQuery
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
EVERY = 5
"""Time units from one average to the next; 1 in the paper."""
TUPLE, WITH_COUNTERS = 32, 34
"""Bytes of a tuple, and of one of UNIFORM's with its two counters."""


@dataclass(frozen=True)
class Aggregation:
    """The average over a join, true and by samples."""

    query: SampledQuery

    @staticmethod
    def of(case: str, scale: Scale) -> Aggregation:
        """Over streams of values whose frequencies are correlated as a case says."""
        streams = by_value(correlated(case, SKEW), RATES, (6 if scale.quick else 12) * WINDOW)
        return Aggregation(SampledQuery(streams, "AVG(v) AS mean", WINDOW, WINDOW * SECOND, EVERY))

    @property
    def _rows(self) -> float:
        """Tuples in the whole window."""
        ts = self.query.streams[0].ts
        return len(ts) * WINDOW * SECOND / int(ts[-1])

    def _averages(self, rows: float | None, goal: str = "", seed: int = 0, where: str = EQUALITY) -> Floats:
        """Since the join has learned, and a window has passed."""
        answer = self.query.run(rows, goal, seed, where)
        return answer.column("mean", (LEARNS + 1) * WINDOW * SECOND)

    @cached_property
    def _truth(self) -> Floats:
        return self._averages(None)

    def picked(self, percent: float) -> str:
        """The scheme that SAMPLE takes for this average, where nothing is said."""
        answer = self.query.run(self._rows * percent / 100, "SAMPLE")
        return answer.measured.text(Property.POLICY).replace("_", "-")

    def error(self, percent: float, scheme: str, seeds: range) -> float:
        """The mean error of a scheme with so much memory, in standard deviations of the attribute."""
        rows = self._rows * percent / 100
        how = rows, "SAMPLE CLUSTER"
        if scheme == "UNIFORM":
            how = rows * TUPLE / WITH_COUNTERS, "SAMPLE UNIFORM"
        # All clusters have the same chance where nothing is known of how often values come.
        where = NEAR if scheme == "EQ-CLUSTER" else EQUALITY
        found = (self._averages(*how, seed, where) for seed in seeds)
        return float(np.mean([np.nanmean(np.abs(some - self._truth)) for some in found]))


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
