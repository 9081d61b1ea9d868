"""Random queries over random inputs: the engine gives what the oracle gives, at every instant.

However the rows come, on however many partitions, with whatever rebuilt. ``PENSTOCK_CASES`` says how many run
(120 in ``make test``, 60 in ``make test-fast``), always the same; ``make fuzz MINUTES=10`` draws new ones.
A trial that fails is printed as a program that runs; put its case into ``regressions.py``.
"""

from __future__ import annotations

import math
import os

import pipelines
import pytest
import trials
from checking import Skip, check, check_manner
from hypothesis import HealthCheck, Phase, given, reject, settings
from local_host import Manner
from regressions import REGRESSIONS, regressions
from strategies.choices import seeds

CASES = int(os.environ["PENSTOCK_CASES"])
PARTS = 4
"""Tests that the most cases are dealt out to, so that several processes can share them."""


def some(part: float) -> settings:
    """Settings for a part of the cases. A failure is made small by ``trials``, not by Hypothesis."""
    return settings(
        max_examples=math.ceil(CASES * part),
        phases=(Phase.explicit, Phase.generate),
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def hold(seed: int, draw: trials.Draw) -> None:
    try:
        trials.hold(seed, draw)
    except Skip:
        reject()


@some(0.4)
@given(seeds)
def test_evaluate(seed: int) -> None:
    hold(seed, trials.evaluated)


@pytest.mark.parametrize("part", range(PARTS))
@some(0.57 / PARTS)
@given(seeds)
@pytest.mark.some(4)
def test_steps_partitions_and_rebuilding(part: int, seed: int) -> None:
    hold(PARTS * seed + part, trials.hosted)


@some(0.15)
@given(seeds)
def test_pipelines(seed: int) -> None:
    hold(seed, pipelines.pipeline)


@some(0.2)
@given(seeds)
def test_tables_that_change(seed: int) -> None:
    hold(seed, trials.refreshed)


@some(0.1)
@given(seeds)
def test_windows_between_streams(seed: int) -> None:
    hold(seed, trials.w_joined)


@some(0.2)
@given(seeds)
def test_all_that_enter(seed: int) -> None:
    hold(seed, trials.entering)


@some(0.015)
@given(seeds)
def test_long_streams(seed: int) -> None:
    hold(seed, trials.long)


@pytest.mark.parametrize("name", regressions())
def test_regressions(name: str) -> None:
    check(REGRESSIONS[name])


@pytest.mark.parametrize("name", regressions())
@pytest.mark.parametrize("partitions", (1, 3))
@pytest.mark.some(2)
def test_regressions_in_steps(name: str, partitions: int) -> None:
    for before in ("rebuild", "snapshot, rebuild"):
        check_manner(REGRESSIONS[name], Manner(partitions, cuts=(0.3, 0.55, 0.8), before=(before,) * 5))


@some(0.3)
@given(seeds)
@pytest.mark.slow
def test_constraints_that_hold(seed: int) -> None:
    hold(seed, trials.constrained)
