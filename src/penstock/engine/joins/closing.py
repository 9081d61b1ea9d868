"""What closes rows of a join: the state of each constraint that its inputs obey (thesis 6.6.2 to 6.8.6).

Places count the rows of a whole stream, of which all with timestamps before the query's time are there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from penstock.constraint import Within
from penstock.engine.element import BEFORE_TIME, Bools, Int64s
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.kernels.membership import clusters
from penstock.engine.settings import NO_SAMPLE
from penstock.engine.snapshot import Stateful

NONE = np.iinfo(np.int64).min
"""Below every key."""


class Places(Stateful):
    """Counts a stream's rows: ``count`` so far, and the timestamps of the last ``reach`` + 1."""

    saved = ("count", "_recent")

    def __init__(self, reach: int) -> None:
        self.count, self._reach = 0, reach
        self._recent = np.empty(0, np.int64)

    def see(self, ts: Int64s) -> Int64s:
        """Count rows in order; returns their places, the first of which is 1."""
        places = np.arange(self.count + 1, self.count + len(ts) + 1)
        self.count += len(ts)
        kept = len(ts) + self._reach + 1
        self._recent = np.concatenate([self._recent, ts])[-kept:]
        return places

    def settle(self) -> None:
        """Forget the rows of the step that are further back than the last."""
        self._recent = self._recent[-(self._reach + 1) :].copy()

    def since(self, k: int, now: int) -> int:
        """The instant before which a row has at least k later rows of the stream; ``now`` for k = 0."""
        if k == 0:
            return now
        return int(self._recent[-k]) if len(self._recent) >= k else int(BEFORE_TIME)

    def up_to(self, ts: Int64s, side: Literal["left", "right"] = "right") -> Int64s:
        """How many rows have timestamps up to (left: before) these, which are of this step or later."""
        return self.count - len(self._recent) + np.searchsorted(self._recent, ts, side)

    def between(self, after: Int64s, up_to: Int64s) -> Int64s:
        """At least how many rows have timestamps after one instant, up to one of those at another."""
        known = self._recent
        return np.searchsorted(known, up_to, "left") + 1 - np.searchsorted(known, after, "right")

    def nbytes(self) -> int:
        return self._recent.nbytes


class Order(Stateful):
    """OA(k) of a column: ``least`` is the key that no row still to come is below.

    A row fixes it once more than k rows, or k ticks, have passed.
    """

    saved = ("least", "violations", "_at", "_keys")

    def __init__(self, within: Within) -> None:
        self._within = within
        self.least, self.violations = int(NONE), 0
        self._at, self._keys = np.empty(0, np.int64), np.empty(0, np.int64)

    def see(self, at: Int64s, keys: Int64s) -> None:
        """Rows by their places or timestamps, and their keys."""
        self.violations += int((keys < self.least).sum())
        self._at, self._keys = np.concatenate([self._at, at]), np.concatenate([self._keys, keys])

    def settle(self, count: int, now: int) -> None:
        """All rows up to place ``count``, and all with timestamps before ``now``, are there."""
        k = self._within.k
        fixed = self._at <= count - k if self._within.by_rows else self._at < max(now - k, int(BEFORE_TIME))
        if fixed.any():
            self.least = max(self.least, int(self._keys[fixed].max()))
            waits = ~fixed & (self._keys > self.least)
            self._at, self._keys = self._at[waits], self._keys[waits]

    def closed(self, keys: Int64s) -> Bools:
        return keys < self.least

    def nbytes(self) -> int:
        return self._at.nbytes + self._keys.nbytes


class Maxima(Stateful):
    """Measures OA(k) of a column (6.8.3): the largest keys so far, and the rows since which they are that."""

    saved = ("_at", "_keys")

    def __init__(self) -> None:
        self._at, self._keys = np.empty(0, np.int64), np.empty(0, np.int64)

    def see(self, at: Int64s, keys: Int64s) -> Int64s:
        """Rows by their places or timestamps in ascending order, and their keys; returns how far each is
        behind the first row with a larger key that is remembered.
        """
        if not len(at):
            return at
        before = self._keys[-1] if len(self._keys) else NONE
        tops = np.maximum.accumulate(np.maximum(keys, before))
        rises = tops > np.concatenate([[before], tops[:-1]])
        behind = np.flatnonzero(keys < tops)
        first_at, first_keys = at[rises], keys[rises]
        far = np.zeros(len(at), np.int64)
        old = keys[behind] < before  # a row before this step was larger
        place = np.searchsorted(self._keys, keys[behind[old]], "right")
        far[behind[old]] = at[behind[old]] - self._at[place]
        place = np.searchsorted(first_keys, keys[behind[~old]], "right")
        far[behind[~old]] = at[behind[~old]] - first_at[place]
        self._at, self._keys = np.append(self._at, first_at), np.append(self._keys, first_keys)
        return far

    def least(self, k: int, last: int) -> int:
        """The key that no row still to come is below, by OA(k); ``last``: the last place or instant."""
        passed = int(np.searchsorted(self._at, last - k, "right"))
        return int(self._keys[passed - 1]) if passed else int(NONE)

    def forget(self, far: int, last: int, most: int) -> None:
        """Keep the maxima of the last ``far`` places, and the one before them; ``most`` at most."""
        first = max(int(np.searchsorted(self._at, last - far, "right")) - 1, len(self._at) - most, 0)
        self._at, self._keys = self._at[first:], self._keys[first:]

    def __len__(self) -> int:
        return len(self._at)

    def nbytes(self) -> int:
        return self._at.nbytes + self._keys.nbytes


