"""What the engines on this machine last said of themselves."""

from __future__ import annotations

import json
from typing import Any

from penstock.spark.place import Place


def read_metrics(place: Place) -> list[dict[str, Any]]:
    """The metrics of each engine of a place, with its run, stage and partition; those gone are left out."""
    found = []
    for file in sorted(place.directory.glob("*/s*p*.json")):
        try:
            metrics = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        found.append(metrics)
    return found
