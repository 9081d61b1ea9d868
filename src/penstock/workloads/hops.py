"""Packets on three links C, B and O of a network, as in thesis section 6.1.1.

A part of the packets of C goes on to B, and independently a part of those of B to O. A packet appears on the
next link at most ``delay`` seconds later. The rates are packets per second on each link; O has those of B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

SCHEMA = pa.schema([("pid", pa.int64()), ("size", pa.int32()), ("ts", TIMESTAMP)])
DDL = "pid BIGINT, size INT, ts TIMESTAMP"


@dataclass(frozen=True)
class Hops:
    """``going_on``: the part of a link's packets that goes on to the next."""

    rate_c: int = 1_000
    rate_b: int = 10_000
    going_on: float = 0.1
    delay: float = 1.0
    slice_seconds: int = 10
    seed: int = 6

    def slices(self, count: int) -> Iterator[dict[str, pa.Table]]:
        """What happens on each link in each stretch of ``slice_seconds``, in order of time."""
        late: dict[str, list[np.ndarray]] = {
            "B": [np.empty((2, 0), np.int64)],
            "O": [np.empty((2, 0), np.int64)],
        }
        for number in range(count):
            rng = np.random.default_rng((self.seed, number))
            end = EPOCH + (number + 1) * self.slice_seconds * MICROS
            on_c = self._entering(rng, number, self.rate_c, 0)
            others = self._entering(rng, number, round(self.rate_b - self.rate_c * self.going_on), 1)
            on_b = self._arriving(late, "B", [others, self._sent(rng, on_c)], end)
            on_o = self._arriving(late, "O", [self._sent(rng, on_b)], end)
            yield {"C": _table(on_c), "B": _table(on_b), "O": _table(on_o)}

    def _entering(self, rng: np.random.Generator, number: int, rate: int, kind: int) -> np.ndarray:
        """Packets that no link before had: ids and times."""
        count, span = rate * self.slice_seconds, self.slice_seconds * MICROS
        ids = (number * count + np.arange(count)) * 2 + kind
        return np.stack([ids, EPOCH + number * span + np.sort(rng.integers(0, span, count))])

    def _sent(self, rng: np.random.Generator, packets: np.ndarray) -> np.ndarray:
        """The packets that go on, with the times at which they arrive."""
        some = packets[:, rng.random(packets.shape[1]) < self.going_on]
        delays = rng.integers(1, round(self.delay * MICROS) + 1, some.shape[1])
        return np.stack([some[0], some[1] + delays])

    def _arriving(
        self, late: dict[str, list[np.ndarray]], link: str, parts: list[np.ndarray], end: int
    ) -> np.ndarray:
        """What arrives at a link before ``end``, in order; the rest arrives later."""
        every = np.concatenate([*late[link], *parts], axis=1)
        here = every[1] < end
        late[link] = [every[:, ~here]]
        return every[:, here][:, np.argsort(every[1][here], kind="stable")]


def _table(packets: np.ndarray) -> pa.Table:
    sizes = (packets[0] * 7919 % 1461 + 40).astype(np.int32)
    stamps = pa.array(packets[1]).cast(TIMESTAMP)
    return pa.table([pa.array(packets[0]), pa.array(sizes), stamps], SCHEMA)
