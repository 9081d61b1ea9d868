"""The content of a relation at many instants, from its changes."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s


@njit
def report(
    counts: Int64s, numbers: Int64s, sign: np.ndarray, stops: Int64s, runs: Int64s, total: int
) -> tuple[Int64s, Int64s]:
    """The tuples present in each run of instants, once per instant, and the instants' positions.

    Run k begins after the first ``stops[k]`` changes and has the instants ``runs[k] .. runs[k + 1]``.
    ``counts`` is how often each tuple is there; it is brought up to date with all changes. The work is that
    of the changes and of the ``total`` tuples returned, however many instants have none.
    """
    present = np.empty(len(counts), np.int64)
    place = np.full(len(counts), -1, np.int64)
    here = 0
    for number in range(len(counts)):
        if counts[number] > 0:
            present[here] = number
            place[number] = here
            here += 1
    at = np.empty(total, np.int64)
    rows = np.empty(total, np.int64)
    out = done = 0
    for run in range(len(stops)):
        for change in range(done, stops[run]):
            number = numbers[change]
            counts[number] += sign[change]
            if counts[number] > 0 and place[number] < 0:
                present[here] = number
                place[number] = here
                here += 1
            elif counts[number] <= 0 and place[number] >= 0:
                here -= 1
                present[place[number]] = present[here]
                place[present[here]] = place[number]
                place[number] = -1
        done = stops[run]
        if here:
            for instant in range(runs[run], runs[run + 1]):
                for k in range(here):
                    for _ in range(counts[present[k]]):
                        at[out] = instant
                        rows[out] = present[k]
                        out += 1
    return at, rows
