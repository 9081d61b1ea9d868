"""``penstock bench caching``: what the page on adaptivity shows of it is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bench.paper.caching_joins import Run, by_work
from bench.streamon.caching import explained, ratio

PAGE = Path(__file__).parents[2] / "docs" / "adaptivity.md"


def shape(line: str) -> str:
    """A line without its numbers, which differ from run to run."""
    return re.sub(r"[0-9][0-9,.]*", "N", line)


def test_the_explain_of_the_page_is_what_the_command_prints() -> None:
    shown = PAGE.read_text().split("`penstock bench caching --explain --steps 12`")[1].split("```")[1]
    lines = [shape(line) for line in shown.strip("\n").splitlines()]
    # By counted work: with seconds, what else runs on the machine may have a cache dropped again.
    printed = [shape(line) for line in explained(12, None, by_work("adaptive")).splitlines()]
    assert len(lines) >= 3 and [line for line in printed if line in lines] == lines


def test_a_ratio_and_its_interval() -> None:
    """Of sums: a group that took long counts as much as its seconds; the first third does not count."""
    ours, theirs = Run([]), Run([])
    random = np.random.default_rng(1)
    for step in range(300):
        taken = random.uniform(1, 2)
        ours.by_step.append((1, 100.0 if step < 100 else 1.02 * taken * random.uniform(0.9, 1.1)))
        theirs.by_step.append((1, taken * random.uniform(0.9, 1.1)))
    found = ratio(ours, theirs, 2)
    assert found.mean == pytest.approx(1.02, abs=0.02)
    assert 0.005 < found.half < 0.02
