"""What holds for every order that an algorithm keeps, on random streams; recounted by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from bench.streamon.offline import cost, matrix_view, optimal
from penstock.streamon import kernels
from penstock.streamon.orderings import Ordering, Steadiness, ordering
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.settings import Thresholds


def random_profile(rng: np.random.Generator, n: int, count: int, weights: bool = False) -> np.ndarray:
    """Dropped tuples of correlated filters."""
    base = rng.random((count, 1)) < rng.random()
    bits = np.where(rng.random((count, n)) < rng.random(n), rng.random((count, n)) < rng.random(n), base)
    bits = bits[bits.any(axis=1)].astype(np.uint8)
    return bits * np.where(rng.random(n) < 0.3, 4, 1).astype(np.uint8) if weights else bits


def greedy_invariant(a: Ordering) -> bool:
    """V[i, i] / t(i) >= alpha V[i, j] / t(j) for all i <= j, counted from the window as it is."""
    bits, times = a.window.tuples().astype(np.int64), a.window.times()
    for i, here in enumerate(a.order):
        left = bits[(bits[:, a.order[:i]] == 0).all(axis=1)]
        for there in a.order[i:]:
            if left[:, here].sum() / times[here] < a.thresholds.alpha * left[:, there].sum() / times[there]:
                return False
    return True


def independent_invariant(a: Ordering) -> bool:
    ratios = a.window.tuples().sum(axis=0, dtype=np.int64) / a.window.times()
    pairs = zip(a.order, a.order[1:], strict=False)
    return all(ratios[x] >= a.thresholds.alpha * ratios[y] for x, y in pairs)


def neighbours_invariant(a: Ordering) -> bool:
    """LocalSwaps: of two neighbours the first drops more for its time.

    A swap makes the window empty, and it is judged when a quarter of it is there.
    """
    bits, times = a.window.tuples()[:, a.order], a.window.times()[a.order]
    if len(bits) < len(a.window.bits) // 4:
        return True
    for i in range(a.n - 1):
        left = bits[~bits[:, :i].any(axis=1)]
        here = left[:, i].sum() / times[i]
        there = (left[left[:, : i + 2].any(axis=1), i + 1]).sum() / times[i + 1]
        if here < a.thresholds.alpha * there:
            return False
    return True


def sweep_invariant(a: Ordering) -> bool:
    """Definition 4.4.1: V[i, i] / t(i) >= alpha V[i, j] / t(j) for all i < j, of the profiled j alone.

    A move ends a stage and makes the window empty; what a tenth of a stage shows is judged.
    """
    view, times, j = matrix_view(a), a.window.times()[a.order], a.profiled
    if len(a.window) < max(8, a.thresholds.sweep_stage // 10):
        return True
    return all(view[i, i] / times[i] >= a.thresholds.alpha * view[i, j] / times[j] for i in range(j))


INVARIANTS = {
    "a-greedy": greedy_invariant,
    "sweep": sweep_invariant,
    "independent": independent_invariant,
    "local-swaps": neighbours_invariant,
}


@pytest.mark.parametrize("name", INVARIANTS)
@pytest.mark.parametrize("seed", range(8))
def test_the_invariant_holds_after_every_update(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    size, alpha = int(rng.choice([7, 50, 300])), rng.choice([0.7, 1])
    a = ordering(name, n, Thresholds(profile_window=size, alpha=alpha, sweep_stage=80))
    for _ in range(40):
        if rng.random() < 0.2:
            a.window.add_times(rng.integers(1, 30, n) * 1e-7)
            # New times may leave an order behind; the next profile tuples put it right.
        profile = random_profile(rng, n, int(rng.integers(1, 60)), weights=name == "a-greedy")
        known = tuple(rng.permutation(n).tolist()) if rng.random() < 0.3 else None
        a.reconsider(profile, lambda known=known: known)
        assert sorted(a.order) == list(range(n))
        assert INVARIANTS[name](a), a.order


def swept(a: Ordering, drops: np.ndarray) -> np.ndarray:
    """What the profiler sees of dropped tuples; for Sweep the filters up to the drop, and one more."""
    ordered = drops[:, a.order]
    seen = np.argmax(ordered, axis=1)[:, None] >= [a.profiled_from(position) for position in range(a.n)]
    found = np.zeros_like(drops)
    found[:, a.order] = ordered * seen
    return found


@pytest.mark.parametrize("seed", range(12))
def test_sweep_moves_one_filter_a_stage_and_converges_to_the_greedy_invariant(seed: int) -> None:
    """Thesis 4.4.1. A rotation of the stages puts the best of what is left into the first place of it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    drops = random_profile(rng, n, 400)
    thresholds = Thresholds(profile_window=400, alpha=1.0, sweep_stage=len(drops))
    a, everything = ordering("sweep", n, thresholds), ordering("static", n, thresholds)
    for each in (a, everything):
        each.window.add_times(np.random.default_rng(seed).integers(1, 30, n) * 1e-7)
    everything.window.insert(drops)
    for stage in range((n - 1) ** 2):
        everything.order, j = list(a.order), stage % (n - 1) + 1
        assert (a.profiled, len(a.window)) == (j, 0), "stages take turns, each with an empty window"
        ratios = matrix_view(everything) / a.window.times()[a.order]
        expected = list(a.order)
        expected.insert(next((i for i in range(j) if ratios[i, i] < ratios[i, j]), j), expected.pop(j))
        a.reconsider(swept(a, drops))
        assert a.order == expected
    everything.order = a.order
    assert greedy_invariant(everything)


