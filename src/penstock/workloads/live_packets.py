"""The packets of thesis section 1.3 with knobs that take effect in the next slice.

As in :mod:`penstock.workloads.packets`, customers' packets enter on link C, some go on over the backbone link
B, and link O leads out of the network. Rates, the shares of packets that go on and the routing may change
at any time. Packets under way at the end of a slice arrive in the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.workloads.files import MICROS
from penstock.workloads.packets import LINKS, Packets, as_table, by_time, entering

LATENCY_US = (2_000, 40_000)
FIRST_FOREIGN = 1 << 40


@dataclass
class Knobs:
    """What can be changed: packets per second on C and B, shares of packets that go on, the routing.

    ``direct``: the customer's packets reach O without passing B, and packets of B seldom do.
    """

    rate_c: float = 2_000.0
    rate_b: float = 20_000.0
    c_to_b: float = 0.1
    b_to_o: float = 0.1
    direct: bool = False


@dataclass
class LivePackets:
    """Slices of ``slice_seconds`` of each link's time; the knobs of a slice are those when it is made."""

    knobs: Knobs = field(default_factory=Knobs)
    slice_seconds: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._next = {"C": 0, "B": FIRST_FOREIGN}
        self._under_way: dict[str, list[Packets]] = {"B": [], "O": []}

    def slice(self, number: int) -> dict[str, pa.Table]:
        """The packets of every link in the next slice, in order of time."""
        k, start = self.knobs, round(number * self.slice_seconds * MICROS)
        end = start + round(self.slice_seconds * MICROS)
        c = self._enter("C", k.rate_c, start, end)
        over_b = self._rng.random(len(c.pid)) < k.c_to_b
        own = self._enter("B", max(0.0, k.rate_b - k.rate_c * k.c_to_b), start, end)
        b = by_time(self._arrive("B", c.where(over_b), end), own)
        is_own = b.pid >= FIRST_FOREIGN
        share = np.where(is_own, k.b_to_o / 10 if k.direct else k.b_to_o, k.b_to_o)
        to_o = b.where(self._rng.random(len(b.pid)) < share)
        if k.direct:
            to_o = by_time(to_o, c.where(~over_b))
        links = {"C": c, "B": b, "O": self._arrive("O", to_o, end)}
        return {name: as_table(links[name]) for name in LINKS}

    def _enter(self, link: str, rate: float, start: int, end: int) -> Packets:
        count = round(rate * self.slice_seconds)
        found = entering(self._rng, count, self._next[link], start, end)
        self._next[link] += count
        return found

    def _arrive(self, link: str, sent: Packets, end: int) -> Packets:
        """What arrives on a link before the end of the slice; the rest is under way until the next."""
        latency = self._rng.integers(*LATENCY_US, len(sent.us))
        moving = by_time(*self._under_way[link], sent._replace(us=sent.us + latency))
        self._under_way[link] = [moving.where(moving.us >= end)]
        return moving.where(moving.us < end)
