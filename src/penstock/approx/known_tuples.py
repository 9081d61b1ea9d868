"""The tuples of a window that are in memory: when they arrived, and how long and why they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class Earlier(NamedTuple):
    """Of pairs of tuples that join: the window and place of the earlier one, the time of the later, and
    whether the earlier was kept until then.
    """

    window: Int64s
    places: Int64s
    times: Int64s
    kept: Bools


def earlier_tuples(known: Sequence[KnownTuples], pairs: Sequence[Int64s], times: Sequence[Int64s]) -> Earlier:
    """The earlier tuples of pairs, given by the numbers and times of both.

    At one instant the first window's tuples come first; they leave before those of the second arrive.
    """
    first = times[0] <= times[1]
    later = np.maximum(times[0], times[1])
    where = [h.places(p) for h, p in zip(known, pairs, strict=True)]
    until = np.where(first, _at(known[0].until, where[0], first), _at(known[1].until, where[1], ~first))
    # A tuple of the second window that leaves at an instant still joins the first's tuples then.
    kept = np.where(first, until > later, until >= later)
    return Earlier(np.where(first, 0, 1), np.where(first, where[0], where[1]), later, kept)


def among(ids: Int64s, kept: Int64s) -> Bools:
    """Which ids are among others, which are in order."""
    at = np.minimum(np.searchsorted(kept, ids), max(len(kept) - 1, 0))
    return kept[at] == ids if len(kept) else np.zeros(len(ids), np.bool_)


def _at(values: Int64s, places: Int64s, here: Bools) -> Int64s:
    """Values at places, of the selected windows."""
    out = np.zeros(len(places), np.int64)
    out[here] = values[places[here]]
    return out