class Clusters(Stateful):
    """CA(k) of a column: CA-Aux, by key where its cluster began and how many rows of it came.

    A cluster is over when more than k rows of other keys came after its first row, or k ticks passed.
    """

    saved = ("violations", "_keys", "_first", "_rows")

    def __init__(self, within: Within) -> None:
        self._within, self.violations = within, 0
        self._keys = self._first = self._rows = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def see(self, at: Int64s, keys: Int64s) -> Int64s:
        """Rows by their places or timestamps, and their keys; returns their distances in the clusters."""
        room = np.empty(len(at), np.int64)
        first, rows = np.concatenate([self._first, room]), np.concatenate([self._rows, room])
        new, far, before = clusters(self._keys, first, rows, np.ascontiguousarray(keys), at)
        count = len(self._keys) + len(new)
        self._keys = np.concatenate([self._keys, keys[new]])
        self._first, self._rows = first[:count].copy(), rows[:count].copy()
        if self._within.by_rows:
            far = far - before
        self.violations += int((far > self._within.k).sum())
        return far

    @property
    def keys(self) -> Int64s:
        return self._keys

    def over(self, count: int, now: int, k: int | None = None) -> Bools:
        """Which clusters are over, given the rows so far and the time."""
        k = self._within.k if k is None else k
        if not self._within.by_rows:
            return self._first < max(now - k, int(BEFORE_TIME))
        return count - self._first - (self._rows - 1) > k

    def forget(self, which: Bools) -> None:
        """Drop clusters that are over, whose rows are marked with what they close."""
        if which.any():
            self._keep(~which)

    def limit(self, most: int) -> None:
        """Keep the newest clusters."""
        if len(self._keys) > most:
            self._keep(self._first > np.sort(self._first)[-most - 1])

    def _keep(self, kept: Bools) -> None:
        self._keys, self._first, self._rows = self._keys[kept], self._first[kept], self._rows[kept]

    def nbytes(self) -> int:
        return self._keys.nbytes + self._first.nbytes + self._rows.nbytes


class NoComponent(Stateful):
    """The No component of an input: keys by which rows may refer to it in vain, until they expire.

    If it is not kept, it has a sample of them alone, to know what it would save.
    """

    saved = ("_keys", "_ends", "is_kept", "hits")

    def __init__(self, columns: int, is_kept: bool) -> None:
        self._keys, self._ends = np.empty((0, columns), np.int64), np.empty(0, np.int64)
        self.is_kept, self.hits = is_kept, 0
        """Whether it is kept, and how many rows referred to its keys since they were last counted."""

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def keys(self) -> np.ndarray:
        return self._keys

    @property
    def weight(self) -> int:
        """How many keys each stands for."""
        return 1 if self.is_kept else NO_SAMPLE

    def add(self, keys: np.ndarray, ends: Int64s) -> None:
        if not self.is_kept:
            some = _in_sample(keys)
            keys, ends = keys[some], ends[some]
        self._keys, self._ends = np.concatenate([self._keys, keys]), np.concatenate([self._ends, ends])

    def keep(self, needed: Bools, now: int) -> None:
        """Keep those that are needed and have not expired."""
        kept = needed & (self._ends > now)
        if not kept.all():
            self._keys, self._ends = np.ascontiguousarray(self._keys[kept]), self._ends[kept]

    def choose(self, is_kept: bool) -> None:
        """Keep it from now on, or a sample."""
        if self.is_kept and not is_kept:
            self.keep(_in_sample(self._keys), int(BEFORE_TIME))
        self.is_kept = is_kept

    def expected_bytes(self) -> int:
        """If it were kept."""
        return self.nbytes() * self.weight

    def nbytes(self) -> int:
        return self._keys.nbytes + self._ends.nbytes


def _in_sample(keys: np.ndarray) -> Bools:
    hashes = np.zeros(len(keys), np.uint64)
    for column in keys.T:
        hash_integers(np.ascontiguousarray(column), hashes)
    return np.asarray(hashes % np.uint64(NO_SAMPLE) == 0)
