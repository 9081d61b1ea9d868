"""Thesis chapter 5: candidates, their trees, shared caches and the best set of them, with its numbers."""

from __future__ import annotations

from itertools import chain, combinations
from math import log
from random import Random

import pytest

from penstock.streamon.cache_selection import (
    Candidate,
    Tree,
    Value,
    Values,
    benefit,
    candidates,
    forest,
    greedy,
    has_prefixes,
    prefix_sets,
    select,
    with_global,
    without_worse,
    worth,
)

ORDERS = {
    1: (2, 3, 4, 5, 6),
    2: (1, 3, 5, 4, 6),
    3: (2, 1, 4, 5, 6),
    4: (5, 1, 2, 3, 6),
    5: (4, 2, 3, 1, 6),
    6: (2, 1, 4, 5, 3),
}
"""Example 5.5.1: the orders of the pipelines of a six-way join on one attribute."""


def zero_based(orders: dict[int, tuple[int, ...]]) -> list[list[int]]:
    return [[j - 1 for j in orders[i]] for i in sorted(orders)]


def named(c: Candidate) -> tuple[int, set[int]]:
    return c.root + 1, {i + 1 for i in c.inputs}


def test_example_5_4_3() -> None:
    """R2, R3 may be cached for R1; R2, R1 not for R3, since R2's pipeline does not begin with R1."""
    orders = zero_based({1: (2, 3), 2: (3, 1), 3: (2, 1)})
    assert has_prefixes(orders, {1, 2})
    assert not has_prefixes(orders, {0, 1})
    assert [named(c) for c in candidates(orders)] == [(1, {2, 3})]


def test_example_5_5_1_candidates() -> None:
    found = candidates(zero_based(ORDERS))
    sets = {frozenset(named(c)[1]) for c in found}
    assert sets == {frozenset(s) for s in ({1, 2}, {4, 5}, {1, 2, 3}, {1, 2, 3, 4, 5})}
    of_4 = [named(c)[1] for c in found if c.root == 3]
    assert sorted(map(len, of_4)) == [2, 3] and {1, 2} in of_4 and {1, 2, 3} in of_4


