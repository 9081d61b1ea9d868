"""Packets on three links of a provider's network, as in thesis section 1.3.

A customer's packets enter on link C; one in ten goes on over the backbone link B. B carries ten times as many
packets, nearly all of other customers. Link O leads out of the network and carries as many as C. A packet
shows up on each link some milliseconds after the last one.

Every few seconds the routing changes, and with it the best order in which a packet of O is looked up in the
windows on the other two links:

- ``through``: one in ten packets of B goes on to O and nothing else does, so that all packets of O are in B
  and one in a hundred is in C. Probe C first.
- ``direct``: the customer's other packets reach O without passing B, and one in a hundred of B's does, so
  that nine in ten packets of O are in C and about one in ten is in B. Probe B first.

Of the customer's packets on B, one in ten goes on to O under either routing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

SCHEMA = pa.schema([("pid", pa.int64()), ("size", pa.int32()), ("ts", TIMESTAMP)])
DDL = "pid BIGINT, size INT, ts TIMESTAMP"
LINKS = ("C", "B", "O")

_SIZES = np.array([40, 64, 576, 1500], dtype=np.int32)
_SIZE_SHARES = (0.35, 0.15, 0.15, 0.35)
_ON_B = 10
"""Packets on B for each on C."""
_GOES_ON = 0.1
_SELDOM = 0.01
_LATENCY_US = (2_000, 40_000)
_FIRST_FOREIGN = 1 << 40
"""Identifiers from here on are other customers' packets, below are those that entered on C."""


class Packets(NamedTuple):
    """Packets on a link: identifiers, sizes in bytes, and microseconds since the first slice."""

    pid: np.ndarray
    size: np.ndarray
    us: np.ndarray

    def where(self, mask: np.ndarray) -> Packets:
        return Packets(self.pid[mask], self.size[mask], self.us[mask])


@dataclass(frozen=True)
class PacketWorkload:
    """The three links. ``rate``: C's packets per second; a slice is ``slice_seconds`` of each link's time."""

    rate: int = 2_000
    slice_seconds: float = 1.0
    route_seconds: float = 5.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self._slice_us < 2 * _LATENCY_US[1]:
            raise ValueError(f"slice_seconds must be at least {2 * _LATENCY_US[1] / MICROS}")

    @property
    def _slice_us(self) -> int:
        return round(self.slice_seconds * MICROS)

    def routing(self, seconds: float) -> str:
        """``through`` or ``direct``: the routing at a time of the streams."""
        return "direct" if int(seconds / self.route_seconds) % 2 else "through"

    def slice(self, number: int) -> dict[str, pa.Table]:
        """The packets of every link in one slice, in order of time; the same for the same seed and number."""
        links = {"C": self._on_c(number), "B": self._on_b(number), "O": self._on_o(number)}
        return {name: as_table(links[name]) for name in LINKS}

    def slices(self, count: int, first: int = 0) -> Iterator[dict[str, pa.Table]]:
        return (self.slice(n) for n in range(first, first + count))

    def _on_c(self, number: int) -> Packets:
        return self._entering(number, round(self.rate * self.slice_seconds), first_pid=0, salt=1)

    def _on_b(self, number: int) -> Packets:
        from_c = self._arriving(number, self._c_to_b, salt=2)
        others = round(self.rate * self.slice_seconds * (_ON_B - _GOES_ON))
        return by_time(from_c, self._entering(number, others, first_pid=_FIRST_FOREIGN, salt=3))

    def _on_o(self, number: int) -> Packets:
        from_b = self._arriving(number, self._b_to_o, salt=4)
        return by_time(from_b, self._arriving(number, self._c_to_o, salt=5))

    def _c_to_b(self, number: int) -> Packets:
        packets = self._on_c(number)
        return packets.where(self._over_b(number, len(packets.pid)))

    def _c_to_o(self, number: int) -> Packets:
        packets = self._on_c(number)
        return packets.where(self._is_direct(packets) & ~self._over_b(number, len(packets.pid)))

    def _b_to_o(self, number: int) -> Packets:
        packets = self._on_b(number)
        seldom = self._is_direct(packets) & (packets.pid >= _FIRST_FOREIGN)
        share = np.where(seldom, _SELDOM, _GOES_ON)
        return packets.where(self._rng(number, 6).random(len(share)) < share)

    def _over_b(self, number: int, count: int) -> np.ndarray:
        """Which of a slice's packets on C go on over B."""
        return self._rng(number, 7).random(count) < _GOES_ON

    def _is_direct(self, packets: Packets) -> np.ndarray:
        return (packets.us // round(self.route_seconds * MICROS)) % 2 == 1

    def _entering(self, number: int, count: int, first_pid: int, salt: int) -> Packets:
        """Packets that enter the network in a slice, at random times."""
        start = number * self._slice_us
        return entering(
            self._rng(number, salt), count, first_pid + number * count, start, start + self._slice_us
        )

    def _arriving(self, number: int, sent: Callable[[int], Packets], salt: int) -> Packets:
        """What was sent over a hop, in this slice or the one before, and arrives in this one."""
        parts = []
        for n in range(max(0, number - 1), number + 1):
            packets = sent(n)
            latency = self._rng(n, salt).integers(*_LATENCY_US, len(packets.us))
            parts.append(packets._replace(us=packets.us + latency))
        arrived = by_time(*parts)
        return arrived.where(arrived.us // self._slice_us == number)

    def _rng(self, number: int, salt: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, number, salt))


def entering(rng: np.random.Generator, count: int, first_pid: int, start: int, end: int) -> Packets:
    """Packets that enter between two times, at random, in order of time."""
    us = start + np.sort(rng.integers(0, end - start, count))
    pid = first_pid + np.arange(count, dtype=np.int64)
    return Packets(pid, rng.choice(_SIZES, count, p=_SIZE_SHARES), us)


def by_time(*parts: Packets) -> Packets:
    """Packets together, in order of time."""
    pid, size, us = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(us, kind="stable")
    return Packets(pid[order], size[order], us[order])


def as_table(packets: Packets) -> pa.Table:
    """Packets as rows."""
    ts = pa.array(EPOCH + packets.us).cast(TIMESTAMP)
    return pa.table([pa.array(packets.pid), pa.array(packets.size), ts], schema=SCHEMA)
