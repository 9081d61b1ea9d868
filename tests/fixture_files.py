"""Goldens in the domain's language: ``fixtures/*.cql``.

A file has cases, each with a title (``# ...``) and titled sections: the query (as ``sql`` the same in words
that the oracle's SQL has too, where they differ), the inputs with their types, the plan as ``explain`` tells
it, and the output elements. Elements are tables: ``ts`` first for a stream,
``ts | op`` for a relation, neither for a static table; values are JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("fixtures")
SECTIONS = ("query", "sql", "plan", "output")


@dataclass
class Fixture:
    """One case of a file. ``inputs`` are (name, columns with types, table)."""

    title: str
    query: str = ""
    sql: str = ""
    until: int | None = None
    functions: tuple[str, ...] = ()
    inputs: list[tuple[str, str, str]] = field(default_factory=list)
    plan: str = ""
    output: str = ""

    def elements(self) -> dict[str, list[Any]]:
        """The inputs as ``penstock.evaluate`` takes them."""
        return {name: read_table(table) for name, _, table in self.inputs}

    def schemas(self) -> dict[str, str]:
        return {name: columns for name, columns, _ in self.inputs}

    def __str__(self) -> str:
        parts = [f"# {self.title}", f"-- query\n{self.query}"]
        parts += [f"-- sql\n{self.sql}"] if self.sql else []
        parts += [f"-- until {self.until}"] if self.until is not None else []
        parts += [f"-- functions {', '.join(self.functions)}"] if self.functions else []
        parts += [f"-- input {name} ({columns})\n{table}".rstrip() for name, columns, table in self.inputs]
        parts += [f"-- plan\n{self.plan}", f"-- output\n{self.output}".rstrip()]
        return "\n".join(parts) + "\n"


def read_file(path: Path) -> list[Fixture]:
    """The cases of a file."""
    return [_read(block) for block in re.split(r"^# ", path.read_text(), flags=re.MULTILINE) if block.strip()]


def write_file(path: Path, fixtures: Sequence[Fixture]) -> None:
    path.write_text("\n".join(map(str, fixtures)))


def _read(block: str) -> Fixture:
    title, _, rest = block.partition("\n")
    fixture = Fixture(title.strip())
    for section in re.split(r"^-- ", rest, flags=re.MULTILINE)[1:]:
        head, _, body = section.partition("\n")
        word, _, more = head.strip().partition(" ")
        body = body.rstrip()
        if word == "until":
            fixture.until = int(more)
        elif word == "functions":
            fixture.functions = tuple(more.split(", "))
        elif word == "input":
            name, _, columns = more.partition(" ")
            fixture.inputs.append((name, columns.strip()[1:-1], body))
        elif word in SECTIONS:
            setattr(fixture, word, body)
        else:
            raise ValueError(f"{title}: no such section as {word!r}")
    return fixture


def read_table(text: str) -> list[Any]:
    """Elements from a table."""
    if not text:
        return []
    lines = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines()]
    names, result = lines[0], []
    for cells in lines[1:]:
        row = dict(zip(names, cells, strict=True))
        ts, op = row.pop("ts", None), row.pop("op", None)
        values = {name: json.loads(cell) for name, cell in row.items()}
        beside = [*([] if ts is None else [int(ts)]), *([] if op is None else [op])]
        result.append((*beside, values) if beside else values)
    return result


def write_table(changes: Sequence[tuple[int, str, dict[str, Any]]], names: Sequence[str], op: bool) -> str:
    """Output elements as a table; a stream's without their sign. Elements of an instant in a fixed order."""
    cells = [
        [str(ts), *([sign] if op else []), *(json.dumps(row[n], ensure_ascii=False) for n in names)]
        for ts, sign, row in changes
    ]
    cells.sort(key=lambda line: (int(line[0]), line[1:]))
    table = [["ts", *(["op"] if op else []), *names], *cells]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return "\n".join(
        " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table
    )
