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

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels
from penstock.streamon.expected import Expected
from penstock.streamon.ordering import Ordering
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.profile_window import Bits

Rows = npt.NDArray[np.int64]
Evaluate = Callable[[int, Rows], npt.NDArray[np.bool_]]
"""Which of the given rows a filter lets through."""


class DropProfiler:
    """Makes profile tuples of what the filters of an ordering drop."""

    def __init__(self, ordering: Ordering, log: PlanLog, seed: int) -> None:
        self._ordering, self._log = ordering, log
        self.thresholds = ordering.thresholds
        self._expected = Expected(ordering.n, self.thresholds.surprise)
        self.evaluations = self.profiled = self.surprises = 0
        self.seconds = 0.0
        self._share = self.thresholds.drop_profiling_probability
        # What is still to be passed over until the next sample, and the state of the random numbers.
        self._draw = np.array([0, 0x9E3779B97F4A7C15 // 4 + seed], np.int64)
        self._draw[0] = kernels.gap(self._draw, self._share)
        self._pending: list[list[Rows]] = [[] for _ in range(ordering.n)]
        self._purse = self.thresholds.purse / 5
        self._next_timing, self._until_timing = 0, self.thresholds.slice

    def statistics(self, evidence: Bits) -> npt.NDArray[np.float64]:
        """The share of dropped tuples that each filter drops."""
        return np.asarray(evidence.mean(axis=0))

    # What the executor does anyway

    def split(self, position: int, rows: Rows, passes: npt.NDArray[np.bool_]) -> tuple[Rows, bool]:
        """The rows that the filter at a position lets through, and whether their share surprises.

        Of the others a share is sampled.
        """
        kept, sampled = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        k, s = kernels.split(rows, passes, self._draw, self._share, kept, sampled)
        if s:
            self._pending[position].append(sampled[:s])
        surprises = self._expected.note(position, len(rows), k)
        return kept[:k], surprises and self._ordering.whole

    def note_passing(self, came: int, passed: int) -> None:
        """Tuples that came, and those that passed all filters."""
        self._expected.note_passing(came, passed)

    def earn(self, seconds: float) -> None:
        """Time was spent on processing: a share of it may be spent on profiling."""
        self._purse = min(self._purse + self.thresholds.overhead * seconds, self.thresholds.purse / 5)

    # Changes

    def expect(self) -> None:
        """Expect of the filters in their order what the profile window says."""
        if self._ordering.whole:
            self._expected.reorder(self._ordering.first_drops())

    def start_anew(self) -> None:
        """The stream is another one: what was profiled says nothing any more."""
        self.surprises += 1
        self.drop_samples()
        self._ordering.forget()

    def drop_samples(self) -> None:
        """Forget what was sampled and not profiled."""
        self._pending = [[] for _ in self._pending]

    # What is done for profiling alone

    def burst(self, rows: Rows, evaluate: Evaluate) -> Bits:
        """Profile tuples of the same rows through every filter, cheap ones first.

        An expensive filter comes after the cheap ones anyway, so only what they let through is of interest.
        """
        began = time.thread_time()
        times = self._ordering.window.times()
        bits = np.zeros((len(rows), self._ordering.n), np.uint8)
        for f in np.argsort(times, kind="stable").tolist():
            dear = times[f] > self.thresholds.expensive * times.min()
            some = ~bits.any(axis=1) if dear else slice(None)
            asked = rows[some]
            if len(asked):
                bits[some, f] = ~evaluate(f, asked)
                self.evaluations += len(asked)
        dropped = bits[bits.any(axis=1)]
        self._expected.passing = 1 - len(dropped) / len(bits)
        self._spend(began)
        return dropped

    def timing_due(self, tuples: int) -> bool:
        """Whether filters are to be timed, and there is time for it."""
        return self._share > 0 and self._purse > 0 and tuples >= self._next_timing

    def time_filters(self, rows: Rows, evaluate: Evaluate, tuples: int) -> None:
        """Time every filter on the same rows."""
        began = time.thread_time()
        took = [
            self._seconds_a_row(f, rows[: self.thresholds.timed], evaluate) for f in range(self._ordering.n)
        ]
        self._ordering.window.note_times(np.array(took) + self.thresholds.handling)
        self._spend(began)
        self._next_timing = tuples + self._until_timing
        self._until_timing = min(4 * self._until_timing, self.thresholds.timed_every)

    def _seconds_a_row(self, f: int, rows: Rows, evaluate: Evaluate) -> float:
        """Of a few rows if they take long, of all if a call takes as long as the rows do."""
        for some in (rows[: self.thresholds.timed >> 3], rows):
            # The second time counts: a filter that is seldom reached is not slow for its cold memory.
            for _ in range(2):
                before = time.perf_counter()
                evaluate(f, some)
                took = time.perf_counter() - before
            self.evaluations += 2 * len(some)
            if took > self.thresholds.long:
                break
        return took / len(some)

    @property
    def waiting(self) -> int:
        """Sampled rows that are not profiled yet."""
        return sum(len(s) for p in self._pending for s in p)

    def profile_tuples(self, evaluate: Evaluate) -> Bits | None:
        """A profile tuple for every sampled row, None if there is no sample or no time for it."""
        if not self.waiting or self._purse <= 0:
            self.drop_samples()
            return None
        began = time.thread_time()
        bits = self._filled(evaluate)
        self.drop_samples()
        self._spend(began)
        return bits

    def _filled(self, evaluate: Evaluate) -> Bits:
        """The bits of the filters that the algorithm wants; of steady ones for some tuples, weighted."""
        ordering = self._ordering
        stops = np.cumsum([0, *(sum(len(s) for s in p) for p in self._pending)]).tolist()
        rows = np.concatenate([s for p in self._pending for s in p])
        bits = np.zeros((len(rows), ordering.n), np.uint8)
        steady = self._log.steady() if ordering.whole else set()
        for position, f in enumerate(ordering.order):
            bits[stops[position] : stops[position + 1], f] = 1
        for position, spans in enumerate(_asked(ordering, stops)):
            f = ordering.order[position]
            every = self.thresholds.steady_share if f in steady else 1
            for first, stop in spans:
                bits[first:stop:every, f] = every * ~evaluate(f, rows[first:stop:every])
                self.evaluations += len(range(first, stop, every))
        self.profiled += len(rows)
        # As they came: the window keeps the last ones, and those that were dropped first are not older.
        return bits[np.argsort(rows)]

    def spent(self, since: float) -> None:
        """What the re-optimizer takes is paid from the same purse."""
        self._purse = max(self._purse - (time.thread_time() - since), -self.thresholds.purse)

    def _spend(self, since: float) -> None:
        self.seconds += time.thread_time() - since
        self.spent(since)


def _asked(ordering: Ordering, stops: list[int]) -> list[list[tuple[int, int]]]:
    """For the filter at each position, the runs of sampled rows that it is to be evaluated on."""
    asked: list[list[tuple[int, int]]] = [[] for _ in range(ordering.n)]
    for position in range(ordering.n):
        if stops[position] == stops[position + 1]:
            continue
        for other in ordering.wanted(position):
            first, spans = stops[position], asked[other]
            # Rows that neighbouring positions dropped are neighbours: one call for them.
            if spans and spans[-1][1] == first:
                first = spans.pop()[0]
            spans.append((first, stops[position + 1]))
    return asked