@pytest.mark.parametrize("seed", range(20))
def test_sets_with_the_prefix_invariant_are_all_found(seed: int) -> None:
    """Definition 5.4.2 for every set of inputs, one after the other."""
    random, count = Random(seed), 5
    near = [sorted(range(count), key=lambda j: (abs(i // 2 - j // 2), random.random())) for i in range(count)]
    orders = [[j for j in order if j != i] for i, order in enumerate(near)]
    sets = chain.from_iterable(combinations(range(count), n) for n in range(2, count + 1))
    assert set(prefix_sets(orders)) == {frozenset(s) for s in sets if has_prefixes(orders, s)}


def test_the_better_of_a_join_and_its_semijoin() -> None:
    whole, half = (Candidate(2, 0, frozenset({0, 1}), key) for key in ("X", "X ⋉ Y"))
    other = Candidate(1, 0, frozenset({0, 2}), "another")
    values = {half: Value(3.0, 2.0), whole: Value(2.5, 1.0), other: Value(0.0, 1.0)}
    assert set(without_worse(values)) == {whole, other}


def shape(trees: list[Tree]) -> list:
    return [(named(t.top)[1], shape(t.below)) for t in trees]


def test_figure_5_8_trees() -> None:
    found = candidates(zero_based(ORDERS))
    assert shape(forest(c for c in found if c.root == 3)) == [({1, 2, 3}, [({1, 2}, [])])]
    of_6 = shape(forest(c for c in found if c.root == 5))
    assert of_6 == [({1, 2, 3, 4, 5}, [({1, 2}, []), ({4, 5}, [])])]


def test_example_5_5_2_sharing() -> None:
    groups: dict[frozenset[int], set[int]] = {}
    for c in candidates(zero_based(ORDERS)):
        root, inputs = named(c)
        groups.setdefault(frozenset(inputs), set()).add(root)
    assert groups[frozenset({1, 2})] == {3, 4, 6}
    assert groups[frozenset({1, 2, 3})] == {4, 5}


def test_caches_with_other_keys_are_not_shared() -> None:
    found = candidates(zero_based(ORDERS), lambda before, *_: min(before))
    alike = [c for c in found if named(c)[1] == {1, 2}]
    assert len({c.group for c in alike}) == 3


def test_example_5_7_1() -> None:
    """R2 ⋈ R3 for R6 has no prefix invariant, with R1 beside it it has."""
    orders = zero_based({**ORDERS, 6: (2, 3, 4, 5, 1)})
    assert not has_prefixes(orders, {1, 2})
    assert has_prefixes(orders, {0, 1, 2})
    found = with_global(orders, quota=100)
    (cached,) = [c for c in found if named(c) == (6, {2, 3})]
    assert cached.beside == {0}


def test_global_candidates_leave_out_one_input_first() -> None:
    orders = zero_based({1: (2, 3, 4), 2: (3, 4, 1), 3: (4, 1, 2), 4: (1, 2, 3)})
    assert candidates(orders) == []
    found = with_global(orders, quota=6)
    assert [len(c.inputs) for c in found] == [3, 3, 3, 3, 2, 2]
    # Nothing but all other inputs completes them.
    assert all(c.beside | c.inputs == {0, 1, 2, 3} for c in found)
    many = zero_based(ORDERS)
    assert with_global(many, quota=3) == candidates(many)


def test_benefit() -> None:
    """5.5.1: 10 tuples at cost 2 make 30 at cost 1, which make 60; a quarter of the look-ups misses."""
    work = 10 * 2 + 30 * 1
    expected = work - 10 * 0.5 - 0.25 * (work + 60 * 0.1)
    assert benefit([10, 30], [2, 1], 60, probe=0.5, update=0.1, miss=0.25) == pytest.approx(expected)


def random_values(seed: int, orders: list[list[int]], shared: bool) -> Values:
    random = Random(seed)
    key = (lambda before, *_: 0) if shared else (lambda before, *_: tuple(sorted(before)))
    costs: dict = {}
    found = {}
    for c in candidates(orders, key):
        # Caches of a group have the same cost.
        cost = costs.setdefault(c.group, random.choice((0.0, 1.0, 4.0, 9.0)))
        found[c] = Value(random.choice((-2.0, 0.5, 3.0, 5.0, 8.0)), cost)
    return found


def nonoverlapping(some: tuple[Candidate, ...]) -> bool:
    return not any(a.overlaps(b) for a, b in combinations(some, 2))


def best_by_trying(values: Values) -> float:
    sets = chain.from_iterable(combinations(values, n) for n in range(len(values) + 1))
    return max(worth(some, values) for some in sets if nonoverlapping(some))


@pytest.mark.parametrize("shared", (False, True))
@pytest.mark.parametrize("seed", range(12))
def test_the_selection_is_the_best_one(seed: int, shared: bool) -> None:
    values = random_values(seed, zero_based(ORDERS), shared)
    chosen = select(values)
    assert nonoverlapping(tuple(chosen))
    assert worth(chosen, values) == pytest.approx(best_by_trying(values))


@pytest.mark.parametrize("seed", range(12))
def test_globally_consistent_caches_are_chosen_by_trying_all(seed: int) -> None:
    """5.7: they may overlap without one containing the other; with a quota all sets are tried."""
    orders = zero_based({1: (2, 3, 4), 2: (3, 4, 1), 3: (4, 1, 2), 4: (1, 2, 3)})
    random = Random(seed)
    found = with_global(orders, quota=10)
    assert any(
        a.overlaps(b) and not (a.inputs < b.inputs or b.inputs < a.inputs) for a in found for b in found
    )
    costs = {group: random.choice((0.0, 1.0, 4.0)) for group in {c.group: 0 for c in found}}
    values = {c: Value(random.choice((-2.0, 0.5, 3.0, 5.0)), costs[c.group]) for c in found}
    chosen = select(values)
    assert nonoverlapping(tuple(chosen))
    assert worth(chosen, values) == pytest.approx(best_by_trying(values))


@pytest.mark.parametrize("seed", range(12))
def test_the_greedy_selection_is_within_its_bound(seed: int) -> None:
    """Theorem 5.5.3 is about the least cost: that of joins without a cache and of the caches."""
    orders = zero_based(ORDERS)
    values = random_values(seed, orders, shared=True)
    # Each join takes 4, so that a cache of k joins takes 4k - benefit, and that is never negative.
    work = 4.0 * sum(map(len, orders))
    chosen = greedy(values)
    assert nonoverlapping(tuple(chosen))
    best = work - best_by_trying(values)
    assert work - worth(chosen, values) <= (1 + log(30)) * best


def test_a_large_shared_group_beats_each_alone() -> None:
    """Three pipelines use R1 ⋈ R2: none alone pays for it, together they do (5.5.4)."""
    found = candidates(zero_based(ORDERS))
    values = {c: Value(0.0, 1.0) for c in found}
    shared = [c for c in found if named(c)[1] == {1, 2}]
    values.update({c: Value(2.0, 5.0) for c in shared})
    assert select(values) == frozenset(shared)
    alone = {c: v for c, v in values.items() if c not in shared[1:]}
    assert select(alone) == frozenset()
