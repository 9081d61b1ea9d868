"""Latency: how long results take, from the arrival of their rows to their output.

The result of an instant t may come when a row of t or later has arrived; its latency is the time from the
first such arrival to the step that returns it. Where results do not wait for complete time, the row that
makes a result arrived in the same step. Times are measured, and never part of the state: after a rebuild
they are those of the replay.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.settings import LATENCY_ARRIVALS
from penstock.measurement import Property, Reading

PERCENTILES = {"p50": 0.5, "p99": 0.99}
"""The texts of the readings, and their parts of the results."""


class Latency:
    """The arrivals that results wait for; by root the latencies of a step's results, with their numbers."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits
        self._arrivals: list[tuple[int, float]] = []
        self._began = 0.0
        self.results: dict[str, list[tuple[float, int]]] = {}

    def begin(self, top: int) -> None:
        """Begin a step whose largest timestamp is ``top``."""
        self._began = time.perf_counter()
        if self._waits and (not self._arrivals or top > self._arrivals[-1][0]):
            self._arrivals.append((top, self._began))
            # The oldest stay: they are what the next results wait for.
            del self._arrivals[LATENCY_ARRIVALS:-1]

    def end(self, outputs: Mapping[str, Int64s], now: int) -> None:
        """End the step; ``outputs`` are the timestamps of its results by root, ``now`` the complete time."""
        ended = time.perf_counter()
        self.results = {name: list(self._waited(ts, ended)) for name, ts in outputs.items()}
        self._arrivals = [(top, at) for top, at in self._arrivals if top >= now]

    def _waited(self, ts: Int64s, ended: float) -> Iterator[tuple[float, int]]:
        """How long the results of a root have taken, with their numbers."""
        before = 0
        for top, arrived in self._arrivals:
            if before < len(ts):
                upto = int(np.count_nonzero(ts <= top))
                yield ended - arrived, upto - before
                before = max(before, upto)
        yield ended - self._began, len(ts) - before


def percentiles(results: Sequence[tuple[float, int]]) -> Iterator[Reading]:
    """The readings of latencies with their numbers; none if there are none.

    >>> [(r.text, r.value) for r in percentiles([(0.5, 98), (2.0, 2), (9.0, 0)])]
    [('p50', 0.5), ('p99', 2.0)]
    """
    found = sorted((seconds, number) for seconds, number in results if number > 0)
    if found:
        upto = list(accumulate(number for _, number in found))
        for text, part in PERCENTILES.items():
            yield Reading(Property.LATENCY, found[bisect_left(upto, part * upto[-1])][0], text)
