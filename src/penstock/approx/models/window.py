"""The models of a window, learned from its stream (Srivastava and Widom, section 2.3).

A small fraction of the tuples is kept for life. The results that they give, by age, over the time that they
were watched at that age, are the age curve; how often each value comes on both streams are the frequencies.
What was seen fades with stream time, so that drift is followed.

Which model fits is told by how well each one foresaw the results of the watched tuples: by the ratio of the
likelihoods, each result a Poisson event whose rate is the other stream's share of the tuple's value, or the
age curve as it was known before, without what the tuple itself had given to it: of few watched tuples one
that gives many results would else be foreseen by its own.
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
    MAX_SMOOTHING_PART,
    MIN_SMOOTHING_STEPS,
    RESULTS_PER_AGE,
)
from penstock.engine.snapshot import Stateful

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class Rate:
    """Tuples a tick, of late."""

    count: float = 0.0
    ticks: float = 0.0

    @property
    def value(self) -> float:
        """0 while nothing is known."""
        return self.count / self.ticks if self.ticks else 0.0


class WindowModel(Stateful):
    """What is known of one window of ``length`` ticks; ``keyed`` if it is joined by equality.

    What was seen ``memory`` ticks ago matters a third.
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
        """Tuples came on this window's stream; they count once the time has passed."""
        self._new.append(keys)

    def gave(self, known: KnownTuples, rows: Int64s, times: Int64s, other_rate: float) -> None:
        """Watched tuples gave results, at these times."""
        ages = np.minimum(((times - known.ts[rows]) / self.step).astype(np.int64), self.steps - 1)
        np.add.at(self._results, ages, 1.0)
        np.add.at(known.seen, rows, 1)
        told = known.share[rows] > 0
        if self._foresees and told.any():
            by_age = np.asarray(self.curve.results)[ages[told]] * self._without(known, rows[told])
            foreseen = np.maximum(by_age, 1e-9)
            by_value = np.maximum(known.share[rows[told]] * other_rate * self.step, 1e-9)
            self.fit += float(np.log(by_value / foreseen).sum())
            self.judged += float(told.sum())

    def passed(self, known: KnownTuples, begin: int, end: int, other_rate: float) -> None:
        """Time went on from ``begin`` to ``end``: the watched tuples grew older, and what was seen fades."""
        seen = np.flatnonzero(known.monitored & (known.ts < end) & (known.end > begin))
        edges = np.arange(self.steps) * self.step
        young = np.clip(begin - known.ts[seen], 0, self.length)[:, None]
        old = np.clip(end - known.ts[seen], 0, self.length)[:, None]
        parts = np.clip(np.minimum(old, edges + self.step) - np.maximum(young, edges), 0, None) / self.step
        self._watched += parts.sum(axis=0)
        told = known.share[seen] > 0
        if self._foresees and told.any():
            by_value = known.share[seen[told]] * other_rate * self.step
            foreseen = parts[told] @ np.asarray(self.curve.results) * self._without(known, seen[told])
            self.fit -= float((by_value * parts[told].sum(axis=1) - foreseen).sum())
        self._note_ended(known, seen[known.end[seen] <= end])
        self._count()
        self._fade(np.exp(-(end - begin) / self._memory), end - begin)
        self.curve = self._curve()
        known.noted, self._at = known.seen.copy(), end

    def _without(self, known: KnownTuples, rows: Int64s) -> Floats:
        """By what the curve is to be multiplied for each of some tuples, so that it is that of the others."""
        results, watched = float(self._results.sum()), float(self._watched.sum())
        if not results:
            return np.ones(len(rows))
        own = np.minimum(known.noted[rows], results)
        lasted = np.minimum(np.maximum(self._at - known.ts[rows], 0) / self.step, watched)
        # Where there are no others, one result more is taken to have come at the usual pace.
        return (results - own + 1) / (watched - lasted + watched / results) * watched / (results + 1)

    @property
    def _foresees(self) -> bool:
        """Whether the models are there to be compared: the lives of a few tuples have been watched."""
        return self.keyed and bool(self._watched.sum() > 4 * self.steps)

    def _count(self) -> None:
        keys = np.concatenate([np.empty(0, np.int64), *self._new])
        self._new = []
        self.rate.count += len(keys)
        if self.keyed:
            self.counts.see(keys)

    def _note_ended(self, known: KnownTuples, rows: Int64s) -> None:
        """How far the results of tuples were from what the better model expected of them."""
        if not len(rows):
            return
        by_frequency = self.fit > 0
        expected = known.likely[rows] if by_frequency else np.full(len(rows), self.curve.total)
        self._ended += float(expected.sum())
        self._ended_squares += float(((known.seen[rows] - expected) ** 2).sum())
        self._ended_count += len(rows)

    def _fade(self, factor: float, passed: int) -> None:
        self._results *= factor
        self._watched *= factor
        self.rate.count *= factor
        self.rate.ticks = (self.rate.ticks + passed) * factor
        self.fit *= factor
        self.judged *= factor
        self._ended *= factor
        self._ended_squares *= factor
        self._ended_count *= factor
        self.counts.fade(float(factor))

    def _curve(self) -> AgeCurve:
        """Results over watched time by age; an age not watched for long is taken to be like the average."""
        watched = self._watched.sum()
        average = self._results.sum() / watched if watched else 0.0
        rough = (self._results + AGE_TRUST_TUPLES * average) / (self._watched + AGE_TRUST_TUPLES)
        if watched < AGE_TRUST_TUPLES and not average:
            return AgeCurve((1.0,) * self.steps)
        return AgeCurve(tuple(self._smooth(rough).tolist()))

    def _smooth(self, rough: Floats) -> Floats:
        """The curve of few watched tuples is rough, and what is not there would be taken for minima."""
        wide = self.steps * RESULTS_PER_AGE / max(float(self._results.sum()), 1.0) / np.sqrt(2 * np.pi)
        spread = float(
            np.clip(wide, MIN_SMOOTHING_STEPS, max(self.steps * MAX_SMOOTHING_PART, MIN_SMOOTHING_STEPS))
        )
        reach = int(np.ceil(3 * spread))
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / spread) ** 2)
        return np.convolve(np.pad(rough, reach, "edge"), weights / weights.sum(), "valid")

    @property
    def surprise(self) -> float:
        """How far tuples are from the results expected of them, as a part of these: 0 is a perfect model."""
        if not self._ended:
            return float("inf")
        return float(np.sqrt(self._ended_squares * self._ended_count)) / self._ended

    @property
    def doubt(self) -> float:
        """By which part more results than expected a uniform sample allows for."""
        return min(self.surprise, 1.0)

    def frequencies(self, other: WindowModel) -> Frequencies:
        """The frequency model of the window; ``other`` is the other one's."""
        rates = max(self.rate.value, 1e-12), other.rate.value
        return Frequencies(self.counts.known(), other.counts.known(), *rates, float(self.length))

    @property
    def need(self) -> float:
        """Tuples of the whole window."""
        return self.rate.value * self.length

    def nbytes(self) -> int:
        return self.counts.nbytes() + self._results.nbytes + self._watched.nbytes
