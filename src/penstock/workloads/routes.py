"""Flows of packets that are routed over several links and leave over a last one, with routing that flips.

A flow shows up once on every link that it is routed over, and then with each of its packets on the link ``O``
that leads out. In every phase one of the links is avoided by nearly all flows, the last and the first one in
turn; the others carry nearly all. To find the packets of flows that take all links one looks each up in the
window on each link: the one that is avoided drops nearly all at once if it is the first, and after as many
probes as there are links if it is the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

SCHEMA = pa.schema([("flow", pa.int64()), ("ts", TIMESTAMP)])
DDL = "flow BIGINT, ts TIMESTAMP"
OUT = "O"


@dataclass(frozen=True)
class Routes:
    """``flows`` of ``packets`` each in a batch of a second; the routing flips every ``phase`` batches."""

    links: int = 4
    flows: int = 5_000
    packets: int = 4
    phase: int = 10
    avoiding: float = 0.95
    missing: float = 0.02
    seed: int = 1

    @property
    def names(self) -> list[str]:
        """The links, and the one that leads out."""
        return [*(f"L{i}" for i in range(1, self.links + 1)), OUT]

    def drops(self, batch: int) -> np.ndarray:
        """Which links (columns) a batch's flows (rows) do not take."""
        share = np.full(self.links, self.missing)
        share[0 if batch // self.phase % 2 else -1] = self.avoiding
        return np.random.default_rng((self.seed, batch)).random((self.flows, self.links)) < share

    def batch(self, number: int) -> dict[str, pa.Table]:
        """What happens in a second on every link, in order of time: first the flows, then their packets."""
        flow = np.arange(number * self.flows, (number + 1) * self.flows)
        drops, begin = self.drops(number), EPOCH + number * MICROS
        found = {}
        for link, name in enumerate(self.names[:-1]):
            took = flow[~drops[:, link]]
            found[name] = _table(took, begin + (took - flow[0]) * (MICROS // 2) // self.flows)
        sent = np.arange(self.flows * self.packets)
        shuffled = np.random.default_rng((self.seed, number, 1)).permutation(np.repeat(flow, self.packets))
        found[OUT] = _table(shuffled, begin + MICROS // 2 + sent * (MICROS // 2) // len(sent))
        return found


def _table(flow: np.ndarray, us: np.ndarray) -> pa.Table:
    return pa.table([pa.array(flow), pa.array(us).cast(TIMESTAMP)], schema=SCHEMA)
