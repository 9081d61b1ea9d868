"""The profiler of pipelined filters (thesis 4.3.1): what the filters drop, beyond the one that drops first.

Of the tuples that filters drop a share is sampled; the other filters are evaluated on them too, which makes
profile tuples. That is done for many at once and within a share of the time. What tells of a change of the
stream in between costs nothing: the share that each filter lets through (``Expected``). Then, and at the
start, comes a burst: every filter is evaluated on the same few tuples, which makes a new profile window at
once. Now and then filters are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.burst import Burst, classes
from penstock.streamon.expected import Expected
from penstock.streamon.laps import PROCESSING, PROFILING
from penstock.streamon.ordering import Ordering
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import ALIKE, Bits

Rows = npt.NDArray[np.int64]
Evaluate = Callable[[int, Rows], npt.NDArray[np.bool_]]
"""Which of the given rows a filter lets through."""
LONGEST_REST = 1 << 20
"""Tuples after which it is tried again at the latest."""


class Keep(Protocol):
    """Lets sampled rows outlive their run, so that those of several runs are profiled together."""

    def take(self, rows: Rows) -> Any:
        """What filters need of these rows."""

    def joined(self, parts: list[Any]) -> Evaluate:
        """Which of the rows that were taken, numbered from 0 on, a filter lets through."""


class DropProfiler:
    """Makes profile tuples of what the filters of an ordering drop."""

    def __init__(self, ordering: Ordering, log: PlanLog, seed: int) -> None:
        self._ordering, self._log = ordering, log
        self.thresholds = ordering.thresholds
        self._expected = Expected(ordering.n, self.thresholds.surprise)
        self.evaluations = self.profiled = self.surprises = 0
        self._laps = ordering.laps
        self._profiles = self.thresholds.drop_profiling_probability > 0
        # What is still to be passed over until the next sample, the state of the random numbers, and the
        # sampled rows that are not profiled yet, each with the position that dropped it.
        self._draw = np.array([0, 0x9E3779B97F4A7C15 // 4 + seed, 0], np.int64)
        self._resting_until = 0
        self._share = -1.0
        self._sample_share(self.thresholds.drop_profiling_probability)
        self._sampled = np.empty((self.thresholds.profile_window + self.thresholds.slice, 2), np.int64)
        self._weight = 1
        self._taken: list[Any] = []
        self._taken_rows = 0
        self._purse = self.thresholds.purse / 5
        self._paid = self._earned = 0.0
        self._next_timing, self._until_timing = 0, 4 * self.thresholds.slice
        self._timing_after = 0.0
        self._calls = [np.inf] * ordering.n
        self.classes = [list(range(ordering.n))]
        """Filters by what they take, cheapest first."""

    def statistics(self, evidence: Bits) -> npt.NDArray[np.float64]:
        """The share of dropped tuples that each filter drops."""
        found = np.zeros(self._ordering.n)
        kernels.shares(np.array(self._ordering.order), evidence, found)
        return found

    # What the executor does anyway

    def split(self, position: int, rows: Rows, passes: npt.NDArray[np.bool_]) -> tuple[Rows, bool]:
        """The rows that the filter at a position lets through, and whether their share surprises.

        Of the others a share is sampled.
        """
        kept = np.empty(len(rows), np.int64)
        k = kernels.split(rows, passes, position, self._draw, self._scale, kept, self._sampled)
        surprises = self._expected.note(position, len(rows), k)
        return kept[:k], surprises and self._ordering.whole

    def surprised_by(self, position: int, came: int, passed: int) -> bool:
        """Whether the share that the filter at a position lets through surprises, before it is noted."""
        return came > 0 and self._ordering.whole and self._expected.differs(position, came, passed)

    def call_seconds(self, f: int) -> float:
        """What a call of a filter takes, whatever the number of rows, and what goes with it."""
        return self._calls[f] + self.thresholds.handing

    def note_passing(self, came: int, passed: int) -> None:
        """Tuples that came, and those that passed all filters."""
        self._expected.note_passing(came, passed)

    # Changes

    def expect(self) -> None:
        """Expect of the filters in their order what the profile window says."""
        if self._ordering.whole and self.thresholds.surprise < np.inf:
            self._expected.reorder(self._ordering.order, self._ordering.window.tuples())

    def start_anew(self) -> None:
        """The stream is another one: what was profiled says nothing any more."""
        self.surprises += 1
        self._log.unsettle()
        self.drop_samples()
        self._ordering.forget()

    def drop_samples(self) -> None:
        """Forget what was sampled and not profiled."""
        self._draw[2] = self._taken_rows = 0
        self._taken = []

    @property
    def waiting(self) -> int:
        """Sampled rows that are not profiled yet."""
        return int(self._draw[2])

    # What is done for profiling alone

    @property
    def can_pay(self) -> bool:
        """Whether the share of the time for profiling and re-optimizing has something left."""
        processing, adapting = self._laps.seconds[PROCESSING], self._laps.adapting
        most = self.thresholds.purse / 5
        earned = self.thresholds.overhead * (processing - self._earned)
        self._purse = max(min(self._purse + earned - (adapting - self._paid), most), -self.thresholds.purse)
        self._earned, self._paid = processing, adapting
        return self._purse > 0

    def burst(self) -> Burst:
        """A new one, of nothing yet."""
        most = self.thresholds.burst + (len(self.classes) - 1) * self.thresholds.dear_burst
        return Burst(self._ordering.n, self._ordering.window.times(), most)

    def sample(
        self, burst: Burst, some: list[int], rows: Rows, stands_for: float, evaluate: Evaluate
    ) -> tuple[list[int], npt.NDArray[np.bool_]]:
        """Evaluate the filters of a class on all of the rows; the best order of them, and who passes all."""
        passes = np.array([evaluate(f, rows) for f in some])
        self.evaluations += passes.size
        return burst.add(some, passes, stands_for)

    def learned(self, burst: Burst) -> Bits:
        """The profile tuples of a burst, which are all that is known of the stream now."""
        self._expected.passing = burst.passing
        profile, self._weight = burst.weighed()
        return profile

    def timing_due(self, tuples: int) -> bool:
        """Whether filters are to be timed, and there is time for it."""
        return (
            tuples >= self._next_timing
            and self._profiles
            and self._laps.seconds[PROCESSING] >= self._timing_after
            and self.can_pay
        )

    def time_filters(self, rows: Rows, evaluate: Evaluate, tuples: int) -> None:
        """Time every filter on the same rows.

        What disturbs makes slower: those that seem slower than the fastest are timed again.
        """
        before, some = self._laps.seconds[PROFILING], rows[: self.thresholds.timed]
        took = np.array([self._seconds_a_row(f, some, evaluate) for f in range(self._ordering.n)])
        for f in np.flatnonzero(took > ALIKE * took.min()).tolist():
            took[f] = min(took[f], self._seconds_a_row(f, some, evaluate))
        self._ordering.window.note_times(took + self.thresholds.handling)
        self.classes = classes(self._ordering.window.times(), self.thresholds.expensive)
        self._laps.lap(PROFILING)
        took_all = self._laps.seconds[PROFILING] - before
        share = self.thresholds.overhead * self.thresholds.timing
        self._timing_after = self._laps.seconds[PROCESSING] + took_all / share
        self._next_timing = tuples + self._until_timing
        self._until_timing = min(4 * self._until_timing, self.thresholds.timed_every)

    def _seconds_a_row(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """Of a few rows if they take long, of all if a call takes as long as the rows do."""
        before = np.inf
        for shift in (6, 4, 2, 0):
            count = max(len(rows) >> shift, 1)
            took = self._seconds(f, rows[:count], evaluate)
            self._calls[f] = min(self._calls[f], took)
            # If it took longer than for fewer rows, by as much as it should, the call itself is little of it.
            if took > self.thresholds.long and took > 2 * before:
                break
            before = took
        return took / count

    def _seconds(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """The least of two: a filter is not slow for memory that it seldom reaches."""
        readings = [time.thread_time()]
        for _ in range(2):
            evaluate(f, rows)
            readings.append(time.thread_time())
        self.evaluations += 2 * len(rows)
        return min(after - before for before, after in pairwise(readings))

    def _sample_share(self, share: float) -> None:
        if share != self._share:
            self._share = share
            self._scale = kernels.gap_scale(share)
            self._draw[0] = kernels.gap(self._draw, self._scale)

    def _rest(self, tuples: int) -> None:
        """What cannot be profiled need not be sampled, until about as much is earned as is owed."""
        self.drop_samples()
        earning = self.thresholds.overhead * self._laps.seconds[PROCESSING] / max(tuples, 1)
        self._resting_until = tuples + round(min(-self._purse / max(earning, 1e-12), LONGEST_REST))
        self._sample_share(0.0)

    def begin(self, tuples: int) -> None:
        """Another run: sample again if it can be paid."""
        # Samples of a run that failed are of rows that are gone.
        self._draw[2] = self._taken_rows
        if tuples >= self._resting_until:
            self._resting_until = 0
            fewer = self.thresholds.steady_share if self._log.all_steady else 1
            self._sample_share(self.thresholds.drop_profiling_probability / fewer)

    def profile_tuples(self, evaluate: Evaluate, keep: Keep | None, tuples: int) -> Bits | None:
        """A profile tuple for every sampled row, None if there is no time for it."""
        if not self.can_pay:
            self._rest(tuples)
            return None
        if self._taken and keep:
            self._take(keep)
            evaluate = keep.joined(self._taken)
        profile = self._filled(evaluate)
        self.drop_samples()
        self._laps.lap(PROFILING)
        return profile

    def carry(self, keep: Keep, tuples: int) -> None:
        """Their run is over: keep the few sampled rows for the next one."""
        if self.can_pay:
            self._take(keep)
        else:
            self._rest(tuples)
        self._laps.lap(PROFILING)

    def _take(self, keep: Keep) -> None:
        """Take what was sampled since; rows that are taken are numbered by their places among them."""
        new = self._sampled[self._taken_rows : self.waiting, 0]
        if len(new):
            self._taken.append(keep.take(new.copy()))
            new[:] = np.arange(self._taken_rows, self.waiting)
            self._taken_rows = self.waiting

    def _filled(self, evaluate: Evaluate) -> Bits:
        """The bits of the filters that the algorithm wants; of steady ones for some tuples, weighted."""
        ordering = self._ordering
        rows, ends = np.empty(self.waiting, np.int64), np.zeros(ordering.n + 1, np.int64)
        kernels.by_position(self._sampled[: len(rows)], rows, ends)
        stops = ends.tolist()
        drops = np.zeros((ordering.n, len(rows)), np.uint8)
        # Where all are steady fewer tuples are sampled.
        steady = self._log.steady if ordering.whole and not self._log.all_steady else frozenset()
        for position, f in enumerate(ordering.order):
            first, stop = stops[ordering.asked_from(position)], stops[position]
            if first == stop:
                continue
            every = self.thresholds.steady_share if f in steady else 1
            asked = rows[first:stop] if every == 1 else rows[first:stop:every].copy()
            weight = np.uint8(self._weight * every)
            np.multiply(~evaluate(f, asked), weight, out=drops[f, first:stop:every])
            self.evaluations += len(asked)
        self.profiled += len(rows)
        profile = np.empty((len(rows), ordering.n), np.uint8)
        kernels.profile_tuples(drops, np.array(ordering.order), ends, self._weight, profile)
        return profile
