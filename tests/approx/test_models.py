"""The models of Srivastava and Widom: their worked examples and their formulas against simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from penstock.approx.models.age import AgeCurve
from penstock.approx.models.frequency import Frequencies
from penstock.approx.recall import Join, Side, alloc, proportional

EXAMPLE_3_3 = AgeCurve((1, 1, 2, 1))
EXAMPLE_3_4 = AgeCurve((3, 0, 2))


def run(curve: AgeCurve, cells: int, until: int) -> tuple[list[list[int]], list[int | None], list[float]]:
    """A tuple a time step, the one of least priority discarded: cells, discards and results of each time."""
    kept: list[int] = []
    cells_at, discards, results = [], [], []
    for now in range(1, until + 1):
        kept = [*kept, now]
        gone: int | None = None
        if len(kept) > cells:
            gone = min(kept, key=lambda s: (curve.priorities[now - s], s))
            kept.remove(gone)
        cells_at.append(list(kept))
        discards.append(gone)
        results.append(sum(curve.results[now - s] for s in kept if now - s < curve.window))
    return cells_at, discards, results


def test_example_3_3() -> None:
    assert EXAMPLE_3_3.best_age == 3
    cells, discards, results = run(EXAMPLE_3_3, 1, 7)
    assert cells == [[1], [1], [1], [4], [4], [4], [7]]
    assert discards == [None, 2, 3, 1, 5, 6, 4]
    assert results == [1, 1, 2, 1, 1, 2, 1]
    assert EXAMPLE_3_3.result_rate(1, 1) == pytest.approx(4 / 3)


def test_example_3_3_with_two_cells() -> None:
    cells, discards, _ = run(EXAMPLE_3_3, 2, 7)
    assert cells == [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7]]
    assert discards == [None, None, 3, 1, 2, 6, 4]


def test_example_3_4() -> None:
    assert EXAMPLE_3_4.best_age == 1
    cells, discards, results = run(EXAMPLE_3_4, 2, 7)
    assert cells == [[1], [1, 2], [1, 3], [3, 4], [3, 5], [5, 6], [5, 7]]
    assert discards == [None, None, 2, 1, 4, 3, 6]
    assert results == [3, 3, 5, 3, 5, 3, 5]
    assert EXAMPLE_3_4.cumulative[2] == 3  # what keeping each tuple for two units gives


@pytest.mark.parametrize("memory", [1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (4, 3, 2, 1), (1, 4, 4, 1), (0, 0, 5, 0)])
def test_equation_3_is_what_the_greedy_priorities_give(memory: int, shape: tuple[float, ...]) -> None:
    curve = AgeCurve(tuple(np.repeat(shape, 3).astype(float)))
    _, _, results = run(curve, memory, 3000)
    assert np.mean(results[600:]) == pytest.approx(curve.result_rate(memory, 1), rel=0.02)


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("results", [(1, 1, 2, 1), (3, 0, 2), (1, 2), (0, 3, 1)])
def test_no_way_of_keeping_tuples_gives_more(cells: int, results: tuple[float, ...]) -> None:
    """Against the best of all ways, on curves without minima and the paper's one with."""
    curve, steps = AgeCurve(tuple(map(float, results))), 60
    best: dict[tuple[int, ...], float] = {(): 0.0}
    for _ in range(steps):
        after: dict[tuple[int, ...], float] = {}
        for ages, so_far in best.items():
            for way in combinations((*ages, 0), min(cells, len(ages) + 1)):
                gain = so_far + sum(curve.results[age] for age in way)
                older = tuple(age + 1 for age in way if age + 1 < curve.window)
                after[older] = max(gain, after.get(older, 0.0))
        best = after
    # What a run that ends may gain once, at its end: what the cells hold gives no more than that.
    once = cells * max(results)
    assert sum(run(curve, cells, steps)[2]) >= max(best.values()) - once


def test_theorem_4_3_against_simulation() -> None:
    curve = AgeCurve((1.0, 0.0, 2.0, 1.0))
    rng = np.random.default_rng(7)
    p, tuples = 0.3, 40_000
    coins = rng.random((tuples, 4)) < p
    last = np.where(coins.any(1), 4 - np.argmax(coins[:, ::-1], axis=1), 0)
    ages = np.array([0] + [curve.age_of(i) for i in range(1, 5)])
    assert ages[last].mean() == pytest.approx(curve.sample_memory(p, 1.0), rel=0.02)


