"""StreaMon (thesis chapter 3, figure 3.1): the contracts of an adaptive operator, and how its parts interact.

The *executor* produces results by a plan. The *profiler* collects evidence of what the stream and the system
are like, much of it from what the executor does anyway, and computes statistics from it. The *re-optimizer*
keeps the plan that is best for them. Every decision is recorded in the *plan log* (section 7.1).

An instance chooses the types of its plans and of its evidence:

| instance            | plan                       | evidence                          |
| ------------------- | -------------------------- | --------------------------------- |
| `pipelined_filters` | an order of the filters    | profile tuples                    |
| `access`            | the name of a method       | probes and updates of the window  |
| `w_join`            | the name of an algorithm   | rows in buffers, shares of them   |
| `approx`: maximize  | a policy, a split of memory| the rows that there is memory for |
| `approx`: sampler   | a scheme, a fraction       | the rows that there is memory for |

Plans are immutable values. Results depend on the plan only inside a budget, whose plans follow from the input
alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.measurement import Kind, Property, Reading, curve, under
from penstock.streamon import kernels
from penstock.streamon.settings import PUBLISHED_DECISIONS

Statistics = npt.NDArray[np.float64]
Plan = TypeVar("Plan")
UsedPlan = TypeVar("UsedPlan", contravariant=True)
Evidence = TypeVar("Evidence", contravariant=True)


class Executor(Protocol[UsedPlan]):
    """Produces results."""

    def use(self, plan: UsedPlan) -> None:
        """Process what arrives from now on by this plan."""


class Profiler(Protocol[Evidence]):
    """Measures the stream and the system."""

    def statistics(self, evidence: Evidence) -> Statistics:
        """The numbers that a plan is chosen by, in an order that never changes."""


class Reoptimizer(Protocol[Plan, Evidence]):
    """Keeps the plan that is the best one for the statistics."""

    @property
    def plan(self) -> Plan:
        """The best known plan."""

    @property
    def gain(self) -> float:
        """The share of the cost that the last change of plan saves; 0 where it is not estimated."""

    def reconsider(self, evidence: Evidence, recall: Callable[[], Plan | None]) -> bool:
        """Take in evidence; return whether the plan changed.

        ``recall`` returns the logged plan for similar statistics, if any: it may save a search.
        """


@dataclass(frozen=True)
class Decision(Generic[Plan]):
    """A change of plan: when (a count of tuples), by which statistics, and the share of the cost it saves."""

    time: int
    statistics: tuple[float, ...]
    plan: Plan
    gain: float = 0.0
    recalled: bool = False
    """Whether the plan was found in the log."""


class PlanLog(Generic[Plan]):
    """The last ``size`` decisions; a plan is recalled for statistics that differ by ``distance`` at most."""

    def __init__(self, size: int, distance: float = 0.0) -> None:
        self._decisions: deque[Decision[Plan]] = deque(maxlen=size)
        self._statistics = np.empty((size, 0))
        self._distance = distance
        self.count = self.recalled = 0

    def add(
        self, time: int, statistics: Statistics, plan: Plan, gain: float = 0.0, recalled: bool = False
    ) -> None:
        if not self.count:
            self._statistics = np.empty((len(self._statistics), len(statistics)))
        self._statistics[self.count % len(self._statistics)] = statistics
        self.count += 1
        self.recalled += recalled
        self._decisions.append(Decision(time, tuple(statistics.tolist()), plan, gain, recalled))

    def recall(self, statistics: Statistics) -> Plan | None:
        """The plan of the decision with the most similar statistics, if they are similar enough."""
        if not self._decisions:
            return None
        kept = len(self._decisions)
        nearest, distance = kernels.nearest(self._statistics[:kept], statistics)
        # The next decision replaces the oldest one.
        plan = self._decisions[(nearest - self.count) % kept].plan
        return plan if distance <= self._distance else None

    def last(self, count: int) -> list[Decision[Plan]]:
        """The newest decisions, oldest first."""
        return list(self._decisions)[-count:]

    def measure(self, names: Sequence[str], shown: Callable[[Plan], str]) -> Iterator[Reading]:
        """The newest decisions by number, with plan, gain and statistics, whose ``names`` these are."""
        newest = self.last(PUBLISHED_DECISIONS)
        for number, d in enumerate(newest, start=self.count - len(newest) + 1):
            made = [
                Reading(Property.DECIDED_AT, d.time, shown(d.plan)),
                Reading(Property.GAIN, d.gain),
                Reading(Property.FROM_LOG, d.recalled),
                *curve(Property.STATISTIC, d.statistics, names),
            ]
            yield from under(str(number), Kind.DECISION, made)


class StreaMon(Generic[Plan, Evidence]):
    """The three parts of one adaptive operator, and their plan log."""

    def __init__(
        self,
        executor: Executor[Plan],
        profiler: Profiler[Evidence],
        reoptimizer: Reoptimizer[Plan, Evidence],
        log: PlanLog[Plan],
    ) -> None:
        self._executor, self._profiler, self._reoptimizer = executor, profiler, reoptimizer
        self.log = log

    def adapt(self, time: int, evidence: Evidence) -> bool:
        """Pass new evidence to the re-optimizer; if it changes the plan, log the new one and use it."""
        statistics = self._profiler.statistics(evidence)
        known: Plan | None = None

        def recall() -> Plan | None:
            nonlocal known
            known = self.log.recall(statistics)
            return known

        if not self._reoptimizer.reconsider(evidence, recall):
            return False
        plan = self._reoptimizer.plan
        self.log.add(time, statistics, plan, self._reoptimizer.gain, recalled=plan == known)
        self._executor.use(plan)
        return True


PROCESSING = "tuple processing"
PROFILING = "profile tuples"
WINDOW = "profile window"
VIEW = "view update"
VIOLATIONS = "violations"


class Stopwatch:
    """CPU seconds of an adaptive operator by activity (thesis table 4.2).

    Each interval between two readings of the clock belongs to one activity, so nothing is missed, and the
    clock is read only when the activity changes: a reading takes as long as dozens of tuples.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((PROCESSING, PROFILING, WINDOW, VIEW, VIOLATIONS), 0.0)
        self._since = time.thread_time()

    def start(self) -> None:
        """Do not count the time up to now."""
        self._since = time.thread_time()

    def lap(self, activity: str) -> None:
        """Add the time since the last reading to an activity."""
        now = time.thread_time()
        self.seconds[activity] += now - self._since
        self._since = now

    @property
    def adapting(self) -> float:
        """Seconds of profiling and re-optimizing together."""
        return sum(self.seconds.values()) - self.seconds[PROCESSING]
