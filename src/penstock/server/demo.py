"""The demo of the visualizer: the packet network of thesis section 1.3, with knobs.

Stream time runs faster than the clock, as in ``penstock demo``, so that windows of ten minutes are full after
ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.server.settings import DEMO_FILE_S, DEMO_RATE, DEMO_SPEED
from penstock.workloads.feed import Feed
from penstock.workloads.live_packets import Knobs, LivePackets
from penstock.workloads.packets import DDL, LINKS

NAME = "traffic"
QUERY = """\
SELECT SUM(C.size) AS total
FROM   C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]
WHERE  C.pid = B.pid AND B.pid = O.pid"""


@dataclass(frozen=True)
class Knob:
    """A knob of the network: a name of ``Knobs``, and what it may be."""

    name: str
    label: str
    least: float
    most: float
    step: float
    unit: str = ""


KNOBS = (
    Knob("rate_c", "Packets per second on the customer's link C", 100, 10_000, 100),
    Knob("rate_b", "Packets per second on the backbone B", 1_000, 60_000, 1_000),
    Knob("c_to_b", "Share of C's packets that go on over B", 0.0, 1.0, 0.01),
    Knob("b_to_o", "Share of B's packets that go on to O", 0.0, 1.0, 0.01),
)


class Demo:
    """The network: packets written to files as they come, and the query over them."""

    def __init__(self, root: Path, rate: float = DEMO_RATE) -> None:
        self._root = root
        self.knobs = Knobs(rate_c=rate, rate_b=rate * 10)
        inner = Knobs(rate / DEMO_SPEED, rate * 10 / DEMO_SPEED)
        self.workload = LivePackets(inner, slice_seconds=DEMO_FILE_S * DEMO_SPEED)
        self._feed = Feed(self.workload, root, DEMO_FILE_S)

    def start(self, session: Any, backend: Any) -> None:
        """Register the streams and the query, and let the packets flow."""
        self._feed.write()
        for name in LINKS:
            session.sql(f"CREATE STREAM {name} ({DDL}) TIMESTAMP BY ts FROM PARQUET '{self._root / name}'")
        backend.register(NAME, QUERY)
        self._feed.start()

    def set(self, name: str, value: float) -> None:
        """Turn a knob; it takes effect in the next file."""
        knob = next(k for k in KNOBS if k.name == name)
        value = min(max(value, knob.least), knob.most)
        setattr(self.knobs, name, value)
        setattr(self.workload.knobs, name, value / DEMO_SPEED if name.startswith("rate") else value)

    def switch(self) -> bool:
        """Change the routing now; returns whether it is direct then."""
        self.knobs.direct = self.workload.knobs.direct = not self.knobs.direct
        return self.knobs.direct

    def stop(self) -> None:
        """Let no more packets flow."""
        self._feed.stop()


running: list[Demo] = []
"""The demo of this process, if it shows one."""


@contextmanager
def running_demo(session: Any, backend: Any) -> Iterator[Demo]:
    """The demo while it is entered; its files are gone afterwards."""
    with TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as directory:
        demo = Demo(Path(directory))
        demo.start(session, backend)
        running[:] = [demo]
        try:
            yield demo
        finally:
            running.clear()
            demo.stop()
            with suppress(Exception):  # Spark may be gone already
                backend.drop(NAME)
