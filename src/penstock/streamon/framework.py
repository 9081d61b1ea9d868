"""StreaMon's three parts (thesis 3.1, figure 3.1) as contracts, and the turn they take together.

The *executor* produces results by a plan. The *profiler* collects evidence of what the stream and the system
are like, much of it from what the executor does anyway, and makes statistics of it. The *re-optimizer* has
the plan that is best for them. Every decision goes into the plan log, which is asked first (section 7.1).

Pipelined filters are the first instance: ``PipelinedFilters`` executes, ``DropProfiler`` profiles, an
``Ordering`` re-optimizes; plans are orders, evidence are profile tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.streamon.plan_log import PlanLog

Statistics = npt.NDArray[np.float64]
Evidence = TypeVar("Evidence", contravariant=True)
Recall = Callable[[], list[int] | None]
"""The plan that the log has for statistics like those of now, if any."""


class Executor(Protocol):
    """Produces results. Which ones never depends on the plan."""

    def use(self, plan: list[int]) -> None:
        """Process what comes from now on by this plan."""


class Profiler(Protocol[Evidence]):
    """Knows what the stream and the system are like."""

    def statistics(self, evidence: Evidence) -> Statistics:
        """What plans are chosen by: a number each, in an order that stays."""


class Reoptimizer(Protocol[Evidence]):
    """Keeps the plan that is the best one for the statistics."""

    @property
    def plan(self) -> list[int]:
        """The plan that is best as far as is known."""

    @property
    def gain(self) -> float:
        """The share of the cost that the last change of plan saves."""

    def observe(self, evidence: Evidence, recall: Recall) -> bool:
        """Take in evidence; whether the plan is another now.

        If the one it has is not the best any more, it may ``recall`` one before it searches.
        """


class StreaMon(Generic[Evidence]):
    """The three parts of one adaptive operator, and their plan log."""

    def __init__(
        self,
        executor: Executor,
        profiler: Profiler[Evidence],
        reoptimizer: Reoptimizer[Evidence],
        log: PlanLog,
    ) -> None:
        self._executor, self._profiler, self._reoptimizer = executor, profiler, reoptimizer
        self.log = log

    def turn(self, time: int, evidence: Evidence) -> bool:
        """Show the re-optimizer new evidence; if it decides for another plan, log and use it."""
        statistics = self._profiler.statistics(evidence)
        known: list[int] | None = None

        def recall() -> list[int] | None:
            nonlocal known
            known = self.log.recall(statistics)
            return known

        changed = self._reoptimizer.observe(evidence, recall)
        plan = self._reoptimizer.plan
        self.log.looked(plan, self._reoptimizer.gain if changed else 0.0)
        if not changed:
            return False
        self.log.add(time, statistics, plan, recalled=plan == known)
        self._executor.use(plan)
        return True
