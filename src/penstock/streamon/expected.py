"""What share each filter of an order is expected to let through, and whether it does.

The executor counts anyway what goes into a filter and what comes out: statistics of every tuple, for
nothing. They cannot say which order is better, but they say at once when the stream is another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.streamon import kernels
from penstock.streamon.profile_window import Bits

LEAST = 1 << 8
"""Tuples of a filter that are judged together; of fewer too little can be said."""
NOTABLE = 0.05
"""A change of the share by less is drift, which the profile window follows."""
MEMORY = 4.0
"""What was seen before weighs this many times as much as what is judged."""


class Expected:
    """Shares let through by position, each with the number of tuples it was seen on."""

    def __init__(self, n: int, surprise: float) -> None:
        self._surprise = surprise
        self._came = [0] * n
        self._passed = [0] * n
        self._shares = [0.5] * n
        self._seen = [0.0] * n
        # What they were when the order was chosen: a stream may become another one by and by.
        self._chosen_shares, self._chosen_seen = self._shares.copy(), self._seen.copy()
        self.passing = 0.0
        """Share of tuples that pass all filters, whatever their order."""

    def note(self, position: int, came: int, passed: int) -> bool:
        """Tuples that came to the filter at a position, and those it let through; whether it surprises."""
        came, passed = came + self._came[position], passed + self._passed[position]
        if came < LEAST:
            self._came[position], self._passed[position] = came, passed
            return False
        self._came[position] = self._passed[position] = 0
        if self.differs(position, came, passed):
            return True
        seen = min(self._seen[position], MEMORY * came)
        self._shares[position] = (self._shares[position] * seen + passed) / (seen + came)
        self._seen[position] = seen + came
        chosen_for, chosen_by = self._chosen_shares[position], self._chosen_seen[position]
        return self._apart(chosen_for, chosen_by, self._shares[position], seen + came)

    def note_passing(self, came: int, passed: int) -> None:
        """Tuples that came, and those that passed all filters."""
        self.passing += (passed / came - self.passing) / (1 + MEMORY)

    def reorder(self, order: Sequence[int], profile: Bits) -> None:
        """A new order, chosen for these profile tuples."""
        shares, seen = np.empty((2, len(order)))
        kernels.expected(np.array(order), profile, self.passing, shares, seen)
        self._shares, self._seen = shares.tolist(), seen.tolist()
        self._chosen_shares, self._chosen_seen = self._shares.copy(), self._seen.copy()
        self._came = [0] * len(order)
        self._passed = [0] * len(order)

    def differs(self, position: int, came: int, passed: int) -> bool:
        """Whether so many of those that came are not what is expected to pass."""
        return self._apart(self._shares[position], self._seen[position], passed / came, came)

    def _apart(self, share: float, seen: float, now: float, came: float) -> bool:
        """Whether a share seen on some tuples cannot be the one that is seen now."""
        if not seen:
            return False
        # One tuple more each way: a share of 0 or 1 expected from few tuples is not certain.
        p = (share * seen + 1) / (seen + 2)
        by = abs(now - p)
        return by > NOTABLE and by > self._surprise * math.sqrt(p * (1 - p) * (1 / came + 1 / seen))
