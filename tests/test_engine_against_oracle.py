"""Random queries over random streams: the engine gives what the oracle gives, at every instant.

``make fuzz MINUTES=10`` runs on for longer. A case that fails is printed as a call that runs; put it into
``regressions.py``.
"""

from __future__ import annotations

import pytest
from checking import check
from hypothesis import given
from regressions import REGRESSIONS, regressions
from strategies import Case, cases


@given(cases())
def test_engine(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", regressions())
def test_regressions(name: str) -> None:
    check(REGRESSIONS[name])
