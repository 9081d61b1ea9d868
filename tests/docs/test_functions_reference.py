"""``docs/functions.md`` comes from the registry; ``PENSTOCK_REWRITE=1`` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.functions import THEMES, Function
from penstock.functions.aggregates import AGGREGATES, EXAMPLE, Aggregate

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"

HEAD = """# Functions and operators

All functions and operators of [CQL](cql.md), with Spark's names and Spark's results. This page is generated
from `src/penstock/functions`; its examples are tests, on the engine and on Spark.

A parameter is a type, which a narrower number is widened to, or a class of types: `number`, `integer`, `time`
(a DATE or TIMESTAMP), `any`; arguments marked `T` become their common type. A DATE or TIMESTAMP may be given
as text. `[ ]` is optional, `...` is any number of further arguments. Unless stated otherwise the result is
NULL if an argument is.
"""


def page() -> str:
    parts = [HEAD]
    for theme in THEMES:
        parts.append(f"## {theme.title}\n\n{theme.note}\n\n{table([row(f) for f in theme.functions])}")
    values = ", ".join("NULL" if v is None else str(v) for v in EXAMPLE)
    note = f"NULLs are left out. In the examples v is {values}."
    parts.append(f"## Aggregates\n\n{note}\n\n{table([row(a) for a in AGGREGATES.values()])}")
    return "\n".join(parts)


def row(function: Function | Aggregate) -> list[str]:
    operator = isinstance(function, Function) and function.operator
    written = f"`{function.word}`" if operator else f"`{function.name.upper()}({function.parameters})`"
    others = "".join(f", `{alias.upper()}`" for alias in function.aliases)
    call, result = function.example.split(" -> ")
    returns = function.signature.split("->")[1].strip()
    return [written + others, f"`{returns}`", function.doc, f"`{call}` → `{result}`"]


def table(rows: list[list[str]]) -> str:
    lines = [["function", "returns", "description", "example"], ["---"] * 4, *rows]
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)


def test_the_page_is_what_the_registry_says() -> None:
    if "PENSTOCK_REWRITE" in os.environ:
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "run PENSTOCK_REWRITE=1 pytest tests/docs"
