"""The executor of pipelined filters: same rows whatever it does, samples, drift, counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from bench.streamon.offline import cost, matrix_view, optimal
from penstock.streamon import kernels
from penstock.streamon.orderings import ALGORITHMS, ordering
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.profile import DriftDetector, equalized
from penstock.streamon.profiler import Evaluate
from penstock.streamon.settings import DEFAULTS, Thresholds
from penstock.streamon.settings import SLICE_TUPLES as SLICE
from penstock.workloads.filters import FilterWorkload

UNLIMITED = 1e9
"""Overhead that never keeps from profiling: what is profiled then does not depend on the clock."""


def filters(n: int, algorithm: str = "a-greedy", **thresholds: float) -> PipelinedFilters:
    return PipelinedFilters(
        n, algorithm, replace(DEFAULTS[algorithm], overhead_share=UNLIMITED, **thresholds)
    )


def evaluating(passes: np.ndarray, asked: list[tuple[int, int]] | None = None):
    def evaluate(f: int, rows: np.ndarray) -> np.ndarray:
        if asked is not None:
            asked.append((f, len(rows)))
        return passes[rows, f]

    return evaluate


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("rows", [0, 1, 100, 2 * SLICE + 77])
def test_rows_that_pass_are_those_that_every_filter_lets_through(algorithm: str, rows: int) -> None:
    random = np.random.default_rng(rows)
    executor = filters(4, algorithm, drop_profiling_probability=0.2, profile_window=50)
    for _ in range(4):
        passes = random.random((rows, 4)) < random.random(4)
        kept = executor.run(rows, evaluating(passes))
        assert kept.tolist() == np.flatnonzero(passes.all(axis=1)).tolist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_evaluation_is_counted(algorithm: str) -> None:
    w = FilterWorkload(n=5)
    passes = w.holds()[w.tuples(100_000)]
    asked: list[tuple[int, int]] = []
    executor = filters(5, algorithm)
    executor.run(len(passes), evaluating(passes, asked))
    assert executor.evaluations + executor.profiler.evaluations == sum(rows for _, rows in asked)
    assert executor.tuples == len(passes)


def test_the_profile_window_favours_no_position() -> None:
    w = FilterWorkload(n=4, spread=0.3)
    passes = w.holds()[w.tuples(8 * SLICE)]
    executor = filters(4, drop_profiling_probability=0.05, profile_window=300, alpha=0.01)
    executor.run(len(passes), evaluating(passes))
    drops = np.diag(matrix_view(executor.ordering))
    dropped = ~passes[~passes.all(axis=1)][:, executor.order]
    expected = 300 * np.bincount(dropped.argmax(axis=1), minlength=4) / len(dropped)
    assert len(executor.ordering.window) == 300
    assert (np.abs(drops - expected) < 5 * np.sqrt(expected)).all()


class Kept:
    """Rows that outlive their run, and how many were there when they were asked for."""

    def __init__(self, passes: np.ndarray, joined: list[int]) -> None:
        self._passes, self._joined = passes, joined

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self._passes[rows]

    def joined(self, parts: list[np.ndarray]) -> Evaluate:
        whole = np.concatenate(parts)
        self._joined.append(len(whole))
        return evaluating(whole)


@pytest.mark.parametrize("algorithm", ["a-greedy", "sweep", "independent", "local-swaps"])
def test_few_samples_wait_for_those_of_the_next_runs(algorithm: str) -> None:
    random = np.random.default_rng(8)
    executor = filters(3, algorithm, drop_profiling_probability=0.1)
    joined: list[int] = []
    for _ in range(80):
        # The first two filters drop the same, the last one drops others.
        first, last = random.random(200) < 0.5, random.random(200) < 0.5
        passes = np.column_stack([~first, ~first, ~last | first])
        kept = executor.run(200, evaluating(passes), keep=Kept(passes, joined))
        assert kept.tolist() == np.flatnonzero(passes.all(axis=1)).tolist()
        seen = {tuple(bits) for bits in executor.ordering.window.tuples().tolist()}
        assert (1, 0, 1) not in seen and (0, 1, 1) not in seen
    least = executor.thresholds.profile_window // 4
    assert len(joined) > 2 and min(joined) >= least
    assert executor.profiled == sum(joined)


def test_a_run_that_fails_leaves_no_samples() -> None:
    executor = filters(2, drop_profiling_probability=1.0)
    passes = np.zeros((SLICE, 2), bool)
    passes[::2] = True

    def failing(f: int, rows: np.ndarray) -> np.ndarray:
        if executor.profiler.waiting:
            raise ValueError
        return passes[rows, f]

    executor.run(SLICE, evaluating(passes), keep=Kept(passes, []))
    with pytest.raises(ValueError):
        executor.run(SLICE, failing, keep=Kept(passes, []))
    few = np.array([[True, False], [True, True]])
    assert executor.run(2, evaluating(few), keep=Kept(few, [])).tolist() == [1]
    assert executor.profiler.waiting == 1


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_split_samples_a_share_of_what_is_dropped(share: float) -> None:
    rows = np.arange(100_000)
    passes = np.random.default_rng(3).random(len(rows)) < 0.4
    draw = np.array([0, 12345, 0])
    scale = kernels.gap_scale(share)
    draw[0] = kernels.gap(draw, scale)
    kept, samples = np.empty_like(rows), np.empty((len(rows), 2), np.int64)
    k = kernels.split(rows, passes, 3, draw, scale, kept, samples)
    s = draw[2]
    sampled = samples[:, 0]
    assert (samples[:s, 1] == 3).all()
    assert kept[:k].tolist() == rows[passes].tolist()
    assert not passes[sampled[:s]].any()
    assert len(set(sampled[:s].tolist())) == s
    dropped = len(rows) - k
    assert abs(s - share * dropped) <= 5 * np.sqrt(share * (1 - share) * dropped)


def test_the_view_kept_by_increments_is_the_recounted_one() -> None:
    random = np.random.default_rng(5)
    a = ordering("a-greedy", 6, Thresholds(profile_window=40))
    for _ in range(200):
        bits = (random.random((int(random.integers(1, 60)), 6)) < random.random(6)).astype(np.uint8)
        a.reconsider(bits[bits.any(axis=1)])
        assert a.view.tolist() == matrix_view(a).tolist()
        assert a.violation() is None
    a.reset()
    assert not a.view.any() and not len(a.window)


def test_after_a_permutation_the_order_is_good_within_a_slice() -> None:
    w = FilterWorkload(n=8, spread=0.3)
    holds, values = w.holds(), w.tuples(40 * SLICE)
    executor = filters(8)
    executor.run(len(values), evaluating(holds[values]))
    assert executor.drifts == 0
    changed = holds[:, ::-1]
    drops = (~changed).astype(np.uint8)
    best = cost(optimal(drops, w.times), drops, w.times)
    assert cost(executor.order, drops, w.times) > 1.5 * best
    executor.run(SLICE, evaluating(changed[values]))
    assert executor.drifts == 1
    assert cost(executor.order, drops, w.times) < 1.1 * best


def dropping(*counts: int) -> np.ndarray:
    """So many profile tuples that each filter alone drops."""
    return np.repeat(np.eye(len(counts), dtype=np.uint8), counts, axis=0)


def test_drift_is_a_change_of_selectivity_only() -> None:
    random = np.random.default_rng(0)
    detector = DriftDetector(2, std_errors=8.0)
    detector.passing = 0.05
    detector.reorder([1, 0], dropping(450, 500))
    for _ in range(100):
        assert not detector.add(0, 4096, random.binomial(4096, 0.5))
        assert not detector.add(1, 2000, random.binomial(2000, 0.1))
    assert not detector.add(0, 4096, random.binomial(4096, 0.5))
    assert detector.add(1, 2000, random.binomial(2000, 0.3))


def test_slow_changes_are_drift_too() -> None:
    """From step to step too little to be seen, since the order was chosen a lot."""
    detector = DriftDetector(1, std_errors=8.0)
    detector.passing = 0.02
    detector.reorder([0], dropping(128))
    drifted = [detector.add(0, 500, 500 * percent // 100) for percent in range(2, 40)]
    assert not any(drifted[:8])
    assert any(drifted[8:25])


def test_drift_detection_judges_few_tuples_together() -> None:
    detector = DriftDetector(1, std_errors=8.0)
    detector.passing = 0.1
    detector.reorder([0], dropping(900))
    assert not any(detector.add(0, 100, 10) for _ in range(100))
    assert any(detector.add(0, 100, 90) for _ in range(40))


def test_times_that_differ_by_little_are_made_equal() -> None:
    assert equalized(np.array([10.0, 100.0, 12.0, 14.0])).tolist() == [12.0, 100.0, 12.0, 12.0]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_optimum_is_the_best_of_all_orders(n: int) -> None:
    random = np.random.default_rng(n)
    for _ in range(20):
        drops = (random.random((60, n)) < random.random(n)).astype(np.uint8)
        times = random.integers(1, 20, n).astype(float)
        best = min(cost(order, drops, times) for order in permutations(range(n)))
        assert cost(optimal(drops, times), drops, times) == best
