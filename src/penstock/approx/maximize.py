"""As many results as fit into a memory: MAXIMIZE RESULTS (Srivastava and Widom, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.approx.memory_policy import MemoryBudget, MemoryPolicy
from penstock.approx.policies import NO_AGES, POLICIES, Policy
from penstock.approx.recall import Join, Side
from penstock.approx.settings import RECALL_POINTS
from penstock.budget import Maximize
from penstock.engine.joins.budget import Results
from penstock.engine.kernels.keeping import keep_within
from penstock.engine.snapshot import State
from penstock.measurement import Property, Reading, curve, given

Int64s = npt.NDArray[np.int64]


class Maximizer(MemoryPolicy):
    """Keeps the tuples that a policy holds most of; what is watched is used as well."""

    saved = (*MemoryPolicy.saved, "_rooms", "_recall")

    def __init__(self, node: MemoryBudget) -> None:
        super().__init__(node)
        assert isinstance(node.within.goal, Maximize)
        self._using = node.within.goal.using
        self._policy: Policy = POLICIES[self._using or "AGE"]()
        self._rooms = np.ones(2)
        self._recall = 1.0

    def state(self) -> dict[str, State]:
        return {**super().state(), "policy": self._policy.name}

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._policy = POLICIES[state["policy"]]()

    def _plan(self) -> None:
        """Choose the policy, and split the memory between the windows so that recall is largest."""
        if self._using is None:
            self._policy = POLICIES["PROB" if self.by_value else "AGE"]()
        join, memory = self._join(), self.memory(self._rows)
        room = join.split(memory) if join.need else (memory / 2, memory / 2)
        self._recall = self._recall_with(join, self._rows)
        self._rooms = np.array(room)

    def _join(self) -> Join:
        """What each window gives with some memory; made anew, as a snapshot takes no functions."""
        a, b = self._windows
        give = self._policy.result_rate
        return Join((Side(give(a, b), a.need), Side(give(b, a), b.need)))

    def _recall_with(self, join: Join, rows: float) -> float:
        """The part of all results to expect with room for so many tuples; watched ones give theirs too."""
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
        """All pairs whose earlier tuple is there."""
        earlier, places, later, kept = self._earlier(ids, times)
        self._note(earlier, places, later, kept)
        watched = np.zeros(len(places), np.bool_)
        for i, known in enumerate(self._known):
            mine = earlier == i
            watched[mine] = known.monitored[places[mine]]
        return Results(kept | watched)

    def _measure_goal(self) -> Iterator[Reading]:
        yield Reading(Property.POLICY, 0, self._policy.name)
        yield from given(Property.EXPECTED_RECALL, self._recall)
        yield from given(Property.MEASURED_RECALL, self._found / self._all if self._all else None)
        yield from self._recall_by_memory()

    def _recall_by_memory(self) -> Iterator[Reading]:
        """The recall that this join would have with other memories; in bytes for ALLOC, if that shares."""
        within, join = self._node.within, self._join()
        if not join.need:
            return
        rows = np.linspace(0.0, join.need, RECALL_POINTS)
        recall = [self._recall_with(join, n) for n in rows]
        yield from curve(Property.RECALL_AT_ROWS, recall, rows.tolist())
        if within.shared and within.bytes is not None:
            yield Reading(Property.SHARED_MEMORY, within.bytes)
            yield Reading(Property.WEIGHT, within.weight)
            yield from curve(Property.RECALL_AT_BYTES, recall, (rows * self._row_bytes).tolist())

    def _measure_window(self, i: int) -> Iterator[Reading]:
        yield Reading(Property.ROWS_ALLOTTED, round(self._rooms[i]))
