"""docs/approximation.md: the table of the windows that a budget takes is what the binder does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cql import bind
from penstock.errors import CQLError
from penstock.evaluation import read_inputs
from penstock.schema import TimeDomain

PAGE = (Path(__file__).parent.parent.parent / "docs" / "approximation.md").read_text()
ROWS = re.findall(r"^\| (`\[.*\]`) \| (yes|rejected) \| (yes|rejected) \|$", PAGE, re.MULTILINE)
BUDGETS = ("WITHIN RATE 5 PER SECOND", "WITHIN MEMORY 5 ROWS")
CASES = [
    (window, budget, answer)
    for windows, *answers in ROWS
    for window in re.findall("`(.*?)`", windows)
    for budget, answer in zip(BUDGETS, answers, strict=True)
]


@pytest.mark.parametrize(("window", "budget", "answer"), CASES)
def test_windows_that_a_budget_takes(window: str, budget: str, answer: str) -> None:
    rows = {name: [(1, {"k": 1})] for name in "AB"}
    catalog = read_inputs(rows, {}, TimeDomain("integer", "seconds")).catalog()
    query = f"SELECT A.k FROM A {window}, B [RANGE 5] WHERE A.k = B.k {budget}"
    if answer == "yes":
        bind(query, catalog)
    else:
        with pytest.raises(CQLError, match="WITHIN"):
            bind(query, catalog)


def test_the_table_is_found() -> None:
    assert len(CASES) == 20
