"""Goldens: how queries are spread over six partitions; and that each of them gives the oracle's answer.

A section of ``exchanges.txt`` is a title, the query, ``--``, and the lines of explain that say where rows go.
After a change that is meant, ``PENSTOCK_REWRITE=1 pytest tests/plan/test_exchanges.py`` writes them anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from checking import Skip, check, check_manner, expect
from local_host import Manner
from strategies import Case

from penstock.catalog import RelationDef, StreamDef, TableDef
from penstock.cql import bind
from penstock.plan import compile, explain
from penstock.schema import TimeDomain

FILE = Path(__file__).with_name("exchanges.txt")
SCHEMA = "a BIGINT, b BIGINT, c STRING"
COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])
CATALOG: dict[str, Any] = {
    **{name: StreamDef(name, COLUMNS, TimeDomain()) for name in "RSTU"},
    "Q": RelationDef("Q", COLUMNS, TimeDomain()),
    "X": TableDef("X", COLUMNS),
}


def sections() -> list[list[str]]:
    """Title, query and lines of each section."""
    blocks = FILE.read_text().strip().split("\n\n")
    found = []
    for block in blocks:
        title, query, _, *lines = block.split("\n")
        found.append([title.removeprefix("# "), query, "\n".join(lines)])
    return found


SECTIONS = [pytest.param(*s[1:], id=s[0]) for s in sections()]
QUERIES = [pytest.param(s[1], id=s[0]) for s in sections()]


def exchanges(query: str, partitions: int = 6) -> str:
    """What explain says of where rows go."""
    lines = explain(compile(bind(query, CATALOG), partitions)).splitlines()
    return "\n".join(i for i in lines if i.startswith(("spark", "exchange", "stage", "  [cube")))


def data(seed: int) -> dict[str, list[Any]]:
    """Some of everything: ties, NULLs, one value more often than others."""
    random = Random(seed)

    def row() -> dict[str, Any]:
        pick = lambda *values: random.choice(values)  # noqa: E731
        return {"a": pick(1, 1, 1, 2, 3, None), "b": pick(0, 1, 2, 3, None), "c": pick("x", "y", None)}

    def stamps(count: int) -> list[int]:
        return sorted(random.randrange(12) for _ in range(count))

    streams: dict[str, list[Any]] = {name: [(ts, row()) for ts in stamps(9)] for name in "RSTU"}
    came = [(ts, row()) for ts in stamps(6)]
    left = [(ts + 4, "-", r) for ts, r in came[::2]]
    streams["Q"] = sorted([*((ts, "+", r) for ts, r in came), *left], key=lambda e: e[0])
    return {**streams, "X": [row() for _ in range(4)]}


def case(query: str, seed: int) -> Case:
    return Case(query, data(seed), dict.fromkeys([*"RSTUQX"], SCHEMA), 20)


@pytest.mark.skipif("PENSTOCK_REWRITE" in os.environ, reason="the goldens are written anew")
@pytest.mark.parametrize(("query", "lines"), SECTIONS)
def test_exchanges(query: str, lines: str) -> None:
    assert exchanges(query) == lines


@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_the_oracles(query: str) -> None:
    for seed in range(2):
        with suppress(Skip):  # which of equal rows are the last is said by nothing
            expected = expect(case(query, seed))
            for partitions in (3, 6):
                check(case(query, seed), expected, partitions=partitions)
            check_manner(case(query, seed), Manner(4, (0.3, 0.6), ("rebuild",) * 4), expected)


def test_rewrite() -> None:
    """The file reads as it was written, and is written anew if so asked."""
    lines = [(t, q, exchanges(q) if "PENSTOCK_REWRITE" in os.environ else x) for t, q, x in sections()]
    text = "\n\n".join(f"# {t}\n{q}\n--\n{x}" for t, q, x in lines) + "\n"
    if "PENSTOCK_REWRITE" in os.environ:
        FILE.write_text(text)
    assert FILE.read_text() == text
