"""Shares: the cubes that the load asks for, and no cell more than there are partitions."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan.distribution import Dimension
from penstock.plan.hypercube import Candidate, Cube, choose_shares

R, S, T = range(3)


def by(*streams: int) -> Candidate:
    """A dimension that splits these streams."""
    return Candidate(Dimension.of({n: None for n in streams}), frozenset(), 1)


def load(candidates: list[Candidate], shares: tuple[int, ...], rates: dict[int, float]) -> float:
    """What the definition says that a partition receives."""
    pairs = list(zip(candidates, shares, strict=True))
    return sum(
        rate / prod(share for c, share in pairs if n in c.dimension.streams) for n, rate in rates.items()
    )


def shares_of(cube: Cube, candidates: list[Candidate]) -> tuple[int, ...]:
    chosen = dict(zip(cube.dimensions, cube.shares, strict=True))
    return tuple(chosen.get(c, 1) for c in candidates)


@pytest.mark.parametrize(
    ("rates", "partitions", "shares"),
    [
        ((1, 1, 1), 4, (2, 2)),
        ((1, 1, 1), 64, (8, 8)),
        ((4, 1, 1), 16, (8, 2)),  # R is only in the first dimension, and has most rows
        ((1, 1, 100), 16, (1, 16)),
        ((1, 1, 1), 7, (3, 2)),  # a prime: six cells are better than seven in a row
        ((1, 100, 1), 6, (3, 2)),
    ],
)
def test_chain(rates: tuple[float, ...], partitions: int, shares: tuple[int, ...]) -> None:
    """R.a = S.a AND S.b = T.b."""
    dimensions = [by(R, S), by(S, T)]
    cube = choose_shares(dimensions, dict(enumerate(rates)), partitions, 1)
    assert shares_of(cube, dimensions) == shares


def test_triangle() -> None:
    """The textbook's: P = n³ cells, n to each attribute."""
    dimensions = [by(R, S), by(S, T), by(T, R)]
    cube = choose_shares(dimensions, dict.fromkeys((R, S, T), 1.0), 64, 1)
    assert shares_of(cube, dimensions) == (4, 4, 4)
    assert sum(c.part(R, s) for c, s in zip(cube.dimensions, cube.shares, strict=True)) == 1.5


def test_a_common_key_is_best_of_all() -> None:
    dimensions = [by(R, S), by(R, S, T), by(T)]
    cube = choose_shares(dimensions, dict.fromkeys((R, S, T), 1.0), 12, 1)
    assert shares_of(cube, dimensions) == (1, 12, 1)


def test_small_streams_are_broadcast() -> None:
    cube = choose_shares([by(R), by(S)], {R: 1000.0, S: 1.0}, 8, 1)
    assert shares_of(cube, [by(R), by(S)]) == (8, 1)


def test_heavy_keys_are_worth_a_copy_of_the_other_side() -> None:
    keys = Dimension.of({R: (), S: ()})
    plain = Candidate(keys, frozenset(), 1, frozenset({R}))
    split = Candidate(Dimension(keys.keys, ((R, (5,)),)), frozenset(), 1, frozenset({R}))
    assert plain.part(R, 4) == 0.8 + 0.05
    assert split.part(R, 4) == 0.25
    assert choose_shares([plain, split], {R: 1.0, S: 1.0}, 4, 1).dimensions == (split,)


@given(st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=1, max_size=3), st.integers(2, 12))
def test_no_other_shares_are_better(streams: list[set[int]], partitions: int) -> None:
    candidates = list(dict.fromkeys(by(*s) for s in streams))
    rates = {R: 1.0, S: 3.0, T: 2.0}
    best = load(candidates, shares_of(choose_shares(candidates, rates, partitions, 1), candidates), rates)

    def all_shares(dimensions: int, product: int) -> list[tuple[int, ...]]:
        if not dimensions:
            return [()]
        return [
            (s, *rest) for s in range(1, product + 1) for rest in all_shares(dimensions - 1, product // s)
        ]

    others = [s for s in all_shares(len(candidates), partitions) if prod(s) > 1]
    assert best <= min(load(candidates, s, rates) for s in others) + 1e-6
