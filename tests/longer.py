"""How much of a test runs: all in ``make long`` and ``make faults``, in ``make test`` what finds a mistake.

``@pytest.mark.long`` leaves a test to ``make long``, ``@pytest.mark.share(n)`` all but one in n of its cases;
``sized`` chooses between two numbers of runs, rows or seconds, ``longer`` leaves values of a parameter to it.
``@pytest.mark.some(n)`` leaves all but one in n cases of a test out of ``make test-fast``.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

LONG = bool(os.environ.get("PENSTOCK_LONG") or os.environ.get("PENSTOCK_KILLS"))


def sized(few: int, many: int) -> int:
    """A number for ``make test``, and one for ``make long``."""
    return many if LONG else few


def longer(*values: Any) -> list[Any]:
    """Values of a parameter that only ``make long`` runs."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
