"""The plan log (thesis 7.1): each decision as (time, statistics, plan), kept bounded.

A plan that was chosen under like statistics before is found here, without a search. What no plan that was
worth a change moved of late has statistics that change nothing: they need not be tracked as closely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.streamon import kernels


class Decision(NamedTuple):
    """At which tuple of the stream, by which statistics, which plan; ``recalled``: found in the log."""

    time: int
    statistics: tuple[float, ...]
    plan: tuple[int, ...]
    recalled: bool = False


class PlanLog:
    """The last ``size`` decisions; statistics that differ by ``similar`` at most are alike.

    After ``steady_after`` looks that did not move it something is steady; never if that is 0. A move counts
    if it saves more of the cost than ``worth``: filters that are alike change places all the time.
    """

    def __init__(self, size: int, similar: float = 0.0, steady_after: int = 0, worth: float = 0.0) -> None:
        self._decisions: deque[Decision] = deque(maxlen=size)
        self._similar, self._steady_after, self._worth = similar, steady_after, worth
        self._statistics = np.empty((size, 0))
        self.count = self.recalled = 0
        self._plan: list[int] = []
        self._looks = 0
        self._moved: dict[int, int] = {}

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

    def recall(self, statistics: npt.NDArray[np.float64]) -> list[int] | None:
        """The plan of the decision whose statistics are the most like these, if any are."""
        if not self._decisions:
            return None
        kept = len(self._decisions)
        nearest, apart = kernels.nearest(self._statistics[:kept], statistics)
        # The oldest decision is where the next one goes.
        plan = self._decisions[(nearest - self.count) % kept].plan
        return list(plan) if apart <= self._similar else None

    def looked(self, plan: list[int], gain: float) -> None:
        """Note the plan after a look at the statistics, and the share of the cost that it saves."""
        self._looks += 1
        if gain > self._worth or not self._plan:
            before = self._plan or [-1] * len(plan)
            self._moved |= {f: self._looks for f, g in zip(plan, before, strict=True) if f != g}
        self._plan = plan

    def unsettle(self) -> None:
        """The stream is another one: what was steady need not be."""
        self._moved = dict.fromkeys(self._moved, self._looks)

    @property
    def steady(self) -> frozenset[int]:
        """What was not moved, by anything worth it, for ``steady_after`` looks."""
        if not self._steady_after:
            return frozenset()
        until = self._looks - self._steady_after
        return frozenset(f for f, moved in self._moved.items() if moved <= until)

    @property
    def all_steady(self) -> bool:
        """Whether nothing was moved for so long."""
        until = self._looks - self._steady_after
        return bool(self._steady_after and self._moved) and max(self._moved.values()) <= until

    def last(self, count: int) -> list[Decision]:
        """The newest decisions, oldest first."""
        return list(self._decisions)[-count:]
