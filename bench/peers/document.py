"""Write what a benchmark prints into a document, between two marks that name the benchmark."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def write(document: str, benchmark: str, text: str) -> None:
    """Replace what is between ``<!-- benchmark -->`` and ``<!-- end of benchmark -->``."""
    path = DOCS / document
    first, last = f"<!-- {benchmark} -->\n", f"<!-- end of {benchmark} -->"
    before, found, rest = path.read_text().partition(first)
    _, ended, after = rest.partition(last)
    if not found or not ended:
        raise SystemExit(f"{path} has no {first.strip()} ... {last}")
    path.write_text(f"{before}{first}\n```\n{text.rstrip()}\n```\n\n{last}{after}")
