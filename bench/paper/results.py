"""What a figure measured, kept as JSON beside its plot: a run resumes from it, and is judged again by it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.paper.figure import Claim, Figure, Row
from bench.paper.parts import HERE, Part

ROOT = HERE.parent.parent
UNKNOWN_SECONDS = 20.0
"""What a figure is taken to take that was never run."""
FRAME = {"figure", "parts", "results", "report", "document", "__main__"}
"""Modules that measure nothing: a change of theirs does not ask for another run."""


@dataclass(frozen=True)
class Result:
    """A figure's run: its rows and claims, when and where it ran, and the code that measured it."""

    figure: str
    name: str
    title: str
    part: str
    quick: bool
    seconds: float
    at: str
    commit: str
    load: float
    machine: str
    measured_by: str
    rows: list[Row] = field(repr=False)
    claims: list[Claim]
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """As text, a row per line so that a difference can be read."""
        values = asdict(self)
        rows = ",\n  ".join(json.dumps(r, default=_plain) for r in values.pop("rows"))
        head = json.dumps(values, indent=1, ensure_ascii=False, default=_plain)
        return f'{head[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n'

    @staticmethod
    def of_json(text: str) -> Result:
        values: dict[str, Any] = json.loads(text)
        values["claims"] = [Claim(**c) for c in values["claims"]]
        values["notes"] = tuple(values["notes"])
        return Result(**values)


def _plain(value: Any) -> Any:
    """A scalar of NumPy's as one of Python's."""
    return value.item()


def result(part: Part, figure: Figure, rows: list[Row], quick: bool, seconds: float, load: float) -> Result:
    """What was measured just now."""
    return Result(
        figure.number, figure.name, figure.title, part.name, quick, round(seconds, 1),
        datetime.now(UTC).isoformat(timespec="seconds"), commit(), round(load, 2), machine(),
        fingerprint(figure), rows, figure.claims(rows), figure.notes,
    )  # fmt: skip


def judged(found: Result, figure: Figure) -> Result:
    """The same rows by the claims and notes of today."""
    return Result(
        **{**vars(found), "claims": figure.claims(found.rows), "notes": figure.notes, "title": figure.title}
    )


def load(path: Path) -> Result | None:
    """What is kept of a figure; None where there is nothing that can be read."""
    try:
        return Result.of_json(path.read_text())
    except (OSError, ValueError, TypeError, KeyError):
        return None


def fingerprint(figure: Figure) -> str:
    """Of the modules that measure a figure: its own and those of this package that it imports."""
    pending, seen = [figure.name], dict[str, str]()
    while pending:
        name = pending.pop()
        path = HERE / f"{name}.py"
        if name in seen or name in FRAME or not path.exists():
            continue
        seen[name] = path.read_text()
        pending += _imported(seen[name])
    return hashlib.sha256("".join(seen[n] for n in sorted(seen)).encode()).hexdigest()[:16]


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bench.paper"):
            yield from (
                [node.module.rpartition(".")[2]]
                if node.module != "bench.paper"
                else (a.name for a in node.names)
            )


def commit() -> str:
    """The commit of the checkout; with a plus if files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no", "src", "bench") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def machine() -> str:
    """Cores and interpreter."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
