"""The algorithms that order pipelined filters (thesis chapter 4): re-optimizers whose plan is an order.

The executor evaluates filters in ``order``. Of the tuples they drop a share is profiled: the filters named by
``profiled_from`` are evaluated beyond the drop, and the bits are passed to ``reconsider``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from penstock.streamon import kernels
from penstock.streamon.framework import VIEW, WINDOW, Stopwatch
from penstock.streamon.profile import Bits, ProfileWindow
from penstock.streamon.settings import DEFAULTS, Thresholds

Order = tuple[int, ...]
Recall = Callable[[], Order | None]


class Ordering(ABC):
    """Keeps an order of n filters by a profile window over them."""

    name: str
    profiles_all = True
    """Whether its profile tuples have all bits: then a burst can replace all it knows at once."""

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        self.n = n
        self.thresholds = thresholds
        self.order = list(range(n))
        self.window = ProfileWindow(n, thresholds.profile_window)
        self.steadiness = Steadiness(thresholds.steady_after, thresholds.negligible_gain)
        self.switches = 0
        self.gain = 0.0
        self.stopwatch = Stopwatch()

    @property
    def plan(self) -> Order:
        return tuple(self.order)

    def profiled_from(self, position: int) -> int:
        """The filter at ``position`` is evaluated on tuples that were dropped from this position on."""
        return 0

    def reconsider(self, evidence: Bits, recall: Recall = lambda: None) -> bool:
        """Take in profile tuples (a row per tuple, a column per filter); whether the order changed.

        Many at once leave the window and the view as one by one would; the order is checked once, after
        them. A recalled order is used instead of a search if it satisfies the invariant.
        """
        before, first = list(self.order), not len(self.window)
        kept = self._relevant(evidence)
        gone = self.window.insert(kept)
        self.stopwatch.lap(WINDOW)
        self._update_view(kept[-len(self.window.bits) :], gone)
        self.stopwatch.lap(VIEW)
        self._restore_invariant(len(evidence), recall)
        changed = self.order != before
        if changed:
            self.switches += 1
            # The first order for a stream saves all that can be saved.
            self.gain = 1.0 if first else self._gain(before)
        self.steadiness.add(self.order, self.gain if changed else 0.0)
        return changed

    def _gain(self, before: list[int]) -> float:
        after, tuples = np.array(self.order), self.window.tuples()
        return kernels.gain(np.array(before), after, tuples, self.window.times())

    def _relevant(self, profile: Bits) -> Bits:
        """The profile tuples that the algorithm can use."""
        return profile

    def _update_view(self, come: Bits, gone: Bits) -> None:  # noqa: B027 (not every algorithm has a view)
        """Update a view over the window by what entered and left it."""

    @abstractmethod
    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        """Correct the order if it violates the invariant after ``profiled`` more tuples."""

    def reset(self) -> None:
        """The stream has changed: discard what was profiled."""
        self.steadiness.reset()
        self._update_view(self.window.tuples()[:0], self.window.tuples())
        self.window.clear()


class Steadiness:
    """Which filters no recent change of the order moved (thesis 7.1): they need less profiling.

    A filter is steady after ``after`` looks that did not move it; never if that is 0. Moves that save less
    than ``negligible_gain`` do not count: similar filters change places all the time.
    """

    def __init__(self, after: int, negligible_gain: float) -> None:
        self._after, self._negligible_gain = after, negligible_gain
        self._order: list[int] = []
        self._looks = 0
        self._moved: dict[int, int] = {}

    def add(self, order: list[int], gain: float) -> None:
        """Add the order after a look at the statistics, and the share of the cost that its change saves."""
        self._looks += 1
        if gain > self._negligible_gain or not self._order:
            before = self._order or [-1] * len(order)
            self._moved |= {f: self._looks for f, g in zip(order, before, strict=True) if f != g}
        self._order = list(order)

    def reset(self) -> None:
        """The stream has changed: no filter is steady."""
        self._moved = dict.fromkeys(self._moved, self._looks)

    @property
    def filters(self) -> frozenset[int]:
        """The steady filters."""
        if not self._after:
            return frozenset()
        until = self._looks - self._after
        return frozenset(f for f, moved in self._moved.items() if moved <= until)

    @property
    def all(self) -> bool:
        """Whether every filter is steady."""
        return bool(self._after and self._moved) and max(self._moved.values()) <= self._looks - self._after


class Static(Ordering):
    """The order as written."""

    name = "static"
    profiles_all = False

    def profiled_from(self, position: int) -> int:
        return position

    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        pass


class AGreedy(Ordering):
    """A-Greedy (4.3): keeps an order that satisfies the Greedy Invariant on the profile window.

    V[i, i] / a(i) >= V[i, j] / a(j) for all i <= j: of the tuples that get to position i, the filter there
    drops the most for its time. V is kept by increments (fig. 4.5), a violation is detected at once (fig.
    4.6, with the thrashing parameter of equation 4.4) and corrected from the window (fig. 4.7). A filter that
    moves forward passes those between; their order among themselves stays (example 4.3.3).
    """

    name = "a-greedy"

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.view = np.zeros((n, n), np.int64)
        self.corrections = 0

    def _update_view(self, come: Bits, gone: Bits) -> None:
        order = np.array(self.order)
        if len(gone):
            kernels.count(self.view, order, gone, -1)
        kernels.count(self.view, order, come, 1)

    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        violated = self.violation()
        if violated is None or self._reuse(recall()):
            return
        order, times = np.array(self.order), self.window.times()
        self.corrections += kernels.mend(
            self.view, order, self.window.tuples(), times, self.thresholds.alpha, violated
        )
        self.order = order.tolist()

    def _reuse(self, known: Order | None) -> bool:
        """Use an order that was good for similar statistics, if a search would find nothing better now."""
        if known is None:
            return False
        order, view = np.array(known), np.zeros_like(self.view)
        kernels.count(view, order, self.window.tuples(), 1)
        if kernels.violated(view, order, self.window.times(), 1.0) >= 0:
            return False
        self.order, self.view = list(known), view
        return True

    def violation(self) -> int | None:
        """The first position at which the Greedy Invariant is violated by more than alpha allows."""
        order, times = np.array(self.order), self.window.times()
        at = kernels.violated(self.view, order, times, self.thresholds.alpha)
        return None if at < 0 else at

    def reset(self) -> None:
        self.steadiness.reset()
        self.window.clear()
        self.view[:] = 0


class Sweep(Ordering):
    """Sweep (4.4): A-Greedy for one filter at a time; a stage profiles the filter at position j only.

    At most one more evaluation per profiled tuple, and n - 1 stages to see everything.
    """

    name = "sweep"
    profiles_all = False

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.profiled = min(1, n - 1)
        self._seen = 0

    def profiled_from(self, position: int) -> int:
        return 0 if position == self.profiled else position

    def _relevant(self, profile: Bits) -> Bits:
        # What is dropped after the profiled filter says nothing about it.
        return kernels.seen_by_stage(np.array(self.order), profile, self.profiled)

    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        if self.n < 2:
            return
        self._seen += profiled
        violated = self.violation()
        if violated is not None:
            self.order.insert(violated, self.order.pop(self.profiled))
        if violated is not None or self._seen >= self.thresholds.sweep_stage:
            self._next_stage()

    def _next_stage(self) -> None:
        self._seen = 0
        self.window.clear()
        self.profiled = self.profiled % (self.n - 1) + 1

    def violation(self) -> int | None:
        """The first position before j whose filter drops less for its time than the one at j would."""
        if len(self.window) < max(8, self.thresholds.sweep_stage // 10):
            return None
        order, times = np.array(self.order), self.window.times()
        at = kernels.moves_to(order, self.window.tuples(), times, self.thresholds.alpha, self.profiled)
        return None if at < 0 else at


class Independent(Ordering):
    """Independent (4.5): orders by each filter's own drop probability; keeps the first row of the view."""

    name = "independent"

    def __init__(self, n: int, thresholds: Thresholds) -> None:
        super().__init__(n, thresholds)
        self.row = np.zeros(n, np.int64)

    def _update_view(self, come: Bits, gone: Bits) -> None:
        self.row += come.sum(axis=0, dtype=np.int64) - gone.sum(axis=0, dtype=np.int64)

    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        ratios = self.row / self.window.times()
        # One pass of insertion sort with alpha's tolerance: near-ties stay as they are.
        for at in range(1, self.n):
            k = at
            while k and ratios[self.order[k - 1]] < self.thresholds.alpha * ratios[self.order[k]]:
                self.order[k - 1], self.order[k] = self.order[k], self.order[k - 1]
                k -= 1


