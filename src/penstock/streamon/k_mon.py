"""k-Mon's profiler and re-optimizer: how closely streams adhere to constraints (thesis 6.6.3, 6.7.3, 6.8.3).

For each constraint, ``Adherence`` sees the *distances* of rows: how large k must be for each to obey. With

* k_u the k now used, infinite at first,
* W arrivals over which distances count,

k_u becomes the largest distance of the last W arrivals if that is less than k_u, and infinite as soon as a
distance exceeds it; then it takes W arrivals until k_u is finite again. The executor keeps rows until
k_e = c · k_u, and those of a sample of the keys until their end, so that larger distances can be seen.

What is used is a function of the rows and their order alone: a rebuilt engine finds the same.

>>> references = Adherence(AdherenceThresholds(slack=1.5, sample=0.01, window=100, evidence=2))
>>> references.see(np.array([10, 60]), np.array([4, 2]), pairs=2)
>>> references.settle(120), references.k_u, references.k_e
(True, 2, 3)
>>> references.see(np.array([130]), np.array([9]), pairs=1)
>>> references.settle(150), references.k_u
(True, None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from penstock.engine.snapshot import Stateful
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Statistics
from penstock.streamon.settings import CONSTRAINTS_LOG_SIZE, AdherenceThresholds

Int64s = npt.NDArray[np.int64]
Plan = tuple[int | None, ...]
"""By constraint, the k_e up to which rows are kept; None if it is not used."""
UNBOUNDED = -1
"""A k_u that is infinite, in snapshots and statistics."""


class Adherence(Stateful):
    """Finds the k of one constraint. Arrivals are numbered from 1."""

    saved = ("_k", "_since", "_at", "_far", "_pairs_at", "_pairs", "increases")

    def __init__(self, thresholds: AdherenceThresholds) -> None:
        self.thresholds = thresholds
        self._k, self._since, self.increases = UNBOUNDED, 0, 0
        # The distances that are larger than all later ones.
        self._at, self._far = np.empty(0, np.int64), np.empty(0, np.int64)
        self._pairs_at, self._pairs = np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def k_u(self) -> int | None:
        """The largest distance of late; None if it is not known, or too large to be of use."""
        return None if self._k == UNBOUNDED else self._k

    @property
    def k_e(self) -> int | None:
        """Rows are kept until so far."""
        return None if self._k == UNBOUNDED else ceil(self.thresholds.slack * self._k)

    def see(self, at: Int64s, far: Int64s, pairs: int) -> None:
        """Distances of the rows that arrived at these places, and the joining rows seen meanwhile."""
        self._pairs_at, self._pairs = np.append(self._pairs_at, -1), np.append(self._pairs, pairs)
        if not far.any():
            return
        at, far = np.concatenate([self._at, at]), np.concatenate([self._far, far])
        order = np.argsort(at, kind="stable")
        at, far = at[order], far[order]
        later = np.maximum.accumulate(far[::-1])[::-1]
        largest = far > np.append(later[1:], 0) if len(far) else np.empty(0, np.bool_)
        self._at, self._far = at[largest], far[largest]

    def settle(self, count: int) -> bool:
        """So many rows arrived until now; returns whether k_u changed."""
        before, start = self._k, count - self.thresholds.window
        self._pairs_at[self._pairs_at < 0] = count
        exceeded = self._k != UNBOUNDED and bool((self._far > self._k).any())
        recent, paired = self._at > start, self._pairs_at > start
        self._at, self._far = self._at[recent], self._far[recent]
        self._pairs_at, self._pairs = self._pairs_at[paired], self._pairs[paired]
        if exceeded:
            self._k, self._since = UNBOUNDED, count
            self.increases += 1
        elif count - self._since >= self.thresholds.window and self.evidence >= self.thresholds.evidence:
            seen = self.observed
            if seen <= self.thresholds.most and (self._k == UNBOUNDED or seen < self._k):
                self._k = seen
        return self._k != before

    @property
    def observed(self) -> int:
        """The largest distance of the last W arrivals."""
        return int(self._far[0]) if len(self._far) else 0

    @property
    def evidence(self) -> int:
        """The joining rows seen among those."""
        return int(self._pairs.sum())

    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._at, self._far, self._pairs_at, self._pairs))


class Adherences(Stateful):
    """The adherence to all constraints of a join: StreaMon's profiler and re-optimizer.

    A constraint of which ``counts`` has the arrivals is settled; ``use`` of the executor gets the k_e.
    """

    saved = ("of",)

    def __init__(self, thresholds: Sequence[AdherenceThresholds], executor: Callable[[Plan], None]) -> None:
        self.of = [Adherence(t) for t in thresholds]
        self.log: PlanLog[Plan] = PlanLog(CONSTRAINTS_LOG_SIZE)
        self._executor = executor
        self.plan: Plan = (None,) * len(self.of)
        self.gain = 0.0
        self._streamon = StreaMon(self, self, self, self.log)

    def _load(self, state: dict[str, object]) -> None:
        super()._load(state)
        self.plan = tuple(a.k_e for a in self.of)
        self._executor(self.plan)

    def use(self, plan: Plan) -> None:
        self._executor(plan)

    def statistics(self, evidence: Sequence[int]) -> Statistics:
        """The largest distances of late."""
        return np.array([a.observed for a in self.of], np.float64)

    def reconsider(self, evidence: Sequence[int], recall: Callable[[], Plan | None]) -> bool:
        changed = [a.settle(count) for a, count in zip(self.of, evidence, strict=True)]
        self.plan = tuple(a.k_e for a in self.of)
        return any(changed)

    def settle(self, time: int, counts: Sequence[int]) -> bool:
        """So many rows arrived of each constraint's stream; returns whether the plan changed."""
        return self._streamon.adapt(time, counts)

    def nbytes(self) -> int:
        return sum(a.nbytes() for a in self.of)

    def measure(self, texts: Sequence[str], units: Sequence[str]) -> Iterator[Reading]:
        """By constraint: the k used, the largest distance of late; and the last changes."""
        for number, (a, text, unit) in enumerate(zip(self.of, texts, units, strict=True)):
            k = UNBOUNDED if a.k_u is None else a.k_u
            own = [
                Reading(Property.DESCRIPTION, 0, text),
                Reading(Property.ADHERENCE, k, unit),
                Reading(Property.OBSERVED, a.observed, unit),
                Reading(Property.EVIDENCE, a.evidence),
                Reading(Property.INCREASES, a.increases),
            ]
            yield from under(f"constraint.{number}", Kind.ADAPTIVE, own)
        yield Reading(Property.CHANGES, self.log.count)
        yield from self.log.measure(texts, lambda plan: _shown(plan, texts))


def _shown(plan: Plan, texts: Sequence[str]) -> str:
    """The constraints in use."""
    used = [f"{text}: k = {k}" for text, k in zip(texts, plan, strict=True) if k is not None]
    return "; ".join(used) or "none"
