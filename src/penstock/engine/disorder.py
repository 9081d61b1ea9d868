"""Disorder of an input: what is observed of it, and a bound that adapts to that (thesis 2.2.5, 6.1.4).

The disorder of a row is how far its timestamp is behind the largest one of the same input that came before
it: in an earlier step, or from the same producer (a map task). Producers of one step read at the same time,
so there is no order between them.

*Behind* is the skew between inputs: how far an input's largest timestamp is behind that of the furthest
input, after a step.

The adapted bound is the largest disorder lately seen and some headroom. It rises at once and falls by
``DISORDER_FALL`` ticks for each tick that the input's time advances, so a disorder that returns within
1 / ``DISORDER_FALL`` times its own length is expected. It never exceeds the declared one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.engine.settings import DISORDER_FALL, DISORDER_HEADROOM
from penstock.engine.stage import Arrival, StageInput
from penstock.measurement import Property, Reading


class Disorder(NamedTuple):
    """What was observed of one input so far, in ticks; ``bound`` is the adapted one."""

    most: int = 0
    bound: float = 0.0
    behind: int = 0
    most_behind: int = 0

    def after(self, found: int, advanced: int, behind: int, declared: StageInput) -> Disorder:
        """The observation after a step with this disorder, in which the input's time advanced.

        >>> declared = StageInput("S", None, skew=60, adaptive=True)
        >>> Disorder().after(8, 0, 0, declared).after(0, 100, 0, declared).bound
        9.0
        """
        expected = max(found * (1 + DISORDER_HEADROOM), self.bound - advanced * DISORDER_FALL)
        return Disorder(
            max(self.most, found),
            min(expected, declared.skew) if declared.adaptive else 0.0,
            behind,
            max(self.most_behind, behind),
        )

    def measure(self, several: bool) -> Iterator[Reading]:
        """``several``: whether there are other inputs that it may be behind."""
        yield Reading(Property.DISORDER, self.most)
        if several:
            yield Reading(Property.BEHIND, self.behind)
            yield Reading(Property.MOST_BEHIND, self.most_behind)


def disorder(arrivals: Sequence[Arrival], before: int | None) -> int:
    """The largest disorder among a step's arrivals of an input; ``before``: the largest timestamp before it.

    >>> disorder([Arrival("S", 0, None, 3, 9, disorder=2), Arrival("S", 1, None, 8, 8)], 5)
    2
    >>> disorder([Arrival("S", 0, None, 3, 9), Arrival("S", 0, None, 4, 8)], None)
    5
    """
    most, by_producer = 0, dict[int, int]()
    for a in arrivals:
        if a.min_ts is None or a.max_ts is None:
            continue
        earlier = [t for t in (before, by_producer.get(a.producer)) if t is not None]
        most = max(most, a.disorder, *(t - a.min_ts for t in earlier))
        by_producer[a.producer] = max(a.max_ts, by_producer.get(a.producer, a.max_ts))
    return most
