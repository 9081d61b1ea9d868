"""The profile window: the last profile tuples, one bit a filter that says whether it drops the tuple.

Sampled from the tuples that the filters drop (thesis 4.3.1), with running averages of what each filter
takes a tuple.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint8]


class ProfileWindow:
    """A sliding window of ``size`` profile tuples over ``n`` filters."""

    def __init__(self, n: int, size: int, time_window: int) -> None:
        self.bits: Bits = np.zeros((size, n), np.uint8)
        self.count = 0
        self._next = 0
        self._times = np.ones((time_window, n))
        self._timed = np.zeros(n, np.int64)

    def __len__(self) -> int:
        return self.count

    def insert(self, profile: Bits) -> Bits:
        """Put in profile tuples (a row each); those that leave for them."""
        profile = profile[-len(self.bits) :]
        places = (self._next + np.arange(len(profile))) % len(self.bits)
        gone = self.bits[places[places < self.count]] if self.count else profile[:0]
        self.bits[places] = profile
        self._next = (self._next + len(profile)) % len(self.bits)
        self.count = min(self.count + len(profile) - len(gone), len(self.bits))
        return gone

    def tuples(self) -> Bits:
        """The profile tuples, in no particular order."""
        return self.bits[: self.count]

    def clear(self) -> None:
        """Forget the profile tuples; the times stay."""
        self.count = self._next = 0

    def note_time(self, filter: int, seconds_a_tuple: float) -> None:
        """A sample of what a filter takes a tuple."""
        self._times[self._timed[filter] % len(self._times), filter] = seconds_a_tuple
        self._timed[filter] += 1

    def times(self) -> npt.NDArray[np.float64]:
        """Average time a tuple of each filter; 1 where all are unknown, the mean where some are."""
        known = np.minimum(self._timed, len(self._times))
        sums = np.array([self._times[:k, f].sum() for f, k in enumerate(known)])
        averages = sums / np.maximum(known, 1)
        if not known.any():
            return np.ones(len(known))
        return np.where(known > 0, averages, averages[known > 0].mean())
