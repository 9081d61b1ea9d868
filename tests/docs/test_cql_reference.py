"""The pages about CQL say what the engine does, and list what the tables of the language have.

After a change that is meant, ``PENSTOCK_REWRITE=1 pytest tests/docs`` writes results and lists anew: read the
diff.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

import pytest

import penstock
from penstock.cql.expressions import functions
from penstock.cql.syntax import ddl_parser, duration

sys.path.insert(0, str(Path(__file__).parent))
from reference import Example, examples  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "cql.md", DOCS / "from_other_systems.md", DOCS / "approximation.md", DOCS / "sysstream.md"]
CASES = [
    pytest.param(example, id=f"{page.stem}:{example.line}")
    for page in PAGES
    for example in examples(page.read_text())
]
LIST = re.compile(r"(<!-- list: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
REWRITE = "PENSTOCK_REWRITE" in os.environ


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.upper()}`" for name in names)


def wrapped(text: str) -> str:
    return "\n" + fill(text, 110, break_long_words=False, break_on_hyphens=False) + "\n"


def table(rows: list[list[str]]) -> str:
    """Rows as Markdown, the first one the head."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def window_table() -> str:
    """Which rows are in which window at each instant."""
    windows = ["[RANGE 2]", "[NOW]", "[ROWS 2]", "[ROWS UNBOUNDED]", "[RANGE 2 SLIDE 3]", "[ROWS 2 SLIDE 2]"]
    windows += ["[TUMBLE 3]", "[HOP 4 EVERY 2]", "[SESSION 2]"]
    stream = [(1, {"v": 10}), (2, {"v": 20}), (4, {"v": 30}), (5, {"v": 40})]
    held: dict[str, dict[int, list[str]]] = {}
    for window in windows:
        held[window] = {instant: [] for instant in range(1, 10)}
        for ts, _, row in penstock.evaluate(f"SELECT RSTREAM(v) FROM S {window}", {"S": stream}, until=9):
            held[window][ts].append(str(row["v"]))
    rows = [[str(ts), *(", ".join(sorted(held[w][ts])) for w in windows)] for ts in range(1, 10)]
    return table([["τ", *(f"`{window}`" for window in windows)], *rows])


LISTS = {
    "windows": window_table,
    "units": lambda: f"{code(duration.SECONDS)}, in short {code(duration.ALIASES)}",
    "changing": lambda: wrapped(code(functions.REFUSED)),
    "formats": lambda: code(ddl_parser.FILE_FORMATS),
}


@pytest.mark.skipif(REWRITE, reason="the pages are written anew")
@pytest.mark.parametrize("example", CASES)
def test_example(example: Example) -> None:
    assert example.answer() == example.expected


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_lists(page: Path) -> None:
    if REWRITE:
        page.write_text(rewritten(page.read_text()))
    for match in LIST.finditer(page.read_text()):
        assert match[0] == listed(match), f"{match[2]} is out of date"


def test_every_list_is_in_the_reference() -> None:
    assert sorted(m[2] for m in LIST.finditer(PAGES[0].read_text())) == sorted(LISTS)


def listed(match: re.Match[str]) -> str:
    return f"{match[1]}{LISTS[match[2]]()}{match[3]}"


def rewritten(page: str) -> str:
    for example in reversed(list(examples(page))):
        if example.expected:
            start, end = example.span
            page = page[:start] + example.answer() + page[end:]
    return LIST.sub(listed, page)
