"""``penstock generate``: the streams of a workload as files, and how fast they were generated."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.progress import Progress

from penstock.cli.session import writing
from penstock.cli.settings import EVENTS_PER_FILE
from penstock.errors import PenstockError
from penstock.workloads.files import StreamDirectory, write_slices
from penstock.workloads.linear_road import LinearRoad
from penstock.workloads.linear_road.traffic_files import HISTORY, TRAFFIC, write_traffic
from penstock.workloads.nexmark import TOTAL, NexmarkWorkload, side_input

Part = TypeVar("Part")


class Generated(Iterable[Part]):
    """Parts of a workload, and the CPU seconds that it took to generate them, not to write them."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts, self.seconds = parts, 0.0

    def __iter__(self) -> Iterator[Part]:
        began = time.process_time()
        for part in self._parts:
            self.seconds += time.process_time() - began
            yield part
            began = time.process_time()

    def summary(self, count: int, what: str, out: Path) -> str:
        """A line that says how many there are, and how fast they were generated."""
        rate = count / max(self.seconds, 1e-9)
        return f"{count:,} {what} in {out}; generated {rate:,.0f} per CPU second"


def generate_nexmark(out: Path, events: int, rate: int, seed: int) -> None:
    """Write persons, auctions, bids and the side input of q13 below ``out``, which has none of them yet."""
    _begun(out, "person", "auction", "bid", "side_input")
    size = min(EVENTS_PER_FILE, events) // TOTAL * TOTAL
    workload = NexmarkWorkload(rate, size, seed)
    StreamDirectory(out / "side_input").append(side_input())
    workload.slice(0)  # loads what is compiled, and makes the text that others are cut from
    slices = Generated(workload.slice(n) for n in range(events // size))
    with Progress(transient=True) as progress:
        write_slices(out, progress.track(slices, total=events // size, description="Generating NEXMark"))
    print(slices.summary(events // size * size, "events", out))


def generate_linear_road(out: Path, traffic: LinearRoad) -> None:
    """Write traffic and the tolls of its cars in earlier days below ``out``, which has neither yet."""
    _begun(out, TRAFFIC, HISTORY)
    batches = Generated(traffic.batches())
    with Progress(transient=True) as progress:
        minutes = -(-traffic.seconds // 60)
        shown = progress.track(batches, total=minutes, description="Generating traffic")
        rows, tolls = write_traffic(out, traffic, shown)
    print(batches.summary(rows, "rows", out / TRAFFIC))
    print(f"{tolls:,} tolls of earlier days in {out / HISTORY}")


def _begun(out: Path, *names: str) -> None:
    """Make a directory that must not have these yet."""
    if any((out / name).exists() for name in names):
        raise PenstockError(f"{out} already has streams; give another directory, or remove them")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
