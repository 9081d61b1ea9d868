"""Traffic and the tolls of its cars in earlier days, as files in the benchmark's format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.workloads.linear_road.layout import HISTORY_SCHEMA, write_rows
from penstock.workloads.linear_road.traffic import LinearRoad

TRAFFIC, HISTORY = "traffic.csv", "history.csv"


def write_traffic(out: Path, traffic: LinearRoad, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Write ``traffic.csv`` of these batches and ``history.csv`` of their cars; how many rows each has."""
    out.mkdir(parents=True, exist_ok=True)
    cars = 0

    def seen() -> Iterator[pa.RecordBatch]:
        nonlocal cars
        for batch in batches:
            cars = max(cars, pc.max(batch.column("vid")).as_py() + 1 if batch.num_rows else 0)
            yield batch

    rows = write_rows(out / TRAFFIC, seen())
    return rows, write_rows(out / HISTORY, traffic.history_of(cars).to_batches(), HISTORY_SCHEMA)
