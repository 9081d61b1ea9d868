"""Access methods: how the rows of a store with a key, or with a key in a range, are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels.probing import View

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store

Matches = tuple[Int64s, Int64s, Int64s, Int64s]
"""For each joined tuple: the place of the probing tuple, the matching row, start and end of its life."""


class Index(ABC):
    """An access method over the ``keys`` of a store.

    A row is inserted when the store gets it. Expiry is not reported: rows before the store's ``base`` are no
    longer found, and the number of their entries is bounded.
    """

    name: ClassVar[str]
    keys: tuple[int, ...]

    @abstractmethod
    def rebuild(self, store: Store) -> None:
        """The store's rings were reallocated."""

    @abstractmethod
    def insert(self, store: Store, first: int, count: int) -> None:
        """Insert rows just added to the store."""

    @abstractmethod
    def prepare(self, keys: Sequence[tuple[Int64s, Bools]]) -> tuple[Int64s, Bools]:
        """The (key, valid) to probe with, from those of each of ``keys``.

        Matches may differ in some of several keys: a caller that probes by several must compare them.
        """

    @abstractmethod
    def probe(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Matches:
        """The matches of tuples with these keys and lives."""

    def probe_from(
        self, store: Store, firsts: Int64s, keys: Int64s, starts: Int64s, ends: Int64s, view: View
    ) -> Matches:
        """The matches of tuples whose first match ``first`` has returned. ``firsts`` is overwritten."""
        return self.probe(store, keys, firsts >= 0, starts, ends, view)

    @abstractmethod
    def first(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Int64s:
        """A match of each tuple, -1 for none."""

    @abstractmethod
    def nbytes(self) -> int:
        """Memory used."""


class RangeIndex(Index):
    """An index that can be probed by a range of its first key."""

    @abstractmethod
    def probe_range(
        self,
        store: Store,
        lows: Int64s,
        highs: Int64s,
        valid: Bools,
        starts: Int64s,
        ends: Int64s,
        view: View,
    ) -> Matches:
        """The matches with a key from ``lows`` to ``highs``, both included."""

    def prepare(self, keys: Sequence[tuple[Int64s, Bools]]) -> tuple[Int64s, Bools]:
        """The first key."""
        return keys[0]

    def probe(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, view: View
    ) -> Matches:
        return self.probe_range(store, keys, keys, valid, starts, ends, view)
