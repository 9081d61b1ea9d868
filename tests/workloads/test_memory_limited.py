"""Streams for joins in little memory: they have the ages and frequencies that they say."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.workloads.memory_limited import (
    RESULTS,
    SECOND,
    WAN_MATCH,
    Streams,
    by_age,
    by_value,
    correlated,
    curve,
    results_of,
    wan,
)


def ages(streams: Streams) -> np.ndarray:
    one, two = streams
    return two.ts - one.ts[two.key]


@pytest.mark.parametrize("shape", ["INC", "DEC", "BELL"])
def test_results_come_at_the_ages_that_the_curve_says(shape: str) -> None:
    wanted = curve(shape)
    found = np.histogram(ages(by_age(wanted, 100, 5, 2_000)), bins=20, range=(0, 100 * SECOND))[0]
    assert np.abs(found / found.sum() - wanted / RESULTS).max() < 0.01


def test_the_trace_peaks_at_63_seconds() -> None:
    _, two = streams = wan(300)
    delays = two.ts - two.key + 60 * SECOND
    counts, edges = np.histogram(delays, bins=120, range=(60 * SECOND, 72 * SECOND))
    assert abs(edges[np.argmax(np.convolve(counts, np.ones(5), "same"))] / SECOND - 63) < 1
    inner = (two.key > 61 * SECOND) & (two.key < 200 * SECOND)
    assert set(results_of(streams, 120, WAN_MATCH)[inner]) == {11}


def test_values_have_their_parts_of_the_streams() -> None:
    for case in ("DC", "IC"):
        parts = correlated(case, 1.0)
        one, two = by_value(parts, (10, 20), 500)
        assert np.bincount(one.key) == pytest.approx(parts[0] * len(one.key), abs=1)
        assert np.bincount(two.key) == pytest.approx(parts[1] * len(two.key), abs=1)
        assert (np.diff(parts[0]) * np.diff(parts[1]) > 0).all() == (case == "DC")


def test_results_are_counted_as_a_window_gives_them() -> None:
    one, two = streams = by_value(correlated("UC", 1.0), (2, 3), 60)
    pairs = (
        (one.key[:, None] == two.key)
        & (one.ts[:, None] <= two.ts)
        & (one.ts[:, None] >= two.ts - 10 * SECOND)
    )
    assert (results_of(streams, 10) == pairs.sum(axis=0)).all()


def test_same_seed_same_streams() -> None:
    for one, other in zip(wan(10, seed=3), wan(10, seed=3), strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))
