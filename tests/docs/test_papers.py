"""docs/papers.md names modules, tests and figures that exist, and every figure of the papers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
from bench.paper.parts import PARTS  # noqa: E402


def rows() -> Iterator[tuple[str, list[str], list[str], list[str]]]:
    """The idea, its modules, its tests and its figures."""
    for line in (ROOT / "docs" / "papers.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] not in ("idea", "---"):
            figures = [f.strip() for f in cells[4].split(",") if f.strip()]
            yield cells[0], re.findall("`([^`]+)`", cells[2]), re.findall("`([^`]+)`", cells[3]), figures


ROWS = list(rows())


@pytest.mark.parametrize("row", ROWS, ids=[r[0] for r in ROWS])
def test_what_is_named_exists(row: tuple[str, list[str], list[str], list[str]]) -> None:
    _, modules, tests, figures = row
    assert modules and tests
    for module in modules:
        assert (ROOT / "src" / "penstock" / module).is_file(), module
    for name in tests:
        path, _, test = name.partition("::")
        assert (ROOT / path).is_file(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name
    known = {f.number for part in PARTS for f in part.figures}
    assert set(figures) <= known


def test_every_figure_shows_an_idea() -> None:
    shown = {figure for *_, figures in ROWS for figure in figures}
    known = {f.number for part in PARTS for f in part.figures}
    assert known <= shown, known - shown
