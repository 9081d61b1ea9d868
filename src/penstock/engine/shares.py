"""The part of a budget that a partition has: its share of all rows, by epochs of stream time.

Rows are counted by the epoch of their timestamps, those of all partitions by what producers report. The share
in an epoch follows from the rows of the epochs before it, all of which have come when one of its instants is
complete, so that it does not depend on the batches in which they came. All partitions count alike, and their
shares sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.settings import SHARES_MEMORY_ROWS, SHARES_PRIOR_ROWS


class Epochs(NamedTuple):
    """Epochs of so many ticks, by which the rows of so many partitions are counted."""

    ticks: int
    partitions: int

    def counts(self, times: Int64s) -> dict[int, int]:
        """The number of rows by epoch."""
        numbers, counts = np.unique(times // self.ticks, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class Shares:
    """The shares in the epochs of a step: that from ``numbers[k]`` on is ``values[k]``."""

    ticks: int
    numbers: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, instant: int) -> float:
        """The share at an instant of the step.

        >>> Shares(10, (0, 3), (0.5, 0.25)).at(29), Shares(10, (0, 3), (0.5, 0.25)).at(30)
        (0.5, 0.25)
        """
        place = int(np.searchsorted(self.numbers, instant // self.ticks, "right")) - 1
        return self.values[max(place, 0)]


@dataclass
class Counts:
    """Counts of own rows and of all in past epochs; older ones have less weight."""

    own: float = 0.0
    total: float = 0.0

    def share(self, partitions: int) -> float:
        """The share by what has been counted; at first, all partitions have equal shares.

        >>> Counts().share(4), Counts(100, 100).share(4), Counts(0, 100).share(4)
        (0.25, 0.625, 0.125)
        """
        return (self.own + SHARES_PRIOR_ROWS / partitions) / (self.total + SHARES_PRIOR_ROWS)

    def add(self, own: float, total: float) -> None:
        kept = exp(-total / SHARES_MEMORY_ROWS)
        self.own, self.total = self.own * kept + own, self.total * kept + total


def passed(counts: Counts, coming: dict[int, list[int]], now: int, epochs: Epochs) -> Shares:
    """The shares up to the instant ``now``; the epochs that are over pass from ``coming`` to ``counts``."""
    numbers, values = [min([*coming, now // epochs.ticks])], [counts.share(epochs.partitions)]
    for number in sorted(n for n in coming if n < now // epochs.ticks):
        counts.add(*coming.pop(number))
        numbers.append(number + 1)
        values.append(counts.share(epochs.partitions))
    return Shares(epochs.ticks, tuple(numbers), tuple(values))


def note(
    coming: dict[int, list[int]], own: Mapping[int, int], total: Iterable[tuple[int, int]], since: int
) -> None:
    """Count rows of epochs from ``since`` on."""
    for number, rows in own.items():
        if number >= since:
            coming.setdefault(number, [0, 0])[0] += rows
    for number, rows in total:
        if number >= since:
            coming.setdefault(number, [0, 0])[1] += rows
