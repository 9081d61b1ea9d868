"""The plan log (thesis 7.1): each decision as (time, statistics, plan), kept bounded.

A plan that was chosen under like statistics before is found here, without a search. What stood at the same
place in every plan of late has statistics that changed none of them: they need not be tracked as closely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels


@dataclass(frozen=True)
class Decision:
    """At which tuple of the stream, by which statistics, which plan; ``recalled``: found in the log."""

    time: int
    statistics: tuple[float, ...]
    plan: tuple[int, ...]
    recalled: bool = False


class PlanLog:
    """The last ``size`` decisions; statistics that differ by ``similar`` at most are alike."""

    def __init__(self, size: int, similar: float = 0.0, steady_after: int = 0) -> None:
        self._decisions: deque[Decision] = deque(maxlen=size)
        self._similar, self._steady_after = similar, steady_after
        self._statistics = np.empty((size, 0))
        self.count = self.recalled = 0
        self._known_steady: frozenset[int] | None = None

    def add(
        self, time: int, statistics: npt.NDArray[np.float64], plan: Sequence[int], recalled: bool = False
    ) -> None:
        """Note a decision."""
        if not self.count:
            self._statistics = np.empty((len(self._statistics), len(statistics)))
        self._statistics[self.count % len(self._statistics)] = statistics
        self.count += 1
        self.recalled += recalled
        self._decisions.append(Decision(time, tuple(statistics.tolist()), tuple(plan), recalled))
        self._known_steady = None

    def recall(self, statistics: npt.NDArray[np.float64]) -> list[int] | None:
        """The plan of the decision whose statistics are the most like these, if any are."""
        if not self._decisions:
            return None
        kept = len(self._decisions)
        nearest, apart = kernels.nearest(self._statistics[:kept], statistics)
        # The oldest decision is where the next one goes.
        plan = self._decisions[(nearest - self.count) % kept].plan
        return list(plan) if apart <= self._similar else None

    @property
    def steady(self) -> frozenset[int]:
        """What stood at the same place in each of the last ``steady_after`` plans."""
        if self._known_steady is None:
            self._known_steady = self._steady()
        return self._known_steady

    def _steady(self) -> frozenset[int]:
        if not self._steady_after or len(self._decisions) < self._steady_after:
            return frozenset()
        first, *others = (d.plan for d in self.last(self._steady_after))
        return frozenset(f for at, f in enumerate(first) if all(plan[at] == f for plan in others))

    def last(self, count: int) -> list[Decision]:
        """The newest decisions, oldest first."""
        return list(self._decisions)[-count:]
