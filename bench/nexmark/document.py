"""Writes docs/nexmark.md: every query in CQL, for Spark and in Flink SQL, from the files that run.

python -m bench.nexmark.document [--results FILE]

FILE is what ``penstock bench nexmark --json`` printed; without it the page keeps the figures that it has.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from pathlib import Path

from bench.nexmark.answers import QUERIES, cql, sections
from bench.nexmark.spark_frames import FRAMES, WITHOUT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "nexmark.md"
FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")


def page(figures: str) -> str:
    """The page with these figures."""
    flink, parts = sections("flink.sql"), [FIGURES.sub(lambda _: figures, HEAD)]
    for query in QUERIES:
        said, text = _comment(cql(query))
        spark = (
            inspect.getsource(FRAMES[query]).strip()
            if query in FRAMES
            else f"# Not possible: {WITHOUT[query]}."
        )
        parts.append(
            f"\n### {query}\n\n{said}\n\n```sql\n{text}\n```\n\n<details><summary>Spark, Flink</summary>\n\n"
            f"```python\n{spark}\n```\n\n```sql\n{flink[query]}\n```\n\n</details>\n"
        )
    return "".join(parts)


def _comment(text: str) -> tuple[str, str]:
    """What a file says of its query, and the query."""
    lines = text.strip().splitlines()
    said = [line for line in lines if line.startswith("--")]
    return " ".join(line.removeprefix("-- ") for line in said), "\n".join(lines[len(said) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", type=Path)
    given = parser.parse_args().results
    if given:
        from bench.nexmark.__main__ import flink_markdown, markdown

        result = json.loads(given.read_text())
        told = f"Batches of {result['events']:,} events.\n\n"
        tables = [markdown(result["queries"]), flink_markdown(result["queries"])]
        figures = "\n\n".join(table for table in tables if table)
        PAGE.write_text(page(f"\n{told}{figures}\n\n"))
    else:
        PAGE.write_text(page(kept()))


def kept() -> str:
    """The figures that the page has."""
    found = FIGURES.search(PAGE.read_text()) if PAGE.exists() else None
    return found.group() if found else ""


if __name__ == "__main__":
    main()
