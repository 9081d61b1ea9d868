"""Bursts: an order at once, from few tuples, for filters that take as long as each other or not."""

from __future__ import annotations

import numpy as np
import pytest

from bench.streamon.offline import cost, matrix_view, optimal
from penstock.streamon.orderings import AGreedy
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.profile import Burst, cost_classes
from penstock.streamon.settings import EXPENSIVE_RATIO, Thresholds
from penstock.streamon.settings import SLICE_TUPLES as SLICE

TIMES = np.array([1.0, 30.0, 1.2, 25.0, 200.0])


def drops_of(rng: np.random.Generator, rows: int, shares: list[float]) -> np.ndarray:
    return rng.random((rows, len(shares))) < shares


def test_filters_are_in_classes_by_what_they_take() -> None:
    assert cost_classes(TIMES, 3.0) == [[0, 2], [3, 1], [4]]
    assert cost_classes(np.ones(3), 3.0) == [[0, 1, 2]]


def test_tuples_weigh_what_they_stand_for() -> None:
    """Of 10,000 tuples few get to the expensive filter; a burst says of it what all tuples would."""
    rng = np.random.default_rng(1)
    drops = drops_of(rng, 10_000, [0.8, 0.6, 0.3])
    burst = Burst(3, np.array([1.0, 1.0, 9.0]), 700)
    burst.add([0, 1], ~drops[:500, :2].T, 10_000 / 500)
    left = drops[~drops[:, :2].any(axis=1)]
    order, passing = burst.add([2], ~left[:200, 2:].T, len(left) / 200)
    profile, weight = burst.weighted()
    assert weight == profile.max() == round(20 / (len(left) / 200))
    seen = profile.sum(axis=0) / (500 * weight)
    assert seen[:2] == pytest.approx([0.8, 0.6], abs=0.06)
    assert seen[2] == pytest.approx(0.3 * 0.2 * 0.4, abs=0.01)
    assert burst.passing == pytest.approx(0.2 * 0.4 * 0.7, abs=0.02)
    assert order == [2]
    assert passing.tolist() == (~left[:200, 2]).tolist()


def test_a_cheap_filter_that_dropped_nothing_new_comes_before_a_dear_one() -> None:
    times = np.array([1.0, 200.0, 1.0])
    drops = drops_of(np.random.default_rng(1), 256, [0.6, 0.5])
    burst = Burst(3, times, 320)
    order, _ = burst.add([2, 0], ~np.array([drops[:, 0] & drops[:, 1], drops[:, 0]]), 32.0)
    assert order == [0, 2]
    burst.add([1], ~drops[:64, 1:].T, 20.0)
    a = AGreedy(3, Thresholds())
    a.window.add_times(times)
    a.reconsider(burst.weighted()[0])
    assert a.order == [0, 2, 1]


class Timed(PipelinedFilters):
    """Knows what its filters take, whatever the clock says."""

    def __init__(self, times: np.ndarray, drift_sample: int = Thresholds.drift_sample) -> None:
        thresholds = Thresholds(overhead_share=1e9, drift_sample=drift_sample)
        super().__init__(len(times), thresholds=thresholds)
        self.profiler.timer._calls = [0.0] * len(times)
        self.ordering.window.add_times(times)
        self.profiler.timer.classes = cost_classes(times, EXPENSIVE_RATIO)
        self.profiler.timer._next = 1 << 40

    def passing(self, drops: np.ndarray) -> list[int]:
        return self.run(len(drops), lambda f, rows: ~drops[rows, f]).tolist()


@pytest.mark.parametrize("times", [np.ones(5), TIMES])
def test_after_a_change_the_order_is_good_also_among_expensive_filters(times: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    filters = Timed(times)
    for shares in ([0.9, 0.2, 0.3, 0.8, 0.5], [0.3, 0.9, 0.2, 0.2, 0.6], [0.7, 0.2, 0.8, 0.9, 0.3]) * 2:
        drops = drops_of(rng, 5 * SLICE, shares)
        assert filters.passing(drops) == np.flatnonzero(~drops.any(axis=1)).tolist()
        bits = drops.astype(np.uint8)
        assert cost(filters.order, bits, times) < 1.1 * cost(optimal(bits, times), bits, times)
        assert filters.ordering.view.tolist() == matrix_view(filters.ordering).tolist()
        # All tuples of a burst that only cheap filters drop, and all that are profiled next, weigh the same.
        window = filters.ordering.window.tuples()
        assert len(np.unique(window[window[:, 0] > 0, 0])) == 1
    assert filters.drifts == 5


def evaluations_of(after: np.ndarray, before: np.ndarray, drift_sample: int) -> int:
    """Filters evaluated on tuples that come after others of another stream, or turn into one."""
    filters = Timed(np.ones(2), drift_sample)
    filters.passing(before)
    was = filters.evaluations
    assert filters.passing(after) == np.flatnonzero(~after.any(axis=1)).tolist()
    assert filters.drifts == 1
    return filters.evaluations - was


def test_the_first_rows_of_a_run_show_a_change_before_a_slice_is_processed() -> None:
    before, after = (
        drops_of(np.random.default_rng(4), 5 * SLICE, shares) for shares in ([0.9, 0.1], [0.1, 0.9])
    )
    with_sample, without = (evaluations_of(after, before, drift_sample) for drift_sample in (256, 0))
    assert with_sample < without - SLICE / 2


def test_a_change_within_a_slice_is_seen_at_its_end() -> None:
    """Of the slice as a whole it is too little to be noticed."""
    rng = np.random.default_rng(6)
    before = drops_of(rng, 5 * SLICE, [0.9, 0.5])
    still = drops_of(rng, SLICE + SLICE * 19 // 20, [0.9, 0.5])
    turning = np.concatenate((still, drops_of(rng, SLICE + SLICE // 20, [0.1, 0.5])))
    with_sample, without = (evaluations_of(turning, before, drift_sample) for drift_sample in (128, 0))
    assert with_sample < without - SLICE / 4
