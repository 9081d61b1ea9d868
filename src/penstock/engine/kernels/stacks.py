"""A stack of row ids for each distinct value: push on +, pop on −."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Int64s


@njit
def match(
    numbers: Int64s, sign: np.ndarray, tops: Int64s, places: np.ndarray, free: Int64s, first: int
) -> tuple[Int64s, int]:
    """The id of every element: new ones from ``first`` on for +, that of an equal earlier + for −.

    ``places[at] = (id, next below or next spare)``; ``free[0]`` is the first spare place. The second
    result is the first place where a − element had nothing to take out, or -1; its id is -1.
    """
    missing = -1
    ids = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        number = numbers[i]
        if sign[i] > 0:
            at = free[0]
            free[0] = places[at, 1]
            places[at, 0], places[at, 1] = first, tops[number]
            tops[number] = at
            ids[i] = first
            first += 1
        else:
            at = tops[number]
            if at < 0:
                missing = i if missing < 0 else missing
                ids[i] = -1
                continue
            ids[i] = places[at, 0]
            tops[number] = places[at, 1]
            places[at, 1] = free[0]
            free[0] = at
    return ids, missing
