"""The plan log (thesis 7.1): each decision as (time, statistics, plan), kept bounded.

A plan that was best under like statistics before is found here without a search.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Decision:
    """At which tuple of the stream, by which statistics, which plan."""

    time: int
    statistics: tuple[float, ...]
    plan: tuple[int, ...]


class PlanLog:
    """The last decisions."""

    def __init__(self, size: int) -> None:
        self._decisions: deque[Decision] = deque(maxlen=size)
        self.count = 0

    def add(self, time: int, statistics: npt.NDArray[np.float64], plan: list[int]) -> None:
        """Note a decision."""
        self.count += 1
        self._decisions.append(Decision(time, tuple(round(float(x), 4) for x in statistics), tuple(plan)))

    def last(self, count: int) -> list[Decision]:
        """The newest decisions, oldest first."""
        return list(self._decisions)[-count:]
