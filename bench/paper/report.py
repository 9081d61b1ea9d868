"""One page of all figures: what the papers say, what came out, whether it agrees and why, and the plots.

The page has everything in it, plots too, so that it can be sent to someone as one file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.paper.parts import PARTS
from bench.paper.results import Result

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100%; margin: .6em 0 }
td, th { border-top: 1px solid #ddd; padding: .35em .6em; text-align: left; vertical-align: top }
.yes { color: #17692d } .no { color: #a31515 } .none { color: #7a5c00 }
img { max-width: 100% } small { color: #666 } h3 { margin-top: 2em } nav li { margin: .1em 0 }
"""
CLASSES = {"yes": "yes", "no": "no", "no evidence": "none"}


def tally(results: Sequence[Result]) -> str:
    """How many claims agree."""
    verdicts = [c.verdict for r in results for c in r.claims]
    unknown = verdicts.count("no evidence")
    told = f"{verdicts.count('yes')} of {len(verdicts) - unknown} claims agree"
    return told + (f"; of {unknown} more this run is no evidence" if unknown else "")


def circumstances(result: Result) -> str:
    """When and where it was measured."""
    quick = "; --quick: too few tuples to agree or not" if result.quick else ""
    return (
        f"{result.seconds:.0f} s at {result.at}, commit {result.commit}, {result.machine}, load "
        f"{result.load:.1f} when it began{quick}"
    )


def page(results: Sequence[Result], plots: Path) -> str:
    """The page, as HTML."""
    parts = [(p, [r for r in results if r.part == p.name]) for p in PARTS]
    body = [f"<h1>The papers' experiments, run again</h1><p>{tally(results)}.</p><nav><ul>"]
    body += [f'<li><a href="#{p.name}">{escape(p.title)}</a>: {tally(of)}' for p, of in parts if of]
    body.append("</ul></nav>")
    for part, of in parts:
        if of:
            body.append(f'<h2 id="{part.name}">{escape(part.title)}</h2><p>{_marked(part.about)}</p>')
            body.append(_list(part.notes))
            body += [_figure(r, plots) for r in of]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<title>Penstock: the papers' experiments</title>"
        f"<style>{STYLE}</style><body>{''.join(body)}</body></html>\n"
    )


def _figure(result: Result, plots: Path) -> str:
    rows = "".join(
        f'<tr><td>{escape(c.says)}<td>{escape(c.ours)}<td class="{CLASSES[c.verdict]}">{c.verdict}'
        f"<td>{escape(c.why)}"
        for c in result.claims
    )
    image = plots / f"{result.name}.png"
    drawn = base64.b64encode(image.read_bytes()).decode() if image.exists() else ""
    return (
        f'<h3 id="{result.name}">{escape(result.figure)}: {escape(result.title)}</h3>'
        f"<table><tr><th>the paper says<th>ours<th>agrees<th>why{rows}</table>"
        + (f'<img alt="{escape(result.title)}" src="data:image/png;base64,{drawn}">' if drawn else "")
        + _list(result.notes)
        + f"<small>{escape(circumstances(result))}</small>"
    )


def _list(notes: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_marked(n)}" for n in notes) + "</ul>" if notes else ""


def _marked(text: str) -> str:
    """Text with the marks of the document: `code` and *emphasis*."""
    return re.sub(r"\*(\w[^*]*)\*", r"<em>\1</em>", re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))
