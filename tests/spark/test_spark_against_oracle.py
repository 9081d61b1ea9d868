"""The same random queries on Spark: map side, exchange, relays, logs, resident engines; the oracle's result.

50 queries run in bundles, with 1 or 4 partitions (in ``make long`` 80 with both, and on the engine), each
bundle in a session of another time zone; two run one by one, as a user would. In a further one (of 6, in
``make faults`` in 8 of 40) tables change between batches and while it is stopped; streams obey constraints.
``PENSTOCK_BUNDLED`` runs more, ``PENSTOCK_SEED`` others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
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
    run_versions,
    with_versions,
    without_bounds,
)
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from local_host import Manner
from longer import LONG, sized
from strategies import Case, Choices, cases, draw_case, draw_table_case
from strategies.constraints import obeying
from trials import versions_of

import penstock

SIZE = sized(25, 40)
"""Cases that share one streaming query."""
BUNDLED = int(os.environ.get("PENSTOCK_BUNDLED", sized(50, 80)))
CHANGING, STOPPED = sized(6, 40), 2
"""Cases of a bundle whose tables change, and the batch before which it is stopped and started again."""
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


def changing(number: int) -> list[tuple[Case, Manner, Case]]:
    """Cases with tables that change, how they run, and the same with relations in place of the tables."""
    found: list[tuple[Case, Manner, Case]] = []
    seed = SEEDS + number * 1_000_000
    while len(found) < CHANGING:
        seed += 1
        choices = Choices(random=Random(seed))
        case = draw_table_case(choices)
        case = obeying(choices, case) if choices.chance(2) else case
        with suppress(Skip):
            manner = Manner(choices.pick(1, 2, 3, 4), (0.3, 0.7), aligned=True)
            manner = replace(manner, versions=versions_of(choices, case, len(manner.cuts) + 2))
            relation = with_versions(case, manner, run_versions(case, manner)[1])
            expect_something(relation)
            found.append((case, manner, relation))
    return found


@pytest.mark.spark
@pytest.mark.parametrize("number", range(BUNDLED // 50))
def test_tables_that_change(spark: Any, number: int, tmp_path: Path) -> None:
    chosen, zone = changing(number), ZONES[(number + 3) % len(ZONES)]
    with in_zone(spark, zone):
        cases, manners = [c for c, _, _ in chosen], [m for _, m, _ in chosen]
        results = run(cases, spark, tmp_path, manners, STOPPED)
    for (case, manner, relation), actual in zip(chosen, results, strict=True):
        shown, about = without_bounds(actual, case), f"{case}\n{manner}\non Spark, {zone}"
        compare(shown, expect(relation), relation, about)


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
