"""The thesis's worked examples of chapter 4, with their exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bench.streamon.offline import cost, greedy, matrix_view, optimal
from penstock.streamon.orderings import ordering
from penstock.streamon.settings import Thresholds

# Figure 4.2: what each filter drops of the tuples 1, 2, 4, 5, 7 (it holds the others).
DROPS = {1: {5, 7}, 2: {4, 5}, 3: {2, 4}, 4: {4, 5}}
STREAM = [1, 2, 1, 4, 7, 2, 5, 4]
EAGER = Thresholds(drop_profiling_probability=1.0, profile_window=6, alpha=1.0)


def bits(tuples: list[int], drops: dict[int, set[int]] = DROPS) -> np.ndarray:
    return np.array([[t in drops[f] for f in sorted(drops)] for t in tuples], np.uint8)


def dropped(tuples: list[int]) -> list[int]:
    return [t for t in tuples if bits([t]).any()]


@pytest.mark.parametrize(("order", "probes"), [([1, 2, 3, 4], 20), ([3, 2, 4, 1], 18), ([3, 1, 2, 4], 16)])
def test_example_4_2_1(order: list[int], probes: int) -> None:
    assert cost([f - 1 for f in order], bits(STREAM), np.ones(4)) == probes


def test_example_4_2_1_is_optimal() -> None:
    best = optimal(bits(STREAM), np.ones(4))
    assert cost(best, bits(STREAM), np.ones(4)) == 16


def example_4_3_2() -> object:
    a = ordering("a-greedy", 4, EAGER)
    a.order = [2, 0, 1, 3]
    a.reconsider(bits(dropped(STREAM)))
    return a


def test_example_4_3_1_the_profile_window() -> None:
    a = example_4_3_2()
    assert a.window.tuples().tolist() == [
        [0, 0, 1, 0],
        [0, 1, 1, 1],
        [1, 0, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 0, 1],
        [0, 1, 1, 1],
    ]


def test_example_4_3_2_the_matrix_view() -> None:
    a = example_4_3_2()
    assert a.order == [2, 0, 1, 3]
    assert a.view.tolist() == [[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert a.violation() is None


def test_example_4_3_3_a_violation_at_position_1() -> None:
    a = example_4_3_2()
    now = {f: set(d) for f, d in DROPS.items()}
    now[4] |= {3, 6}
    a.reconsider(bits([3, 6], now))
    assert [f + 1 for f in a.order] == [4, 3, 1, 2]
    assert a.view.tolist() == matrix_view(a).tolist()
    assert a.view[0].tolist() == [4, 2, 2, 2]


@pytest.mark.parametrize("n", [3, 5, 10])
def test_example_4_5_1_independent_against_a_greedy(n: int) -> None:
    low, high = set(range(1, 50)), set(range(50, 101))
    drops = {f: high for f in range(1, n)} | {n: low}
    stream = bits(list(range(1, 101)), drops)
    results = {}
    for name in ("independent", "a-greedy"):
        a = ordering(name, n, Thresholds(drop_profiling_probability=1.0, profile_window=400, alpha=1.0))
        for _ in range(4):
            a.reconsider(stream[np.random.default_rng(0).permutation(100)])
        results[name] = cost(a.order, stream, np.ones(n)) / 100
    assert results["independent"] == pytest.approx(0.49 * n + 0.51)
    assert results["a-greedy"] == pytest.approx(1.49)


def test_example_4_6_1_local_swaps_is_stuck() -> None:
    n, width = 10, 10
    drops = {i: set(range((i - 1) * width, i * width)) for i in range(1, n + 1)}
    drops[n] = set(range(100)) - set(range((n - 2) * width, (n - 1) * width))
    stream = bits(list(range(100)), drops)
    orders = {}
    for name in ("local-swaps", "a-greedy"):
        a = ordering(name, n, Thresholds(drop_profiling_probability=1.0, profile_window=400, alpha=0.9))
        for k in range(4):
            some = stream[np.random.default_rng(k).permutation(100)]
            if name == "a-greedy":
                a.reconsider(some)
            else:
                reconsider_as_profiled(a, some)
        orders[name] = [f + 1 for f in a.order]
    assert orders["local-swaps"][0] != n, "stuck: the last filter is not first"
    assert orders["a-greedy"][:2] == [n, n - 1]


def reconsider_as_profiled(a: object, drops: np.ndarray) -> None:
    """Only the bits that the algorithm wants are known."""
    for tuple_ in drops:
        first = next((p for p, f in enumerate(a.order) if tuple_[f]), a.n)
        if first == a.n:
            continue
        seen = np.zeros_like(tuple_)
        asked = [p for p in range(first + 1, a.n) if a.profiled_from(p) <= first]
        for position in [first, *asked]:
            seen[a.order[position]] = tuple_[a.order[position]]
        a.reconsider(seen[None, :])


def test_greedy_is_within_four_times_the_optimum() -> None:
    rng = np.random.default_rng(7)
    same = 0
    for _ in range(60):
        n = int(rng.integers(2, 6))
        drops = (rng.random((200, n)) < rng.random(n)).astype(np.uint8)
        times = rng.integers(1, 5, n).astype(float)
        best = cost(optimal(drops, times), drops, times)
        found = cost(greedy(drops, times), drops, times)
        assert found <= 4 * best
        same += found <= 1.02 * best
    assert same > 50
