"""No index: a probe reads every live row. For joins that no equality narrows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.element import Bools, Int64s
from penstock.engine.indexes.hash import Matches
from penstock.engine.kernels import probing

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store


class Scan:
    """Every row alive at the same time is a match."""

    name = "none"
    keys: tuple[int, ...] = ()

    def rebuild(self, store: Store) -> None:
        """Nothing to keep."""

    def insert(self, store: Store, first: int, count: int) -> None:
        """Nothing to keep."""

    def probe(
        self, store: Store, keys: Int64s, valid: Bools, starts: Int64s, ends: Int64s, min_end: int
    ) -> Matches:
        """The matches of tuples with these lives; the keys do not matter."""
        return probing.probe_scan(store.lives, store.base, store.next, store.mask, starts, ends, min_end)

    def nbytes(self) -> int:
        """Memory used."""
        return 0
