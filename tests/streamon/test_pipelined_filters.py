"""The executor of pipelined filters: same rows whatever it does, samples, surprises, counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.streamon import kernels
from penstock.streamon.algorithms import ALGORITHMS, ordering
from penstock.streamon.expected import Expected
from penstock.streamon.offline import cost, optimal
from penstock.streamon.pipelined_filters import SLICE, PipelinedFilters
from penstock.streamon.profile_window import alike
from penstock.streamon.thresholds import DEFAULTS, Thresholds
from penstock.workloads.filters import FilterWorkload

UNLIMITED = 1e9
"""Overhead that never keeps from profiling: what is profiled then does not depend on the clock."""


def filters(n: int, algorithm: str = "a-greedy", **thresholds: float) -> PipelinedFilters:
    return PipelinedFilters(n, algorithm, replace(DEFAULTS[algorithm], overhead=UNLIMITED, **thresholds))


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
    assert executor.evaluations + executor.profile_evaluations == sum(rows for _, rows in asked)
    assert executor.tuples == len(passes)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_split_samples_a_share_of_what_is_dropped(share: float) -> None:
    rows = np.arange(100_000)
    passes = np.random.default_rng(3).random(len(rows)) < 0.4
    draw = np.array([0, 12345])
    draw[0] = kernels.gap(draw, share)
    kept, sampled = np.empty_like(rows), np.empty_like(rows)
    k, s = kernels.split(rows, passes, draw, share, kept, sampled)
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
        a.observe(bits[bits.any(axis=1)])
        assert a.view.tolist() == a.matrix_view().tolist()
        assert a.violation() is None
    a.forget()
    assert not a.view.any() and not len(a.window)


def test_after_a_permutation_the_order_is_good_after_a_slice_and_a_burst() -> None:
    w = FilterWorkload(n=8, spread=0.3)
    holds, values = w.holds(), w.tuples(40 * SLICE)
    executor = filters(8)
    executor.run(len(values), evaluating(holds[values]))
    assert executor.surprises == 0
    changed = holds[:, ::-1]
    drops = (~changed).astype(np.uint8)
    best = cost(optimal(drops, w.times), drops, w.times)
    assert cost(executor.order, drops, w.times) > 1.5 * best
    executor.run(SLICE + 300, evaluating(changed[values]))
    assert executor.surprises == 1
    assert cost(executor.order, drops, w.times) < 1.1 * best


def test_expected_is_surprised_by_changes_only() -> None:
    random = np.random.default_rng(0)
    expected = Expected(2, surprise=8.0)
    expected.passing = 0.05
    expected.reorder([500, 450])
    for _ in range(100):
        expected.note(0, 4096, random.binomial(4096, 0.5))
        expected.note(1, 2000, random.binomial(2000, 0.1))
        assert not expected.surprised()
    expected.note(0, 4096, random.binomial(4096, 0.5))
    expected.note(1, 2000, random.binomial(2000, 0.3))
    assert expected.surprised()


def test_expected_judges_few_tuples_together() -> None:
    expected = Expected(1, surprise=8.0)
    expected.passing = 0.1
    expected.reorder([900])
    for passed in [10] * 100 + [90] * 40:
        expected.note(0, 100, passed)
        if expected.surprised():
            assert passed == 90
            return
    pytest.fail("nine tenths where one was expected is a surprise")


def test_times_that_differ_by_little_are_alike() -> None:
    assert alike(np.array([10.0, 100.0, 12.0, 14.0])).tolist() == [12.0, 100.0, 12.0, 12.0]
