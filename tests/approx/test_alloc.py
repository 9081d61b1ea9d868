"""Queries that share a memory: each has the part with which all have the same recall."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budget_feed import Run, budget_join, by_age

import penstock
from penstock.approx.maximize import Maximizer
from penstock.approx.recall import alloc
from penstock.budget import Maximize, Sample, Within
from penstock.cql.query import bind
from penstock.engine.joins.budget import BudgetedJoin
from penstock.engine.operator import Clock
from penstock.errors import PenstockError
from penstock.evaluation import read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Measurements, Property, Reading, curve, measured, under
from penstock.plan.compile import compile
from penstock.schema import TimeDomain
from penstock.settings import Settings
from penstock.spark.driver.shared_memory import demand, parts

pytestmark = pytest.mark.slow  # many runs; the random queries of make test-fast have budgets too

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


def with_error(*memories: float) -> Measurements:
    """A sample that has errors of 1 and 0.25 and 0 with some parts of a shared memory."""
    own = [Reading(Property.SHARED_MEMORY, 1000), Reading(Property.WEIGHT, 1)]
    error = curve(Property.ERROR_AT_BYTES, (1.0, 0.25, 0.0), memories)
    return measured(under("join.1/budget", Kind.ADAPTIVE, [*own, *error]), "q", 1, 0)


def test_samples_share_a_memory_so_that_their_errors_are_equal() -> None:
    """Section 5: Q is the error of the aggregate."""
    easy, hard = demand(with_error(100, 200, 400), 1000), demand(with_error(400, 800, 1000), 1000)
    first, second = parts(1000, [easy, hard])
    assert first + second == pytest.approx(1000, abs=2)
    assert (first, second) == (200, 800)  # an error of 0.25 for both
    assert parts(500, [easy, hard]) == [100, 400]  # an error of 1


def test_a_sample_publishes_the_error_to_expect() -> None:
    streams = by_age("INC", LENGTH, RATE, 4 * LENGTH)
    run = Run(budget_join(300, Sample("CLUSTER"), (LENGTH, 1), aggregated=True), streams, 4)
    error = {float(at): e for at, e in run.measured.values(Property.ERROR_AT_ROWS).items()}
    found = list(error.values())
    assert found == sorted(found, reverse=True) and found[-1] == 0.0 and found[1] > 0.0


def test_the_curve_is_computed_once_per_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = by_age("INC", LENGTH, RATE, 2 * LENGTH)
    run = Run(budget_join(300, Maximize(), (LENGTH, 1)), streams, 2)
    asked = list[float]()
    monkeypatch.setattr(Maximizer, "_quality", lambda self, rows: asked.append(rows) or 0.5)
    run.operator._policy._by_memory = None  # type: ignore[attr-defined]
    for _ in range(3):
        list(run.operator.measure())
    assert len(asked) == 33


def test_a_query_takes_what_the_session_has() -> None:
    rows = {n: [(t // 4, {"k": t % 7, "n": t}) for t in range(400)] for n in "AB"}
    text = "SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"
    exact = len(penstock.evaluate(text, rows))
    small = penstock.evaluate(f"SET penstock.memory = '8 KB'; {text} MAXIMIZE RESULTS", rows)
    assert 0 < len(small) < exact
    assert len(penstock.evaluate(f"SET penstock.memory = '8 MB'; {text} MAXIMIZE RESULTS", rows)) == exact
    with pytest.raises(PenstockError, match="SET penstock.memory = '256 MB' first"):
        penstock.evaluate(f"{text} MAXIMIZE RESULTS USING AGE", rows)
    with pytest.raises(PenstockError, match="SAMPLE without WITHIN MEMORY needs a memory limit"):
        penstock.evaluate(f"{text} SAMPLE", rows)
    every = penstock.evaluate(f"SET penstock.memory = '8 MB'; {text} SAMPLE", rows)
    assert len(every) == exact and {row["weight"] for *_, row in every} == {1.0}
    some = penstock.evaluate(f"SET penstock.memory = '8 KB'; {text} SAMPLE CLUSTER", rows)
    assert max(row["weight"] for *_, row in some) > 1.0


def test_several_joins_of_a_query_share_its_part() -> None:
    rows = {n: [(t // 4, {"k": t % 7, "n": t}) for t in range(400)] for n in "ABC"}
    finite = read_inputs(rows, {}, TimeDomain("integer", "seconds"))
    text = (
        "SELECT ISTREAM(A.n) FROM A [RANGE 9], B [RANGE 9], C [NOW] WHERE A.k = B.k AND B.k = C.k "
        "MAXIMIZE RESULTS"
    )
    settings = Settings(memory=40_000)
    plan = compile(bind(text, finite.catalog()), 1, settings)
    run = InProcessRun(plan, {})
    for part in finite.slices(3):
        run.step(part)
    ((engine,),) = run.engines
    found = measured(engine.measure()).of(Property.SHARED_MEMORY)
    assert [m.value for m in found] == [40_000, 40_000]
    joins = [e.operator for e in engine.entities if isinstance(e.operator, BudgetedJoin)]
    assert sum(j._policy._rows * j._policy._row_bytes for j in joins) <= 40_000  # type: ignore[attr-defined]
