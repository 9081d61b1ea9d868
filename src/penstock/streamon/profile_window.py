"""The profile window: the last profile tuples, one bit a filter that says whether it drops the tuple.

Sampled from the tuples that the filters drop (thesis 4.3.1), with what each filter takes a tuple.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint8]
ALIKE = 1.5
"""Times within this factor of each other are taken for the same."""


class ProfileWindow:
    """A sliding window of ``size`` profile tuples over ``n`` filters."""

    def __init__(self, n: int, size: int, time_window: int) -> None:
        self.bits: Bits = np.zeros((size, n), np.uint8)
        self.count = 0
        self._next = 0
        self._times = np.ones((time_window, n))
        self._timed = 0
        self._least = np.ones(n)

    def __len__(self) -> int:
        return self.count

    def insert(self, profile: Bits) -> Bits:
        """Put in profile tuples (a row each); those that leave for them."""
        size = len(self.bits)
        if self.count + len(profile) <= size:
            self.bits[self.count : self.count + len(profile)] = profile
            self.count = self._next = self.count + len(profile)
            return profile[:0]
        profile = profile[-size:]
        # Up to the end of the ring, and on from its start.
        self._next %= size
        until = min(self._next + len(profile), size)
        again = self._next + len(profile) - until
        gone = np.concatenate((self.bits[self._next : min(until, self.count)], self.bits[:again]))
        self.bits[self._next : until] = profile[: len(profile) - again]
        self.bits[:again] = profile[len(profile) - again :]
        self._next = (self._next + len(profile)) % size
        self.count = min(self.count + len(profile) - len(gone), size)
        return gone

    def tuples(self) -> Bits:
        """The profile tuples, in no particular order."""
        return self.bits[: self.count]

    def clear(self) -> None:
        """Forget the profile tuples; the times stay."""
        self.count = self._next = 0

    def note_times(self, seconds: npt.NDArray[np.float64]) -> None:
        """What every filter took for the same tuples."""
        self._times[self._timed % len(self._times)] = seconds
        self._timed += 1
        # The least: a filter that was interrupted, or compiled, while it was timed is not slow.
        self._least = alike(self._times[: self._timed].min(axis=0))

    def times(self) -> npt.NDArray[np.float64]:
        """What each filter takes, relative to the others; 1 as long as nothing is known."""
        return self._least


def alike(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Give times that differ by less than can be measured their mean, so that noise orders no filters."""
    ranked = np.argsort(times)
    found = times.copy()
    first = 0
    for at in range(1, len(ranked) + 1):
        if at == len(ranked) or times[ranked[at]] > ALIKE * times[ranked[first]]:
            found[ranked[first:at]] = times[ranked[first:at]].mean()
            first = at
    return found