@pytest.mark.parametrize("seed", range(8))
def test_the_matrix_view_is_what_a_recount_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = ordering("a-greedy", 5, Thresholds(profile_window=40))
    for _ in range(60):
        a.reconsider(random_profile(rng, 5, int(rng.integers(1, 90)), weights=True))
        assert a.view.tolist() == matrix_view(a).tolist()


@pytest.mark.parametrize("size", [7, 40, 300])
def test_many_at_once_are_as_good_as_one_by_one(size: int) -> None:
    """Window and view are the same; an alpha of 0 leaves the order alone meanwhile."""
    rng = np.random.default_rng(size)
    thresholds = Thresholds(profile_window=size, alpha=0.0)
    at_once, singly = ordering("a-greedy", 4, thresholds), ordering("a-greedy", 4, thresholds)
    for _ in range(30):
        profile = random_profile(rng, 4, int(rng.integers(1, 90)), weights=True)
        at_once.reconsider(profile)
        for one in profile:
            singly.reconsider(one[None, :])
        assert at_once.view.tolist() == singly.view.tolist()
        assert at_once.order == singly.order
        assert sorted(at_once.window.tuples().tolist()) == sorted(singly.window.tuples().tolist())


def test_profile_tuples_of_a_position_are_spread() -> None:
    for tuples in (1, 2, 10, 999, 1000, 1024):
        drops, stops = np.zeros((3, tuples), np.uint8), np.array([0, tuples // 2, tuples, tuples])
        drops[2] = np.arange(tuples) % 251
        profile = np.empty((tuples, 3), np.uint8)
        kernels.profile_tuples(drops, np.array([1, 0, 2]), stops, 1, profile)
        drops[1, : tuples // 2], drops[0, tuples // 2 :] = 1, 1
        assert sorted(profile.tolist()) == sorted(drops.T.tolist())
        half = profile[: tuples // 2, 0].sum()
        assert abs(half - tuples / 4) < 3 + tuples / 80


def test_a_plan_from_the_log_is_taken_if_a_search_would_find_nothing_better() -> None:
    rng = np.random.default_rng(3)
    profile = (rng.random((400, 3)) < [0.2, 0.5, 0.9]).astype(np.uint8)
    for known, corrections in (((2, 1, 0), 0), ((1, 2, 0), 1)):
        a = ordering("a-greedy", 3, Thresholds())
        assert a.reconsider(profile[profile.any(axis=1)], lambda known=known: known)
        assert a.order == [2, 1, 0]
        assert a.corrections == corrections
        assert a.view.tolist() == matrix_view(a).tolist()


def test_the_cost_is_near_the_optimum() -> None:
    rng = np.random.default_rng(11)
    best = 0
    for _ in range(80):
        n, alpha = int(rng.integers(2, 7)), float(rng.choice([0.8, 0.9, 1.0]))
        drops = random_profile(rng, n, 400)
        if not len(drops):
            continue
        a = ordering("a-greedy", n, Thresholds(profile_window=1000, alpha=alpha))
        a.window.add_times(rng.integers(1, 30, n) * 1e-7)
        for part in np.array_split(drops, 5):
            a.reconsider(part)
        times = a.window.times()
        ratio = cost(a.order, drops, times) / cost(optimal(drops, times), drops, times)
        assert ratio <= 4 / alpha
        best += ratio < 1.05
    assert best >= 72


def test_a_plan_seen_before_is_recalled() -> None:
    """Two kinds of streams in turn: from the second time on each has its plan from the log."""
    # Filters that take as long as each other, however they are timed.
    filters = PipelinedFilters(
        3, thresholds=Thresholds(overhead_share=1e9, profiling_budget_s=1e9, tuple_overhead_s=1.0)
    )
    rng = np.random.default_rng(5)
    for turn in range(6):
        drops = np.array([0.9, 0.5, 0.1] if turn % 2 else [0.1, 0.5, 0.9])
        passes = rng.random((100_000, 3)) >= drops
        filters.run(len(passes), lambda f, rows, passes=passes: passes[rows, f])
        assert filters.order == ([0, 1, 2] if turn % 2 else [2, 1, 0])
    assert filters.drifts >= 5
    assert filters.log.recalled >= 3


def test_the_log_is_bounded_and_finds_the_nearest() -> None:
    log = PlanLog[tuple[int, ...]](3, distance=0.1)
    for k in range(5):
        log.add(k, np.array([k / 5, 0.5]), (k % 2, 1 - k % 2))
    assert [d.time for d in log.last(9)] == [2, 3, 4]
    assert log.recall(np.array([0.63, 0.5])) == (1, 0)
    assert log.recall(np.array([0.0, 0.5])) is None


def test_what_never_moved_is_steady_and_costs_less_to_profile() -> None:
    steadiness = Steadiness(4, negligible_gain=0.01)
    for k in range(5):
        steadiness.add([0, 1, 2, 3] if k % 2 else [1, 0, 2, 3], gain=0.1)
    assert steadiness.filters == {2, 3}
    steadiness.add([0, 2, 1, 3], gain=0.1)
    assert steadiness.filters == {3}
    steadiness.add([3, 0, 2, 1], gain=0.001)
    assert steadiness.filters == {3}, "what saves nothing is chance"
    steadiness.reset()
    assert not steadiness.filters


def steady_run(after: int, moves: bool) -> PipelinedFilters:
    """Twice the same tuples; the second time all filters are steady, or all but two that changed places."""
    passes = np.random.default_rng(2).random((1 << 16, 3)) >= np.array([0.7, 0.4, 0.3])
    thresholds = Thresholds(
        0.2, overhead_share=1e9, profiling_budget_s=1e9, steady_after=after, profile_window=20_000
    )
    filters = PipelinedFilters(3, thresholds=thresholds)
    filters.run(len(passes), lambda f, rows: passes[rows, f])
    for _ in range(after):
        filters.ordering.steadiness.add([0, 1, 2], 0.0)
    if moves:
        filters.ordering.steadiness.add([1, 0, 2], 0.5)
    filters.run(len(passes), lambda f, rows: passes[rows, f])
    return filters


def test_statistics_of_a_steady_filter_are_the_same_on_average() -> None:
    plain, weighted = (steady_run(after, moves=True) for after in (0, 5))
    shares = [each.ordering.window.tuples().mean(axis=0) for each in (plain, weighted)]
    assert np.allclose(*shares, atol=0.03)
    assert weighted.profiled > 0.9 * plain.profiled
    assert weighted.profiler.evaluations < 0.85 * plain.profiler.evaluations


def test_where_all_are_steady_fewer_tuples_are_profiled() -> None:
    plain, fewer = (steady_run(after, moves=False) for after in (0, 5))
    assert 0.5 * plain.profiled < fewer.profiled < 0.7 * plain.profiled
