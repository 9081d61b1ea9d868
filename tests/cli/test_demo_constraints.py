"""What the demo of constraints says of its two runs."""

from __future__ import annotations

import pytest
from rich.console import Console

from penstock.cli.demo_constraints import Outcome, _tell


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (Outcome([(1,)], 50, 900, 3, 1), "rows: yes, and bytes: yes, the same result: yes, no slower op"),
        (
            Outcome([(2,)], 51, 1100, 3, 3),
            "rows: NO, and bytes: NO, the same result: NO, no slow",
        ),
    ],
)
def test_runs_are_compared(by: Outcome, said: str) -> None:
    console = Console(record=True, width=200)
    without = Outcome([(1,)], 5_000, 100_000, 5, 2)
    assert _tell(console, {"off": without, "declared": by}) == (by.changes == without.changes)
    assert said in console.export_text()
