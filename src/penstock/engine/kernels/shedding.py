"""Which rows of a stream may probe, one after the other: a bucket of tokens that fills with stream time."""

from __future__ import annotations

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s


@njit
def admit(bucket: np.ndarray, draws: np.ndarray, share: float, a_tick: float, starts: Int64s) -> Bools:
    """The rows whose draw is below ``share`` and for which there is a token; ``a_tick`` tokens come a tick.

    ``bucket`` holds the tokens there are, the most there can be, and the tick up to which they came.
    """
    out = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        if starts[i] > bucket[2]:
            bucket[0] = min(bucket[1], bucket[0] + (starts[i] - bucket[2]) * a_tick)
            bucket[2] = starts[i]
        if draws[i] < share and bucket[0] >= 1.0:
            bucket[0] -= 1.0
            out[i] = True
    return out
