"""The models of a window, learned from its stream (Srivastava and Widom, section 2.3).

A small fraction of the tuples is *watched*: kept until they expire. Their results by age, divided by the time
watched at that age, are the age curve; the counts of values on both streams are the frequencies. Both decay
with stream time, so that they follow drift.

The better model is the one that predicted the results of the watched tuples better, by the ratio of the
likelihoods. Each result is a Poisson event whose rate is the other stream's share of the tuple's value, or
the age curve so far without the tuple's own results: with few watched tuples, one with many results would
otherwise be predicted by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.approx.known_tuples import KnownTuples
from penstock.approx.models.age import AgeCurve
from penstock.approx.models.counts import Counts
from penstock.approx.models.frequency import Frequencies
from penstock.approx.settings import (
    AGE_STEPS,
    AGE_TRUST_TUPLES,
    COMPARED_TUPLES,
    MAX_SMOOTHING_PART,
    MIN_SMOOTHING_STEPS,
    RESULTS_PER_AGE,
)
from penstock.engine.snapshot import Stateful

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class Rate:
    """Recent tuples per tick."""

    count: float = 0.0
    ticks: float = 0.0

    @property
    def value(self) -> float:
        """Tuples per tick; 0 before the first count."""
        return self.count / self.ticks if self.ticks else 0.0


class WindowModel(Stateful):
    """The models of one window of ``length`` ticks; ``keyed`` if it has an equality predicate.

    Evidence that is ``memory`` ticks old has a weight of 1/e.
    """

    saved = (
        "rate", "counts", "curve", "fit", "judged", "_results", "_watched", "_ended", "_ended_squares",
        "_ended_count", "_new", "_at",
    )  # fmt: skip

    def __init__(self, length: int, keyed: bool, memory: float) -> None:
        self.length, self.keyed, self._memory = length, keyed, memory
        self.steps = int(min(AGE_STEPS, length))
        self.step = length / self.steps
        self.rate, self.counts = Rate(), Counts()
        self._results, self._watched = np.zeros(self.steps), np.zeros(self.steps)
        self._ended, self._ended_squares, self._ended_count = 0.0, 0.0, 0.0
        self._new: list[Int64s] = []
        self.fit, self.judged, self._at = 0.0, 0.0, 0
        self.curve = AgeCurve((1.0,) * self.steps)

    def arrived(self, keys: Int64s) -> None:
        """Count tuples of this window's stream; they take effect when their time has passed."""
        self._new.append(keys)

    def add_results(self, known: KnownTuples, rows: Int64s, times: Int64s, other_rate: float) -> None:
        """Count results of watched tuples at these times."""
        ages = np.minimum(((times - known.ts[rows]) / self.step).astype(np.int64), self.steps - 1)
        np.add.at(self._results, ages, 1.0)
        np.add.at(known.seen, rows, 1)
        valued = known.share[rows] > 0
        if self._comparable and valued.any():
            by_age = np.asarray(self.curve.results)[ages[valued]] * self._without(known, rows[valued])
            predicted = np.maximum(by_age, 1e-9)
            by_value = np.maximum(known.share[rows[valued]] * other_rate * self.step, 1e-9)
            self.fit += float(np.log(by_value / predicted).sum())
            self.judged += float(valued.sum())

    def passed(self, known: KnownTuples, begin: int, end: int, other_rate: float) -> None:
        """Advance from ``begin`` to ``end``: the watched tuples age, and old evidence decays."""
        seen = np.flatnonzero(known.monitored & (known.ts < end) & (known.end > begin))
        edges = np.arange(self.steps) * self.step
        young = np.clip(begin - known.ts[seen], 0, self.length)[:, None]
        old = np.clip(end - known.ts[seen], 0, self.length)[:, None]
        parts = np.clip(np.minimum(old, edges + self.step) - np.maximum(young, edges), 0, None) / self.step
        self._watched += parts.sum(axis=0)
        valued = known.share[seen] > 0
        if self._comparable and valued.any():
            by_value = known.share[seen[valued]] * other_rate * self.step
            predicted = parts[valued] @ np.asarray(self.curve.results) * self._without(known, seen[valued])
            self.fit -= float((by_value * parts[valued].sum(axis=1) - predicted).sum())
        self._note_ended(known, seen[known.end[seen] <= end])
        self._count()
        self._decay(np.exp(-(end - begin) / self._memory), end - begin)
        self.curve = self._curve()
        known.noted, self._at = known.seen.copy(), end

    def _without(self, known: KnownTuples, rows: Int64s) -> Floats:
        """The factor for each tuple that removes its own results from the curve."""
        results, watched = float(self._results.sum()), float(self._watched.sum())
        if not results:
            return np.ones(len(rows))
        own = np.minimum(known.noted[rows], results)
        lasted = np.minimum(np.maximum(self._at - known.ts[rows], 0) / self.step, watched)
        # One more result at the average rate is added, for the case that there are no others.
        return (results - own + 1) / (watched - lasted + watched / results) * watched / (results + 1)

    @property
    def _comparable(self) -> bool:
        """Whether the models can be compared: a few tuples have been watched until they expired."""
        return self.keyed and bool(self._watched.sum() > COMPARED_TUPLES * self.steps)

    def _count(self) -> None:
        keys = np.concatenate([np.empty(0, np.int64), *self._new])
        self._new = []
        self.rate.count += len(keys)
        if self.keyed:
            self.counts.see(keys)

    def _note_ended(self, known: KnownTuples, rows: Int64s) -> None:
        """Record how far the results of expired tuples differ from the prediction of the better model."""
        if not len(rows):
            return
        by_frequency = self.fit > 0
        expected = known.likely[rows] if by_frequency else np.full(len(rows), self.curve.total)
        self._ended += float(expected.sum())
        self._ended_squares += float(((known.seen[rows] - expected) ** 2).sum())
        self._ended_count += len(rows)

    def _decay(self, factor: float, passed: int) -> None:
        self._results *= factor
        self._watched *= factor
        self.rate.count *= factor
        self.rate.ticks = (self.rate.ticks + passed) * factor
        self.fit *= factor
        self.judged *= factor
        self._ended *= factor
        self._ended_squares *= factor
        self._ended_count *= factor
        self.counts.decay(float(factor))

    def _curve(self) -> AgeCurve:
        """Results per watched time by age; ages with little evidence take the average."""
        watched = self._watched.sum()
        average = self._results.sum() / watched if watched else 0.0
        rough = (self._results + AGE_TRUST_TUPLES * average) / (self._watched + AGE_TRUST_TUPLES)
        if watched < AGE_TRUST_TUPLES and not average:
            return AgeCurve((1.0,) * self.steps)
        return AgeCurve(tuple(self._smooth(rough).tolist()))

    def _smooth(self, rough: Floats) -> Floats:
        """Smooth the curve: with few watched tuples, noise would be taken for minima."""
        wide = self.steps * RESULTS_PER_AGE / max(float(self._results.sum()), 1.0) / np.sqrt(2 * np.pi)
        spread = float(
            np.clip(wide, MIN_SMOOTHING_STEPS, max(self.steps * MAX_SMOOTHING_PART, MIN_SMOOTHING_STEPS))
        )
        reach = int(np.ceil(3 * spread))
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / spread) ** 2)
        return np.convolve(np.pad(rough, reach, "edge"), weights / weights.sum(), "valid")

    @property
    def surprise(self) -> float:
        """The error of the predicted results, relative to them: 0 is a perfect model."""
        if not self._ended:
            return float("inf")
        return float(np.sqrt(self._ended_squares * self._ended_count)) / self._ended

    @property
    def margin(self) -> float:
        """The relative margin over the predicted results that a uniform sample allows for."""
        return min(self.surprise, 1.0)

    def frequencies(self, other: WindowModel) -> Frequencies:
        """The frequency model of the window; ``other`` is the model of the other window."""
        rates = max(self.rate.value, 1e-12), other.rate.value
        return Frequencies(self.counts.known(), other.counts.known(), *rates, float(self.length))

    @property
    def need(self) -> float:
        """The number of tuples of the whole window."""
        return self.rate.value * self.length

    def nbytes(self) -> int:
        return self.counts.nbytes() + self._results.nbytes + self._watched.nbytes
