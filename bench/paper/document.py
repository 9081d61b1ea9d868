"""``docs/paper_results.md`` from what was measured; ``docs/paper_results.json`` has the same without rows.

A test writes the document from the JSON again and compares: it is never edited by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill

from bench.paper.parts import PARTS
from bench.paper.report import circumstances, tally
from bench.paper.results import ROOT, Result

DOCUMENT = ROOT / "docs" / "paper_results.md"
KEPT = DOCUMENT.with_suffix(".json")
WIDTH = 120

HEAD = """# The papers' experiments, run again

Written by `penstock bench paper --all --write-docs` from what it measured; edit `bench/paper/` instead.

```console
penstock bench paper --all                       # every figure of all papers, then one HTML report
penstock bench paper --all --fresh               # the same, without using what was measured before
penstock bench paper --all --judge               # judge what was measured again; measures nothing
penstock bench paper --chapter 4 --figure 4.13   # one figure; --chapter 4 alone for the whole chapter
penstock bench paper --paper kang                # one paper: kang, srivastava or hammad
penstock bench paper --all --quick               # few tuples: shows that it runs, proves nothing
```

Each figure writes its rows (`.csv`), what it measured and how it was judged (`.json`) and its plot (`.png`)
into the directory artifacts/paper (`--out` for another place); `report.html` there has everything in one
page. A run that was stopped resumes: a figure is measured again only if the modules that measure it changed.
The code is in `bench/paper/`, one file per figure: its parameters, its run, its claims.

A claim is a sentence of the paper about the figure, or where it says so a goal of Penstock's. It *agrees* if
what was measured has the property that the sentence states. *No evidence* is said where the run cannot tell,
as of a generated stream that was built to have the property."""
TABLE = "| figure | claim | ours | agrees | why |\n| --- | --- | --- | --- | --- |"


def written(results: Sequence[Result], missing: Sequence[str] = ()) -> str:
    """The document; ``missing`` are the numbers of figures without a result."""
    blocks = [HEAD, f"{tally(results)}."]
    if missing:
        blocks.append(_wrapped(f"Not measured in this run: {', '.join(missing)}."))
    return "\n\n".join([*blocks, sections(results)]) + "\n"


def sections(results: Sequence[Result]) -> str:
    """The part of the document on some results, a section for each paper or chapter."""
    blocks: list[str] = []
    for part in PARTS:
        of = [r for r in results if r.part == part.name]
        if not of:
            continue
        blocks += [f"## {part.title}", _wrapped(part.about), f"{tally(of)}."]
        blocks.append("\n".join([TABLE, *(line for r in of for line in _lines(r))]))
        notes = [*part.notes, *(f"{r.figure}: {note}" for r in of for note in r.notes)]
        if notes:
            blocks.append("How to read them:")
            blocks.append("\n".join(_wrapped(f"- {n}", "  ") for n in notes))
        blocks.append("Measured:")
        blocks.append("\n".join(_wrapped(f"- {r.figure}: {circumstances(r)}", "  ") for r in of))
    return "\n\n".join(blocks)


def _lines(result: Result) -> list[str]:
    number = result.figure.removeprefix(f"{result.part} ")
    return [
        f"| {number} | {_cell(c.says)} | {_cell(c.ours)} | {c.verdict} | {_cell(c.why)} |"
        for c in result.claims
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def keep(results: Sequence[Result], missing: Sequence[str] = ()) -> None:
    """Write the document and what it is written from."""
    each = ",\n".join(replace(r, rows=[]).to_json().strip() for r in results)
    KEPT.write_text(f'{{"missing": {json.dumps(missing)},\n"results": [\n{each}\n]}}\n')
    DOCUMENT.write_text(written(results, missing))


def kept() -> tuple[list[Result], list[str]]:
    """What the document was written from, without rows; nothing where it is not there."""
    if not KEPT.exists():
        return [], []
    values = json.loads(KEPT.read_text())
    return [Result.of_json(json.dumps(r)) for r in values["results"]], values["missing"]
