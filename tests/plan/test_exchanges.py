"""Goldens: how queries are spread over six partitions; and that each of them gives the oracle's answer.

A section of ``exchanges.txt`` is a title, the query, ``--``, and the lines of explain that say where rows go.
After a change that is meant, ``PENSTOCK_REWRITE=1 pytest tests/plan/test_exchanges.py`` writes them anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from checking import Skip, check, check_manner, expect
from exchange_data import CATALOG, SCHEMA, data
from local_host import Manner
from longer import LONG
from strategies import Case

from penstock.cql import bind
from penstock.plan import compile, explain

FILE = Path(__file__).with_name("exchanges.txt")


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


def case(query: str, seed: int) -> Case:
    return Case(query, data(seed), dict.fromkeys([*"RSTUQX"], SCHEMA), 20)


@pytest.mark.skipif("PENSTOCK_REWRITE" in os.environ, reason="the goldens are written anew")
@pytest.mark.parametrize(("query", "lines"), SECTIONS)
def test_exchanges(query: str, lines: str) -> None:
    assert exchanges(query) == lines


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", [0])
def test_the_answer_is_the_oracles(query: str, seed: int) -> None:
    with suppress(Skip):  # which of equal rows are the last is said by nothing
        expected = expect(case(query, seed))
        for partitions in (3, 6) if LONG else (6,):
            check(case(query, seed), expected, partitions=partitions)
        check_manner(case(query, seed), Manner(4, (0.3, 0.6), ("rebuild",) * 4), expected)


def test_rewrite() -> None:
    """The file reads as it was written, and is written anew if so asked."""
    lines = [(t, q, exchanges(q) if "PENSTOCK_REWRITE" in os.environ else x) for t, q, x in sections()]
    text = "\n\n".join(f"# {t}\n{q}\n--\n{x}" for t, q, x in lines) + "\n"
    if "PENSTOCK_REWRITE" in os.environ:
        FILE.write_text(text)
    assert FILE.read_text() == text
