"""What is known of the tuples of a window that are in memory: when they came, how long they are kept, why."""

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
"""``seq``: its number in the stream. ``until``: when it is given up. ``draw``, ``seed``: its chance.

``monitored``: kept for life, to learn from; ``seen``: the results it gave; ``noted``: those of them that the
age curve knows of. ``share``: of the other stream that has its key, when it came; ``likely``: the results
that it was then expected to give by it. Of a sample: ``chance`` that its results are in it, ``expected``
results, the ``number`` it gave so far, the ``following`` one that is in the sample.
"""


class KnownTuples(Stateful):
    """The tuples in arrival order, one array a field."""

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
        """More tuples; what is not said of them is 0."""
        for name, kind in FIELDS.items():
            new = fields.get(name, np.zeros(count, kind))
            setattr(self, name, np.concatenate([getattr(self, name), new.astype(kind)]))

    def keep(self, mask: Bools) -> None:
        if not mask.all():
            for name in FIELDS:
                setattr(self, name, getattr(self, name)[mask])

    def places(self, seq: Int64s) -> Int64s:
        """Where tuples are, by their numbers."""
        return np.searchsorted(self.seq, seq)

    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in FIELDS)
