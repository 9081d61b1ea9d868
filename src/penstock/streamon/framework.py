"""StreaMon (thesis chapter 3, figure 3.1): the contracts of an adaptive operator, and how its parts interact.

The *executor* produces results by a plan. The *profiler* collects evidence of what the stream and the system
are like, much of it from what the executor does anyway, and computes statistics from it. The *re-optimizer*
keeps the plan that is best for them. Every decision is recorded in the *plan log* (section 7.1).

An instance chooses the types of its plans and of its evidence:

| instance            | plan                       | evidence                          |
| ------------------- | -------------------------- | --------------------------------- |
| `pipelined_filters` | an order of the filters    | profile tuples                    |
| `access`            | the name of a method       | probes and updates of the window  |
| `invalidation`      | active or lazy             | steps, and those that probe       |
| `matching`          | filters of first matches   | what all matches waste            |
| `w_join`            | the name of an algorithm   | rows in buffers, shares of them   |
| `a_caching`         | a set of caches            | benefits and costs of caches      |
| `k_mon`             | k of each constraint       | distances of rows                 |
| `no_components`     | which No components to keep| bytes with each and without it    |
| `approx`: maximize  | a policy, a split of memory| the rows that there is memory for |
| `approx`: sampler   | a scheme, a fraction       | the rows that there is memory for |

Plans are immutable values. Results depend on the plan only inside a budget and by monitored constraints,
whose plans follow from the input alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.streamon.plan_log import PlanLog, Price, Statistics

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


class StreaMon(Generic[Plan, Evidence]):
    """The three parts of one adaptive operator, and their plan log."""

    def __init__(
        self,
        executor: Executor[Plan],
        profiler: Profiler[Evidence],
        reoptimizer: Reoptimizer[Plan, Evidence],
        log: PlanLog[Plan],
        pricing: Callable[[Statistics, Evidence], Price[Plan]] | None = None,
    ) -> None:
        """``pricing``: what plans cost by some statistics and evidence, for the log."""
        self._executor, self._profiler, self._reoptimizer = executor, profiler, reoptimizer
        self.log, self._pricing = log, pricing

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
        price = None if self._pricing is None else self._pricing(statistics, evidence)
        self.log.add(time, statistics, plan, self._reoptimizer.gain, plan == known, price)
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
