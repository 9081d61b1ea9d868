"""The filter workload of thesis 4.7: its selectivities and correlations are those asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.workloads.filters import AGREEMENT, FilterWorkload, permutations


@pytest.mark.parametrize("selectivity", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("factor", [1, 2, 3, 8])
def test_selectivities_and_correlation(selectivity: float, factor: int) -> None:
    w = FilterWorkload(n=8, correlation_factor=factor, selectivity=selectivity, entries=100_000)
    holds = w.holds()
    assert holds.shape == (w.domain, 8)
    assert np.abs(holds.mean(axis=0) - selectivity).max() < 0.01
    alone = selectivity**2 + (1 - selectivity) ** 2
    for i in range(8):
        for j in range(i):
            agree = (holds[:, i] == holds[:, j]).mean()
            assert abs(agree - (AGREEMENT if w.groups[i] == w.groups[j] else alone)) < 0.01


def test_groups_are_spread_around_the_mean() -> None:
    w = FilterWorkload(n=6, correlation_factor=2, spread=0.2)
    assert w.selectivities.round(9).tolist() == [0.3, 0.3, 0.5, 0.5, 0.7, 0.7]
    assert abs(w.holds().sum(axis=0).mean() - w.entries) < 300


def test_the_same_seed_the_same_stream() -> None:
    w = FilterWorkload(n=3)
    assert (w.tuples(1000, 1) == w.tuples(1000, 1)).all()
    assert (w.tuples(1000, 1) != w.tuples(1000, 2)).any()
    assert (w.holds() != replace(w, seed=2).holds()).any()
    assert w.tuples(1000).max() < w.domain


def test_the_first_phase_is_as_written() -> None:
    first, *others = permutations(4, 5, seed=1)
    assert first.tolist() == [0, 1, 2, 3]
    assert len(others) == 4 and all(sorted(p.tolist()) == [0, 1, 2, 3] for p in others)