def test_theorem_4_2_against_simulation() -> None:
    model = Frequencies({"x": 0.5, "y": 0.5}, {"x": 0.8, "y": 0.2}, rate=1.0, other_rate=1.0, window=50)
    rng = np.random.default_rng(7)
    p, tuples = 0.1, 20_000
    spent = 0.0
    for value in "xy":
        n = round(model.results_of(value))
        coins = rng.random((tuples, n)) < p
        last = np.where(coins.any(1), n - np.argmax(coins[:, ::-1], axis=1), 0)
        spent += 0.5 * (last / n).mean() * model.window
    assert spent == pytest.approx(model.sample_memory(p), rel=0.03)


@pytest.mark.parametrize("margin", [0.2, 1.0])
@pytest.mark.parametrize("results", [0.6, 6.0])
def test_a_uniform_sample_that_waits_for_more_than_is_expected(results: float, margin: float) -> None:
    """Results come by chance, so a tuple waits for some more; both models say what memory that takes."""
    window, p, tuples = 40, 0.1, 20_000
    rng = np.random.default_rng(7)
    most = int(np.ceil(results * (1 + margin) - 1e-9))
    lived = 0.0
    for _ in range(tuples):
        ages = np.sort(rng.random(rng.poisson(results))) * window
        taken = rng.random(most) < p
        last = most - int(np.argmax(taken[::-1])) if taken.any() else 0
        lived += 0.0 if not last else ages[last - 1] if last <= len(ages) else window
    model = Frequencies({"x": 1.0}, {"x": 1.0}, rate=1.0, other_rate=results / window, window=window)
    curve = AgeCurve((results / window,) * window)
    assert model.sample_memory(p, margin) == pytest.approx(lived / tuples, rel=0.1)
    assert curve.sample_memory(p, 1.0, margin) == pytest.approx(lived / tuples, rel=0.1)


def test_prob_keeps_the_values_that_the_other_stream_has_most() -> None:
    model = Frequencies({"x": 0.5, "y": 0.5}, {"x": 0.9, "y": 0.1}, rate=1.0, other_rate=5.0, window=100)
    assert model.recall(50) == pytest.approx(0.9)
    assert model.recall(75) == pytest.approx(0.95)
    assert model.recall(100) == pytest.approx(1.0)
    assert model.recall(0) == 0.0


def side(curve: AgeCurve, rate: float) -> Side:
    return Side(lambda memory: curve.result_rate(memory, rate), rate * curve.window)


INC, DEC = AgeCurve(tuple(k**2 for k in range(1, 21))), AgeCurve(tuple((20 - k) ** 2 for k in range(1, 21)))


def test_the_split_between_windows_is_the_best_there_is() -> None:
    join = Join((side(INC, 2.0), side(DEC, 3.0)))
    in_a, in_b = join.split(40.0)
    assert in_a + in_b == pytest.approx(40)
    tried = (INC.result_rate(m, 2.0) + DEC.result_rate(40 - m, 3.0) for m in np.linspace(0, 40, 97))
    assert INC.result_rate(in_a, 2.0) + DEC.result_rate(in_b, 3.0) >= max(tried) * 0.999


@pytest.mark.parametrize("memory", [10, 40, 80, 120])
def test_alloc_gives_every_join_the_same_recall(memory: float) -> None:
    nothing = Side(lambda _: 0.0, 0.0)
    joins = [Join((side(curve, 3.0), nothing)) for curve in (INC, DEC, INC)]
    given = alloc(joins, memory)
    assert sum(given) == pytest.approx(memory, rel=0.01)
    recalls = [join.recall(m) for join, m in zip(joins, given, strict=True)]
    assert max(recalls) - min(recalls) < 0.01
    others = [j.recall(m) for j, m in zip(joins, proportional([j.need for j in joins], memory), strict=True)]
    assert min(recalls) >= min(others) - 1e-9


def test_a_budget_that_suffices_is_not_used_up() -> None:
    joins = [Join((side(INC, 1.0), side(DEC, 1.0)))]
    assert alloc(joins, 1000)[0] <= 40.0 + 1e-6


def test_weights_are_heeded() -> None:
    nothing = Side(lambda _: 0.0, 0.0)
    joins = [Join((side(DEC, 1.0), nothing), weight) for weight in (1.0, 0.5)]
    first, second = (j.recall(m) for j, m in zip(joins, alloc(joins, 10), strict=True))
    assert first == pytest.approx(2 * second, rel=0.02)
