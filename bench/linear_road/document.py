"""Writes the measurements of docs/linear_road.md: ``python -m bench.linear_road.document FILE``.

FILE is what ``penstock bench linear-road --rating ... --json FILE`` wrote, in one run or several.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.linear_road.rating import LIMIT_S

PAGE = Path(__file__).resolve().parents[2] / "docs" / "linear_road.md"
FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEADS = (
    "on",
    "speed",
    "L",
    "reports/s",
    "p50",
    "p99",
    "longest",
    f"within {LIMIT_S:g} s",
    "cores",
    "rows per CPU s",
)


PUBLISHED = """\
| system | L | machine | source |
| --- | --- | --- | --- |
| SQLstream | 60 | 4 cores, 8 GB (a virtual machine on a laptop of 2013) \
| [its documentation](https://doc.sqlstream.com/building-applications/linear-roads-benchmark/) |"""
"""Ratings of others, with their machines."""


def ratings(results: Sequence[dict[str, Any]]) -> str:
    """The published ratings, and the largest of ours that was tried and passed, in real time."""
    lines = [PUBLISHED]
    gigabytes = psutil.virtual_memory().total / 1e9
    for on in sorted({r["on"] for r in results}):
        passed = [r["expressways"] for r in results if r["on"] == on and r["within"] and r["speed"] == 1]
        shown = str(max(passed)) if passed else "none of those tried"
        machine = f"{psutil.cpu_count()} cores, {gigabytes:.0f} GB"
        where = "through Spark" if on == "spark" else "engine alone"
        lines.append(f"| Penstock, {where} | {shown} | {machine} | below |")
    return "\n".join(lines)


def table(results: Sequence[dict[str, Any]]) -> str:
    """A row for each load, then where the time goes in the largest ones."""
    if not results:
        return "Not measured yet."
    lines = [f"| {' | '.join(HEADS)} |", "| --- " * len(HEADS) + "|"]
    for r in sorted(results, key=lambda r: (r["on"], r["speed"], r["expressways"])):
        waits = [f"{r[name]:.2f} s" if name in r else "" for name in ("p50", "p99", "max")]
        cells = [
            _place(r), f"{r['speed']:g}", str(r["expressways"]), f"{r['rows_per_second']:,.0f}", *waits,
            "yes" if r["within"] else "no", f"{r['cores']:.2f}", f"{r['rows_per_cpu_second']:,.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_where(results)])


def _place(r: dict[str, Any]) -> str:
    return f"{r['on']}, {r['partitions']} engine{'s' * (r['partitions'] > 1)}"


def _where(results: Sequence[dict[str, Any]]) -> list[str]:
    largest = {r["on"]: r for r in sorted(results, key=lambda r: r["expressways"])}
    told = []
    for on, r in largest.items():
        parts = ", ".join(f"`{name}` {share:.0%}" for name, share in list(r["operators"].items())[:4])
        told.append(f"- {on}, L = {r['expressways']}: of the time of operators {parts}.")
        if "batch_ms" in r:
            each = ", ".join(f"{name} {ms:.0f}" for name, ms in list(r["batch_ms"].items())[:5])
            told.append(
                f"  A batch takes in the mean (ms) {each}; the longest took {r['longest_batch_ms']:.0f} ms."
            )
        if "longest_step" in r:
            told.append(f"  The longest step, at the end of a minute, took {r['longest_step']:.2f} s.")
    return told


def main(args: Sequence[str]) -> None:
    results = [r for name in args for r in json.loads(Path(name).read_text())]
    PAGE.write_text(FIGURES.sub(lambda _: f"\n{ratings(results)}\n\n{table(results)}\n\n", PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
