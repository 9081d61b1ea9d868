"""``penstock generate``: the streams of a workload as Parquet files."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from penstock.cli.settings import EVENTS_PER_FILE
from penstock.errors import PenstockError
from penstock.workloads.files import StreamDirectory, write_slices
from penstock.workloads.nexmark import TOTAL, NexmarkWorkload, side_input


def generate_nexmark(out: Path, events: int, rate: int, seed: int) -> None:
    """Write persons, auctions, bids and the side input of q13 below ``out``, which has none of them yet."""
    if any((out / name).exists() for name in ("person", "auction", "bid", "side_input")):
        raise PenstockError(f"{out} has streams already: name another directory, or remove them")
    size = min(EVENTS_PER_FILE, events) // TOTAL * TOTAL
    workload = NexmarkWorkload(rate, size, seed)
    StreamDirectory(out / "side_input").append(side_input())
    with Progress(transient=True) as progress:
        slices = progress.track(range(events // size), description="Generating NEXMark")
        write_slices(out, (workload.slice(n) for n in slices))
    print(f"{events // size * size:,} events in {out}")
