"""Rows that came too late for a query and were left out: how many of each input, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def late(metrics: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """By run and input a sentence, where rows came too late.

    >>> late([{"run": "r", "late": {"S": 2}}, {"run": "r", "late": {"S": 1}}])["r", "S"][:51]
    "3 rows of 'S' came too late and were left out: decl"
    """
    counts: Counter[tuple[str, str]] = Counter()
    for engine in metrics:
        for name, rows in engine.get("late", {}).items():
            counts[engine.get("run", ""), name] += rows
    return {place: _sentence(place[1], rows) for place, rows in sorted(counts.items()) if rows}


def _sentence(name: str, rows: int) -> str:
    came = "row of {} came too late and was" if rows == 1 else "rows of {} came too late and were"
    return (
        f"{rows:,} {came.format(repr(name))} left out: declare the stream with a larger SKEW, or keep such "
        "rows by SET penstock.late_rows = 'directory'"
    )
