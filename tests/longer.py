"""How much of a test runs: all in ``make long`` and ``make faults``, in ``make test`` what finds a mistake.

``@pytest.mark.long`` leaves a test to ``make long``, ``@pytest.mark.share(n)`` all but one in n of its cases;
``sized`` chooses between two numbers of runs, rows or seconds.
"""

from __future__ import annotations

import os

LONG = bool(os.environ.get("PENSTOCK_LONG") or os.environ.get("PENSTOCK_KILLS"))


def sized(few: int, many: int) -> int:
    """A number for ``make test``, and one for ``make long``."""
    return many if LONG else few
