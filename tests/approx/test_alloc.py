"""Queries that share a memory: each has the part with which all have the same recall."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budget_feed import Run, budget_join, by_age

import penstock
from penstock.approx.recall import alloc
from penstock.budget import Maximize, Within
from penstock.engine.operator import Clock
from penstock.errors import PenstockError
from penstock.measurement import Kind, Measurements, Property, Reading, curve, measured, under
from penstock.spark.driver.shared_memory import demand, parts

LENGTH, RATE, WINDOWS = 400, 4, 12


def together(shapes: tuple[str, str], total: int, weights: tuple[float, float] = (1, 1)) -> list[float]:
    """The recall of two joins that share a memory, over the later half of a run."""
    runs = []
    for shape, weight in zip(shapes, weights, strict=True):
        node = budget_join(1, Maximize(), (LENGTH, 1))
        within = Within(bytes=total, goal=Maximize(), shared=True, weight=weight)
        keeps = replace(node.budget, within=within)  # type: ignore[type-var]
        runs.append(Run(replace(node, budget=keeps), by_age(shape, LENGTH, RATE, WINDOWS * LENGTH), 0))
    parts = [total / 2.0, total / 2.0]
    for begin in range(0, WINDOWS * LENGTH, LENGTH // 4):
        for run, part in zip(runs, parts, strict=True):
            chunks = [run.chunk(i, begin, begin + LENGTH // 4) for i in range(2)]
            clock = Clock(begin, begin + LENGTH // 4, 0, memory=int(part))
            run.chunks.append(run.operator.run(chunks, clock))
        demands = [demand(run.measured, total) for run in runs]
        parts = alloc([d for d in demands if d is not None], total)
        assert sum(parts) <= total * 1.0001
    return [_recall(run) for run in runs]


def _recall(run: Run) -> float:
    late = np.searchsorted(run.streams[1].ts, WINDOWS // 2 * LENGTH)
    return sum(b >= late for _, b in run.pairs()) / (len(run.streams[1].ts) - late)


def total_bytes(part: float) -> int:
    """A part of what both joins need, in the bytes of this join's rows."""
    run = Run(budget_join(10, Maximize(), (LENGTH, 1)), by_age("INC", LENGTH, RATE, LENGTH))
    row = run.operator._policy._row_bytes  # type: ignore[attr-defined]
    return int(part * 2 * RATE * LENGTH * row)


def test_an_easy_and_a_hard_join_have_the_same_recall() -> None:
    """Section 6.2.5: an increasing curve is hard, a decreasing one easy."""
    hard, easy = together(("INC", "DEC"), total_bytes(0.5))
    assert hard == pytest.approx(easy, abs=0.05)
    # Half of what it needs would have given the hard one half of its results.
    assert hard > 0.55


def test_weights_are_heeded_while_running() -> None:
    more, less = together(("INC", "INC"), total_bytes(0.5), (2, 1))
    assert more == pytest.approx(2 * less, rel=0.15)


def published(partition: int, *memories: float) -> Measurements:
    """What an engine publishes that has recalls of 0, 0.5 and 1 with some parts of a shared memory."""
    own = [Reading(Property.SHARED_MEMORY, 1000), Reading(Property.WEIGHT, 1)]
    recall = curve(Property.RECALL_AT_BYTES, (0.0, 0.5, 1.0), memories)
    return measured(under("join.1/budget", Kind.ADAPTIVE, [*own, *recall]), "q", 1, partition)


def test_the_driver_shares_the_memory_out() -> None:
    one = demand(published(0, 0, 500, 1000), 1000)
    two = demand(Measurements([*published(0, 0, 400, 800), *published(1, 0, 500, 1000)]), 1000)
    assert demand(published(0, 0, 500, 1000), 2000) is None
    assert parts(1000, [None, None]) == [500, 500]  # nothing is known yet
    first, second = parts(1000, [one, two])
    assert 990 < first + second <= 1000
    assert first / 1000 == pytest.approx(second / 1800, abs=0.01)
    assert parts(1000, [one, None, two])[1] == 333
    assert parts(10_000, [one, two]) == [1000 + 3600, 1800 + 3600]  # what nobody needs goes to all alike


def test_a_query_takes_what_the_session_has() -> None:
    rows = {n: [(t // 4, {"k": t % 7, "n": t}) for t in range(400)] for n in "AB"}
    text = "SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"
    exact = len(penstock.evaluate(text, rows))
    small = penstock.evaluate(f"SET penstock.memory = '8 KB'; {text} MAXIMIZE RESULTS", rows)
    assert 0 < len(small) < exact
    assert len(penstock.evaluate(f"SET penstock.memory = '8 MB'; {text} MAXIMIZE RESULTS", rows)) == exact
    with pytest.raises(PenstockError, match="SET penstock.memory = '256 MB' first"):
        penstock.evaluate(f"{text} MAXIMIZE RESULTS USING AGE", rows)
    with pytest.raises(PenstockError, match="SAMPLE needs WITHIN MEMORY"):
        penstock.evaluate(f"SET penstock.memory = '8 MB'; {text} SAMPLE", rows)
