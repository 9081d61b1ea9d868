"""Goldens: queries and the plans they are bound to, one file a part of the language.

A section of ``plans/*.txt`` is a title, the query, ``--``, the plan, and what was filled in as notes. After a
change that is meant, ``PENSTOCK_REWRITE=1 pytest tests/cql/test_plans.py`` writes them anew: read the diff.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import cql
from penstock.cql.names.context import Catalog
from penstock.plan.logical import show

FILES = sorted(Path(__file__).with_name("plans").glob("*.txt"))


@dataclass
class Section:
    title: str
    query: str
    plan: str


def sections(path: Path) -> list[Section]:
    result = []
    for block in path.read_text().strip().split("\n\n"):
        title, rest = block.split("\n", 1)
        query, _, plan = rest.partition("\n--\n")
        result.append(Section(title.removeprefix("# "), query.removesuffix("\n--"), plan))
    return result


CASES = [pytest.param(path, s, id=f"{path.stem}: {s.title}") for path in FILES for s in sections(path)]


def shown(query: str, catalog: Catalog) -> str:
    bound = cql.bind(query, catalog)
    return "\n".join([show(bound.root), *(f"note: {n}" for n in bound.notes)])


@pytest.mark.skipif("PENSTOCK_REWRITE" in os.environ, reason="the goldens are written anew")
@pytest.mark.parametrize(("path", "section"), CASES)
def test_plan(path: Path, section: Section, catalog: Catalog) -> None:
    assert shown(section.query, catalog) == section.plan


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_rewrite(path: Path, catalog: Catalog) -> None:
    """The files read as they were written, and are written anew if so asked."""
    blocks = [f"# {s.title}\n{s.query}\n--\n{{}}" for s in sections(path)]
    if "PENSTOCK_REWRITE" in os.environ:
        plans = [shown(s.query, catalog) for s in sections(path)]
    else:
        plans = [s.plan for s in sections(path)]
    text = "\n\n".join(b.replace("{}", p) for b, p in zip(blocks, plans, strict=True)) + "\n"
    if "PENSTOCK_REWRITE" in os.environ:
        path.write_text(text)
    assert path.read_text() == text
