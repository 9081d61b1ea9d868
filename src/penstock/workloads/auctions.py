"""Auctions that open and bids on them: most bids come shortly before an auction closes.

Every auction is open for the same time. Its bids come at ages whose density grows with a power of the age, so
a window of that length over ``Auctions`` holds for each bid its auction, and the older an auction is the more
bids are to be expected soon. Which auction has more bids than others is not known before they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

AUCTIONS = pa.schema([("auction", pa.int64()), ("seller", pa.int64()), ("ts", TIMESTAMP)])
BIDS = pa.schema([("auction", pa.int64()), ("price", pa.int64()), ("ts", TIMESTAMP)])
DDL = {
    "Auctions": "auction BIGINT, seller BIGINT, ts TIMESTAMP",
    "Bids": "auction BIGINT, price BIGINT, ts TIMESTAMP",
}
SELLERS = 20


@dataclass(frozen=True)
class AuctionWorkload:
    """``rate`` auctions per second, each open for ``open_seconds`` and with ``bids`` bids on average.

    The density of bids grows with the ``power``-th power of an auction's age. A slice has ``slice_seconds``.
    """

    rate: int = 50
    open_seconds: int = 60
    bids: float = 5.0
    power: float = 2.0
    slice_seconds: int = 10
    seed: int = 1

    @property
    def open_at_once(self) -> int:
        """Auctions that are open at a time: the rows of a window that misses none."""
        return self.rate * self.open_seconds

    def slice(self, number: int) -> dict[str, pa.Table]:
        """Auctions and bids of one slice, in order of time; the same for the same seed and number."""
        return {"Auctions": self._opened(number), "Bids": self._bids(number)}

    def slices(self, count: int, first: int = 0) -> Iterator[dict[str, pa.Table]]:
        return (self.slice(n) for n in range(first, first + count))

    def _opened(self, number: int) -> pa.Table:
        count = self.rate * self.slice_seconds
        auction = np.arange(number * count, (number + 1) * count, dtype=np.int64)
        seller = np.random.default_rng((self.seed, number, 1)).integers(0, SELLERS, count)
        return _table([auction, seller, self._opens(auction)], AUCTIONS)

    def _bids(self, number: int) -> pa.Table:
        """The bids that come in a slice: on auctions of this and of earlier slices."""
        begin = number * self.slice_seconds * MICROS
        earliest = max(0, number - -(-self.open_seconds // self.slice_seconds))
        every = [_bids_on(self, n) for n in range(earliest, number + 1)]
        auction, price, us = (np.concatenate(parts) for parts in zip(*every, strict=True))
        now = np.flatnonzero((us >= begin) & (us < begin + self.slice_seconds * MICROS))
        order = now[np.argsort(us[now], kind="stable")]
        return _table([auction[order], price[order], us[order]], BIDS)

    def _opens(self, auction: np.ndarray) -> np.ndarray:
        """When auctions open, in microseconds since the first slice."""
        return auction * MICROS // self.rate


@lru_cache(maxsize=64)
def _bids_on(workload: AuctionWorkload, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All bids on the auctions that open in a slice: auction, price, and time, unordered."""
    rng = np.random.default_rng((workload.seed, number, 2))
    count = workload.rate * workload.slice_seconds
    opened = np.arange(number * count, (number + 1) * count, dtype=np.int64)
    auction = np.repeat(opened, rng.poisson(workload.bids, count))
    age = rng.random(len(auction)) ** (1 / (workload.power + 1)) * workload.open_seconds
    price = np.round(20 + 80 * age / workload.open_seconds * rng.random(len(auction))).astype(np.int64)
    return auction, price, workload._opens(auction) + (age * MICROS).astype(np.int64)


def _table(columns: list[np.ndarray], schema: pa.Schema) -> pa.Table:
    *values, us = columns
    return pa.table([*values, pa.array(EPOCH + us, pa.int64()).cast(TIMESTAMP)], schema=schema)
