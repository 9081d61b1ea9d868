"""What the engines on this machine last said of themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.spark.place import run_name
from penstock.streamon.thresholds import HEAVY_PART


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


def skew(metrics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each input of each stage the rows that each partition has received, and the keys that most have.

    ``busiest`` is how many times its even part the busiest partition has. ``heavy`` gives for each key with a
    great part of all rows that part.
    """
    received: dict[tuple[str, int, str], dict[int, int]] = {}
    heavy: dict[tuple[str, int, str], Counter[str]] = {}
    for engine in metrics:
        for name, rows in engine.get("received", {}).items():
            place = engine["run"], engine["stage"], name
            received.setdefault(place, {})[engine["partition"]] = rows
            for value, part in engine["heavy"].get(name, {}).items():
                heavy.setdefault(place, Counter())[value] += round(part * rows)
    return [_skew_of(place, rows, heavy.get(place, Counter())) for place, rows in sorted(received.items())]


def _skew_of(place: tuple[str, int, str], rows: dict[int, int], heavy: Counter[str]) -> dict[str, Any]:
    run, stage, name = place
    total = sum(rows.values())
    busiest = max(rows.values()) * len(rows) / total if total else 1.0
    most = [(value, count / total) for value, count in heavy.most_common() if count > HEAVY_PART * total]
    parts = {value: round(part, 3) for value, part in most}
    own = {"run": run, "stage": stage, "input": name}
    return {**own, "rows": dict(sorted(rows.items())), "busiest": round(busiest, 2), "heavy": parts}
