"""Covariance and correlation while pairs come and go: near to what all pairs at once give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.snapshot import decode, encode
from penstock.engine.synopses.accumulators import Accumulator, Segments, accumulator

DOUBLE = pa.float64()


def fresh(function: str) -> Accumulator:
    return accumulator(function, [DOUBLE, DOUBLE], DOUBLE, False)


def change(of: Accumulator, xs: np.ndarray, ys: np.ndarray, sign: int) -> float | None:
    segments = Segments(np.array([0, len(xs)]), np.zeros(1, np.int64), np.full(len(xs), sign, np.int8))
    of.room_for(1)
    return of.update(segments, pa.array(xs), pa.array(ys))[1][0].as_py()


@pytest.mark.parametrize("far", (0.0, 1e9, -3e12))
def test_a_window_that_slides(far: float) -> None:
    random = np.random.default_rng(4)
    xs = far + np.round(random.normal(0, 3, 600), 2)
    ys = 0.5 * (xs - far) + random.normal(0, 1, 600)
    sums = {f: fresh(f) for f in ("covar_pop", "covar_samp", "corr")}
    for start in range(0, 600, 20):
        new, old = slice(start, start + 20), slice(start - 100, start - 80)
        got = {f: change(of, xs[new], ys[new], 1) for f, of in sums.items()}
        if start >= 100:
            got = {f: change(of, xs[old], ys[old], -1) for f, of in sums.items()}
        window = slice(max(start - 80, 0), start + 20)
        exact = (xs[window] - far).astype(np.longdouble), ys[window].astype(np.longdouble)
        pop = float(((exact[0] - exact[0].mean()) * (exact[1] - exact[1].mean())).mean())
        n = len(exact[0])
        assert got["covar_pop"] == pytest.approx(pop, rel=1e-9)
        assert got["covar_samp"] == pytest.approx(pop * n / (n - 1), rel=1e-9)
        assert got["corr"] == pytest.approx(float(np.corrcoef(*exact)[0, 1]), rel=1e-9)


def test_what_is_not_finite_leaves_without_a_trace() -> None:
    of, one, two = fresh("covar_pop"), np.array([1.0, 2.0]), np.array([3.0, 5.0])
    assert change(of, one, two, 1) == 0.5
    strange = np.array([np.inf, 1.0, np.nan]), np.array([1.0, 1e300, 2.0])
    assert np.isnan(change(of, *strange, 1))
    again = fresh("covar_pop")
    again.restore(decode(encode(of)))
    assert change(again, *strange, -1) == 0.5
    assert change(again, one, two, -1) is None


def test_few_pairs() -> None:
    one = np.array([1.0])
    assert [change(fresh(f), one, one, 1) for f in ("covar_pop", "covar_samp", "corr")] == [0.0, None, None]
    assert change(fresh("corr"), np.ones(3), np.arange(3.0), 1) is None
