"""The examples of docs/cql.md, and the notation in which they give their inputs.

``S (a INT, b STRING): (1, x)@5 (2, y)@7`` is a stream, ``R (a INT): +1@1 -1@4`` a relation, ``T (a INT): 1
2`` a table, each on a line; ``until: 9`` lets time run on.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock import cql
from penstock.errors import DataError

PLACES = (Path(__file__).parent / "cql.md", Path(__file__).parents[3] / "docs" / "cql.md")
"""Where the page is: in the installed package, or in a source checkout."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$|^#+ ([^\n]*)$", re.MULTILINE | re.DOTALL)
PART = re.compile(r"\s*((?:(?!-- )\S.*\n|[ ]+.*\n)+)((?:-- .*\n)*)")
_DEFINED = re.compile(r"create_(?:function|aggregate)\(\s*\"(\w+)\"")
_SOURCES = re.compile(r"CREATE (?:STREAM|RELATION|TABLE|SINK) \w+ \(", re.IGNORECASE)
_INPUT = re.compile(r"(\w+) \((.*?)\):(.*)", re.DOTALL)
_ELEMENT = re.compile(r"([+-]?)(\((?:'[^']*'|[^()'])*\)|'[^']*'|[^\s()@]+)(?:@(\d+))?")
_VALUE = re.compile(r"'[^']*'|[^,\s][^,]*")


@dataclass(frozen=True)
class Inputs:
    """Inputs as ``penstock.evaluate`` takes them; ``text`` is the notation that they were read from."""

    rows: dict[str, list[Any]] = field(default_factory=dict)
    schemas: dict[str, str] = field(default_factory=dict)
    until: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Example:
    """A query of the page, under the heading and with the inputs that it has there."""

    heading: str
    text: str
    inputs: Inputs

    @property
    def title(self) -> str:
        """The query's first line, which tells it from the others under its heading."""
        return self.text.splitlines()[0]


@cache
def examples() -> tuple[Example, ...]:
    """All queries of the page that have inputs and a result."""
    page = next((p.read_text(encoding="utf-8") for p in PLACES if p.exists()), "")
    return tuple(read_examples(page))


def read_examples(page: str) -> list[Example]:
    """The examples of a page that a playground can run, in order.

    Those that use functions of Python, or define what they read, are left out.
    """
    heading, inputs, found = "", Inputs(), []
    own: set[str] = set()
    for block in FENCE.finditer(page):
        kind, text = block[1], block[2]
        if block[3] is not None:
            heading = block[3]
        elif kind == "input":
            inputs = read_inputs(text)
        elif kind == "python":
            own |= {name.casefold() for name in _DEFINED.findall(text)}
        elif kind == "cql" and inputs.rows:
            parts = (p for p in PART.finditer(text) if p[2] and not p[2].startswith("-- error"))
            found += [Example(heading, p[1].strip(), inputs) for p in parts if not _needs_more(p[1], own)]
    return found


def _needs_more(text: str, own: set[str]) -> bool:
    called = {name.casefold() for name in re.findall(r"(\w+)\s*\(", text)}
    return bool(called & own) or _SOURCES.search(text) is not None


def read_inputs(text: str) -> Inputs:
    """Inputs from the notation."""
    rows: dict[str, list[Any]] = {}
    schemas: dict[str, str] = {}
    until = None
    for line in re.split(r"\n(?=\S)", text.strip()):
        if line.startswith("until:"):
            until = _whole(line.removeprefix("until:"))
            continue
        match = _INPUT.fullmatch(line)
        if match is None:
            raise DataError(f"an input is written S (a INT, b STRING): (1, x)@5 (2, y)@7, not {line[:60]!r}")
        name, schema, elements = match.groups()
        types = cql.schema_of(schema)
        schemas[name] = schema
        rows[name] = [_element(e, types) for e in _ELEMENT.finditer(elements)]
    return Inputs(rows, schemas, until, text.strip())


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"until: takes a whole number, not {text.strip()!r}") from None


def _element(match: re.Match[str], schema: pa.Schema) -> Any:
    sign, body, ts = match.groups()
    values = _VALUE.findall(body[1:-1] if body.startswith("(") else body)
    if len(values) != len(schema):
        raise DataError(f"{match[0]} has {len(values)} values for {len(schema)} columns")
    row = {c.name: read_value(text.strip(), c.type) for c, text in zip(schema, values, strict=True)}
    if ts is None:
        return row
    return (int(ts), sign, row) if sign else (int(ts), row)


def read_value(text: str, type_: pa.DataType) -> Any:
    """A value of a type from its text; NULL is None."""
    if text == "NULL":
        return None
    text = text.strip("'")
    readers = (
        (pa.types.is_boolean, lambda t: t.lower() == "true"),
        (pa.types.is_timestamp, lambda t: dt.datetime.fromisoformat(t).replace(tzinfo=dt.UTC)),
        (pa.types.is_date, dt.date.fromisoformat),
        (pa.types.is_integer, int),
        (pa.types.is_floating, float),
        (pa.types.is_decimal, Decimal),
    )
    try:
        return next((read(text) for test, read in readers if test(type_)), text)
    except (ValueError, ArithmeticError):
        raise DataError(f"{text!r} is not a value of type {type_}") from None
