"""The tuples of a window that are in memory: when they arrived, and how long and why they are kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.engine.snapshot import Stateful

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FIELDS = {
    "seq": np.int64,
    "ts": np.int64,
    "end": np.int64,
    "until": np.int64,
    "key": np.int64,
    "draw": np.float64,
    "seed": np.uint64,
    "monitored": np.bool_,
    "seen": np.int64,
    "noted": np.int64,
    "share": np.float64,
    "likely": np.float64,
    "chance": np.float64,
    "expected": np.float64,
    "number": np.int64,
    "following": np.float64,
}
"""``seq``: its number in the stream. ``until``: when it is dropped. ``draw``, ``seed``: its random numbers.

``monitored``: watched, so kept until it expires; ``seen``: its results so far; ``noted``: those
that the age curve includes. ``share``: the other stream's share of its key when it arrived; ``likely``: its
results expected from that. In a sample: ``chance`` is the probability of its results, ``expected`` its
expected results, ``number`` its results so far, ``following`` its next sampled result.
"""


class KnownTuples(Stateful):
    """The tuples in arrival order, one array per field."""

    saved = tuple(FIELDS)

    def __init__(self) -> None:
        for name, kind in FIELDS.items():
            setattr(self, name, np.empty(0, kind))

    seq: Int64s
    ts: Int64s
    end: Int64s
    until: Int64s
    key: Int64s
    draw: npt.NDArray[np.float64]
    seed: npt.NDArray[np.uint64]
    monitored: Bools
    seen: Int64s
    noted: Int64s
    share: npt.NDArray[np.float64]
    likely: npt.NDArray[np.float64]
    chance: npt.NDArray[np.float64]
    expected: npt.NDArray[np.float64]
    number: Int64s
    following: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seq)

    def add(self, count: int, **fields: npt.NDArray[np.generic]) -> None:
        """Add tuples; fields that are not given are 0."""
        for name, kind in FIELDS.items():
            new = fields.get(name, np.zeros(count, kind))
            setattr(self, name, np.concatenate([getattr(self, name), new.astype(kind)]))

    def keep(self, mask: Bools) -> None:
        if not mask.all():
            for name in FIELDS:
                setattr(self, name, getattr(self, name)[mask])

    def places(self, seq: Int64s) -> Int64s:
        """The places of tuples, by their numbers."""
        return np.searchsorted(self.seq, seq)

    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in FIELDS)
