"""The most results within a memory: MAXIMIZE RESULTS (Srivastava and Widom, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.approx.known_tuples import earlier_tuples
from penstock.approx.memory_policy import BudgetPlanner, MemoryBudget, MemoryPolicy, WindowModels
from penstock.approx.policies import NO_AGES, POLICIES, Policy
from penstock.approx.recall import Join, Side
from penstock.budget import Maximize
from penstock.engine.joins.budget import Results
from penstock.engine.kernels.keeping import keep_within
from penstock.engine.snapshot import State
from penstock.measurement import Property, Reading, given

Int64s = npt.NDArray[np.int64]


class Division(NamedTuple):
    """A plan of MAXIMIZE RESULTS: the policy that ranks tuples, and the rows of each window."""

    policy: str
    rooms: tuple[float, float]


class BestDivision(BudgetPlanner[Division]):
    """Re-optimizes: the policy for the better model, and the split of memory with the largest recall.

    ``using``: the policy, if the query names one.
    """

    def __init__(self, models: WindowModels, using: str | None) -> None:
        self._models, self._using = models, using
        self.plan = Division(using or "AGE", (1.0, 1.0))

    def reconsider(self, evidence: float, recall: Callable[[], Division | None]) -> bool:
        policy = self._using or ("PROB" if self._models.by_value else "AGE")
        join, before = self.join(policy), self.plan
        self.plan = Division(policy, join.split(evidence) if join.need else (evidence / 2, evidence / 2))
        if self.plan == before:
            return False
        was = self.join(before.policy).recall_of(before.rooms)
        self.gain = max(join.recall_of(self.plan.rooms) - was, 0.0)
        return True

    def join(self, policy: str) -> Join:
        """The result rate of each window by memory; a new object, since a snapshot holds no functions."""
        a, b = self._models.windows
        give = POLICIES[policy]().result_rate
        return Join((Side(give(a, b), a.need), Side(give(b, a), b.need)))


class Maximizer(MemoryPolicy[Division]):
    """Keeps the tuples of highest priority under a policy; watched tuples also produce results."""

    saved = (*MemoryPolicy.saved, "_recall")
    at_rows, at_bytes = Property.RECALL_AT_ROWS, Property.RECALL_AT_BYTES

    def __init__(self, node: MemoryBudget) -> None:
        super().__init__(node)
        self._recall = 1.0

    def _start_planning(self) -> BestDivision:
        assert isinstance(self._node.within.goal, Maximize)
        self._best = BestDivision(self._models, self._node.within.goal.using)
        return self._best

    def state(self) -> dict[str, State]:
        return {**super().state(), "plan": list(self._best.plan)}

    def _saved_plan(self, state: list[State]) -> Division:
        policy, rooms = state
        return Division(policy, tuple(rooms))

    def use(self, plan: Division) -> None:
        self._policy: Policy = POLICIES[plan.policy]()
        self._rooms = np.array(plan.rooms)

    def _replan(self, now: int) -> None:
        super()._replan(now)
        self._recall = self._recall_with(self._join(), self._rows)

    def _join(self) -> Join:
        return self._best.join(self._policy.name)

    def _recall_with(self, join: Join, rows: float) -> float:
        """The expected recall with room for this many tuples; watched tuples also produce results."""
        found = join.recall(self.memory(rows))
        watched, need = self._watched(rows)
        return found + (1 - found) * watched / need if need else found

    def _decide(self, begin: int) -> None:
        a, b = self._known
        tables = [self._policy.by_age(w) for w in self._windows]
        steps = [w.step if t is not None else 0.0 for w, t in zip(self._windows, tables, strict=True)]
        first, second = (NO_AGES if t is None else t for t in tables)
        priorities = (
            self._policy.priorities(a, *self._windows),
            self._policy.priorities(b, *reversed(self._windows)),
        )
        keep_within(
            (a.ts, b.ts), (a.end, b.end), (a.until, b.until), (a.monitored, b.monitored), priorities,
            (first, second), np.array(steps), np.array(self._old), self._rooms, self._rows, begin,
        )  # fmt: skip

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """All pairs whose earlier tuple is kept."""
        earlier, places, later, kept = earlier_tuples(self._known, ids, times)
        self._note(earlier, places, later, kept)
        watched = np.zeros(len(places), np.bool_)
        for i, known in enumerate(self._known):
            here = earlier == i
            watched[here] = known.monitored[places[here]]
        return Results(kept | watched)

    def _measure_goal(self) -> Iterator[Reading]:
        yield Reading(Property.POLICY, 0, self._policy.name)
        yield from given(Property.EXPECTED_RECALL, self._recall)
        yield from given(Property.MEASURED_RECALL, self._found / self._all if self._all else None)

    def _quality(self, rows: float) -> float:
        return self._recall_with(self._join(), rows)

    def _measure_window(self, i: int) -> Iterator[Reading]:
        yield Reading(Property.ROWS_ALLOTTED, round(self._rooms[i]))
