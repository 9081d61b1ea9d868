"""What the queries of NEXMark must return over a finite input, by DuckDB over the whole of it.

A query whose result is a relation is compared with what is in it at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "nexmark"
QUERIES = tuple(f"q{n}" for n in range(23))
BY_ARRIVAL = "q12"
"""Its windows depend on when rows arrive: its counts are compared by bidder, over all windows."""


def sections(file: str) -> dict[str, str]:
    """The queries of a file, each below a line with its name."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    parts = re.split(r"^-- (q\d+)$", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


SQL = sections("duckdb.sql")


def cql(query: str) -> str:
    """The query's text, from the examples."""
    return (EXAMPLES / f"{query}.cql").read_text(encoding="utf-8")


Bag = Counter[tuple[Any, ...]]


def answer(tables: dict[str, Any], query: str, until: int) -> Bag:
    """What a query must return over tables of Arrow."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.execute(SQL[query].replace(":until", str(until))).fetchall()
    return bag(found)


def bag(rows: list[Any]) -> Bag:
    """Rows as they are compared: times in microseconds, numbers without a type, averages to 12 digits."""
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1_000_000)
    if isinstance(value, Decimal | float):
        return f"{float(value):.12g}"
    return value


def net(changes: list[tuple[str, tuple[Any, ...]]]) -> Bag:
    """What is in a relation after its changes; of a stream, all of its rows."""
    held = bag([row for op, row in changes if op == "+"])
    held.subtract(bag([row for op, row in changes if op == "-"]))
    return +held
