"""What the engines on this machine last said of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.spark.resident.directory import run_name


def read_metrics(root: Path, runs: Iterable[str]) -> list[dict[str, Any]]:
    """The metrics of each engine of the runs, with its run, stage and partition; those gone are left out."""
    found = []
    for run_id in sorted(runs):
        for file in sorted(root.glob(f"*/{run_name(run_id)}/s*p*.json")):
            try:
                found.append({"run": run_id, **json.loads(file.read_text())})
            except (OSError, ValueError):
                continue
    return found
