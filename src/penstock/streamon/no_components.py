"""Which No components of a join are kept: the combination of constraints (thesis 6.10).

A reference to an input, or its order, lets rows go that wait for a row of it in vain, and makes its No
component needless (6.6.1, 6.8.5). But it lets them go later: a row stays until k is over, where the No
component would have told at once (example 6.10.2). Which of the two takes less memory depends on the stream.
An instance of StreaMon, whose plan says for each input whether its No component is kept, compares for each

* *kept*: the bytes of the keys in the component;
* *waiting*: the bytes of the rows that wait meanwhile if it is not kept: as many as come in the time that
  they wait.

All other constraints only let more rows go, and are used together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.engine.snapshot import Stateful
from penstock.measurement import Property, Reading
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Statistics
from penstock.streamon.settings import CONSTRAINTS_LOG_SIZE, NO_COMPONENT_MARGIN

Plan = tuple[bool, ...]


class Sizes(NamedTuple):
    """Expected bytes of a synopsis with the No component, and without it."""

    kept: float
    waiting: float


class NoComponents(Stateful):
    """Chooses by expected size; ``plan`` says of each input whether its component is kept."""

    saved = ("_kept",)

    def __init__(self, kept: Sequence[bool]) -> None:
        self._kept = np.array(kept, np.bool_)
        self.log: PlanLog[Plan] = PlanLog(CONSTRAINTS_LOG_SIZE)
        self.gain = 0.0
        self._streamon = StreaMon(self, self, self, self.log)
        self._last: Sequence[Sizes | None] = (None,) * len(kept)

    @property
    def plan(self) -> Plan:
        return tuple(self._kept.tolist())

    def use(self, plan: Plan) -> None:
        """The join asks for the plan."""

    def statistics(self, evidence: Sequence[Sizes | None]) -> Statistics:
        return np.array([size for sizes in evidence for size in sizes or (0.0, 0.0)], np.float64)

    def reconsider(self, evidence: Sequence[Sizes | None], recall: Callable[[], Plan | None]) -> bool:
        before, self._last = self.plan, evidence
        old = new = 0.0
        for j, sizes in enumerate(evidence):
            if sizes is None:
                continue
            now, other = (sizes.kept, sizes.waiting) if self._kept[j] else (sizes.waiting, sizes.kept)
            if now > NO_COMPONENT_MARGIN * other:
                self._kept[j] = not self._kept[j]
                old, new = old + now, new + other
        self.gain = 1.0 - new / old if old else 0.0
        return self.plan != before

    def settle(self, time: int, sizes: Sequence[Sizes | None]) -> bool:
        """Choose again; None: there is no choice for an input."""
        return any(s is not None for s in sizes) and self._streamon.adapt(time, sizes)

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """By input with a choice: the expected bytes of both."""
        for label, sizes, kept in zip(labels, self._last, self.plan, strict=True):
            if sizes is not None:
                yield Reading(Property.CHOSEN, kept, label)
                yield Reading(Property.SIZE_KEPT, sizes.kept, label)
                yield Reading(Property.SIZE_WAITING, sizes.waiting, label)
