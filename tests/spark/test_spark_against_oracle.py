"""The same random queries on Spark: map side, exchange, relays, logs, resident engines; the oracle's result.

50 queries run in bundles, with 1 or 4 partitions (in ``make long`` 80 with both, and on the engine), each
bundle in a session of another time zone; two run one by one, as a user would.
``PENSTOCK_BUNDLED`` runs more, ``PENSTOCK_SEED`` others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import oracle
import pytest
from bundle import run
from checking import (
    Skip,
    check,
    compare,
    expect,
    expect_something,
    without_bounds,
)
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from local_host import Manner
from longer import LONG, sized
from strategies import Case, Choices, cases, draw_case

import penstock

SIZE = sized(25, 40)
"""Cases that share one streaming query."""
BUNDLED = int(os.environ.get("PENSTOCK_BUNDLED", sized(50, 80)))
SEEDS = int(os.environ.get("PENSTOCK_SEED", "0")) * 1_000_000_000
ZONES = ("Europe/Berlin", "America/New_York", "UTC", "Australia/Lord_Howe", "Asia/Kolkata")
"""Time zones of sessions: no result depends on them. The data has times at which clocks of some change."""


def bundle(number: int) -> list[tuple[Case, list[oracle.Change]]]:
    """The cases of a bundle, the same in every run, with what the oracle says of them."""
    found: list[tuple[Case, list[oracle.Change]]] = []
    seed = SEEDS + number * 1_000_000
    while len(found) < SIZE:
        seed += 1
        case = draw_case(Choices(random=Random(seed)))
        with suppress(Skip):
            found.append((case, expect_something(case)))
    return found


@contextmanager
def in_zone(spark: Any, zone: str) -> Iterator[None]:
    """A session of that time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    with closing(penstock.connect(spark)):
        yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
@pytest.mark.parametrize("number", range(BUNDLED // SIZE))
def test_bundles(spark: Any, number: int, tmp_path: Path) -> None:
    chosen, zone = bundle(number), ZONES[number % len(ZONES)]
    for case, expected in chosen if LONG else ():
        check(case, expected)
    with in_zone(spark, zone):
        for partitions in (1, 4) if LONG else (4 - number % 2 * 3,):
            root = tmp_path / str(partitions)
            manners = [Manner(partitions, (0.5,), aligned=True)] * SIZE
            results = run([c for c, _ in chosen], spark, root, manners)
            for (case, expected), actual in zip(chosen, results, strict=True):
                shown = without_bounds(actual, case)
                compare(shown, expected, case, f"{case}\non Spark, {partitions} partitions, {zone}")


@pytest.mark.spark
@settings(
    max_examples=2,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(case=cases(), partitions=st.sampled_from((1, 4)), batches=st.integers(1, 3))
def test_one_by_one(spark: Any, case: Case, partitions: int, batches: int) -> None:
    try:
        expected = expect(case)
    except Skip:
        reject()
    check(case, expected, on="spark", partitions=partitions, batches=batches)
