"""What an adaptive operator spends its time on (thesis table 4.2).

A lap goes from one reading of the clock to the next and is for one thing, so nothing is left out, and the
clock is read only when something else is done: a reading takes as long as dozens of tuples.
"""

from __future__ import annotations

import time

PROCESSING = "tuple processing"
PROFILING = "profile tuples"
WINDOW = "profile window"
VIEW = "view update"
VIOLATIONS = "violations"


class Laps:
    """CPU seconds by what they were spent on: other load on the machine is not in them."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((PROCESSING, PROFILING, WINDOW, VIEW, VIOLATIONS), 0.0)
        self._since = time.thread_time()

    def start(self) -> None:
        """What was done until now is no part of it."""
        self._since = time.thread_time()

    def lap(self, what: str) -> None:
        """All since the last reading was spent on this."""
        now = time.thread_time()
        self.seconds[what] += now - self._since
        self._since = now

    @property
    def adapting(self) -> float:
        """Seconds for profiling and re-optimizing together."""
        return sum(self.seconds.values()) - self.seconds[PROCESSING]
