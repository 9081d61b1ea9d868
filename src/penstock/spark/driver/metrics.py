"""What the engines on this machine last published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.measurement import Measurement, Measurements, decode, measured
from penstock.spark.resident.directory import run_name


def read_measurements(root: Path, runs: Iterable[str]) -> Measurements:
    """The measurements of each engine of the runs; those gone are left out."""
    return Measurements(m for run_id in sorted(runs) for m in _of_run(root, run_id))


def _of_run(root: Path, run_id: str) -> Iterator[Measurement]:
    for file in sorted(root.glob(f"*/{run_name(run_id)}/s*p*.json")):
        stage, partition = map(int, re.findall("[0-9]+", file.name))
        try:
            readings = list(decode(file.read_bytes()))
            yield from measured(readings, run_id, stage + 1, partition, file.stat().st_mtime_ns // 1000)
        except (OSError, ValueError):
            continue