class LocalSwaps(Ordering):
    """LocalSwaps (4.6): compares neighbours only, and swaps two where that pays.

    One more evaluation per profiled tuple; two diagonals of the view.
    """

    name = "local-swaps"
    profiles_all = False

    def profiled_from(self, position: int) -> int:
        return max(position - 1, 0)

    def _restore_invariant(self, profiled: int, recall: Recall) -> None:
        # After a swap the window is filled anew; a part of it must be there to be judged.
        if len(self.window) < len(self.window.bits) // 4:
            return
        violated = self.violation()
        if violated is not None:
            i = violated
            self.order[i], self.order[i + 1] = self.order[i + 1], self.order[i]
            # What was profiled for the old neighbours says nothing about the new ones.
            self.window.clear()

    def violation(self) -> int | None:
        """The first position whose filter drops less for its time than its neighbour would there."""
        order, times = np.array(self.order), self.window.times()
        at = kernels.swaps(order, self.window.tuples(), times, self.thresholds.alpha)
        return None if at < 0 else at


ALGORITHMS: dict[str, type[Ordering]] = {a.name: a for a in (AGreedy, Sweep, Independent, LocalSwaps, Static)}
"""By the names that ``SET penstock.filters = ...`` knows."""


def ordering(name: str, n: int, thresholds: Thresholds | None = None) -> Ordering:
    """A new ordering of n filters by the named algorithm."""
    return ALGORITHMS[name](n, thresholds or DEFAULTS[name])
