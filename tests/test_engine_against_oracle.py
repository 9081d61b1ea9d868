"""Random queries over random streams: the engine gives what the oracle gives, at every instant.

``PENSTOCK_CASES=5000 pytest tests/test_engine_against_oracle.py`` runs on for longer. A case that fails is
printed as a call that runs; put it into ``regressions.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import oracle
import pytest
from hypothesis import given
from regressions import REGRESSIONS, regressions
from strategies import Case, cases

import penstock


def check(case: Case, **how: Any) -> None:
    """The engine's changes are the oracle's, in the order of time and net per instant."""
    actual = penstock.evaluate(case.cql, case.inputs, schemas=case.schemas, until=case.until, **how)
    expected = oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until)
    oracle.assert_same(actual, expected, case)
    assert [ts for ts, _, _ in actual] == sorted(ts for ts, _, _ in actual), case
    assert not cancelling(actual), f"{case}\nenters and leaves in one instant: {cancelling(actual)}"


def cancelling(changes: list[tuple[int, str, dict[str, Any]]]) -> list[tuple]:
    """Rows that enter and leave in the same instant."""
    signs: dict[tuple, set[str]] = {}
    for ts, sign, row in changes:
        signs.setdefault((ts, *oracle.normalise(row.values())), set()).add(sign)
    return [row for row, count in Counter({k: len(v) for k, v in signs.items()}).items() if count > 1]


@given(cases())
def test_engine(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", regressions())
def test_regressions(name: str) -> None:
    check(REGRESSIONS[name])
