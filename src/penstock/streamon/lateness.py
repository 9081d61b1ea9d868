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
    kept = set()
    for engine in metrics:
        for name, rows in engine.get("late", {}).items():
            counts[engine.get("run", ""), name] += rows
        if engine.get("keeps late rows"):
            kept.add(engine.get("run", ""))
    return {
        place: _sentence(place[1], rows, place[0] in kept) for place, rows in sorted(counts.items()) if rows
    }


def _sentence(name: str, rows: int, kept: bool) -> str:
    came = "row of {} came too late and was" if rows == 1 else "rows of {} came too late and were"
    others = "read such" if kept else "keep such"
    by = f"ps.late_rows({name!r})" if kept else "SET penstock.late_rows = 'directory'"
    return (
        f"{rows:,} {came.format(repr(name))} left out: declare the stream with a larger SKEW, or {others} "
        f"rows by {by}"
    )
