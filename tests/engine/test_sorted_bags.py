"""Aggregates over sorted bags: sketches are as near as they say, values leave them, and states stay small."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.snapshot import decode, encode
from penstock.engine.synopses.accumulators import Accumulator, Segments, accumulator

DOUBLE, BIGINT = pa.float64(), pa.int64()


def change(of: Accumulator, values: list[pa.Array], sign: int) -> object:
    """One instant at which all values of a group enter or leave; the value after it."""
    length = len(values[0])
    segments = Segments(np.array([0, length]), np.zeros(1, np.int64), np.full(length, sign, np.int8))
    of.room_for(1)
    return of.update(segments, *values)[1][0].as_py()


def numbers(count: int, start: int = 0) -> list[pa.Array]:
    return [pa.array(np.arange(start, start + count))]


@pytest.mark.parametrize("grows", (False, True))
@pytest.mark.parametrize("count", (1, 20, 600, 5_000, 300_000))
def test_distinct_values_are_counted_nearly(count: int, grows: bool) -> None:
    sketch = accumulator("approx_count_distinct", [BIGINT], BIGINT, grows)
    found = change(sketch, numbers(count), 1)
    again = change(sketch, numbers(count), 1)
    assert found == again and abs(found - count) <= max(1, 0.15 * count)
    assert sketch.nbytes() <= 512 * (32 if grows else 32 * 40)


def test_distinct_values_leave_a_sketch() -> None:
    sketch = accumulator("approx_count_distinct", [BIGINT], BIGINT, False)
    few = change(sketch, numbers(100), 1)
    change(sketch, numbers(5_000, 1_000), 1)
    again = accumulator("approx_count_distinct", [BIGINT], BIGINT, False)
    again.restore(decode(encode(sketch)))
    assert change(again, numbers(5_000, 1_000), -1) == few
    assert change(again, numbers(100), -1) == 0 and again.nbytes() == 0


@pytest.mark.parametrize("fraction", (0.0, 0.01, 0.5, 0.999, 1.0))
def test_approximate_percentiles_are_within_their_error(fraction: float) -> None:
    values = np.random.default_rng(1).lognormal(3, 4, 20_000) * np.random.default_rng(2).choice(
        [-1, 1], 20_000
    )
    sketch = accumulator("approx_percentile", [DOUBLE], DOUBLE, False, (fraction, 100))
    exact = accumulator("percentile_disc", [DOUBLE], DOUBLE, False, (fraction,))
    found, expected = (change(of, [pa.array(values)], 1) for of in (sketch, exact))
    assert found == pytest.approx(expected, rel=0.011)
    assert sketch.nbytes() < exact.nbytes() / 4
    assert change(sketch, [pa.array(values)], -1) is None and sketch.nbytes() == 0


def test_special_numbers_in_a_sketch() -> None:
    values = pa.array([float("-inf"), -1e-300, -0.0, 0.0, 1e300, float("inf"), float("nan"), None])
    shown = [
        change(accumulator("approx_percentile", [DOUBLE], DOUBLE, False, (p / 7, 100)), [values], 1)
        for p in range(1, 8)
    ]
    expected = [float("-inf"), -1e-300, 0.0, 0.0, 1e300, float("inf"), float("nan")]
    assert shown == pytest.approx(expected, rel=0.02, nan_ok=True)


@pytest.mark.parametrize("function", ("min_by", "max_by"))
def test_only_the_row_shown_is_kept_where_nothing_leaves(function: str) -> None:
    of = accumulator(function, [BIGINT, BIGINT], BIGINT, True)
    for start in range(0, 1_000, 100):
        value = change(of, [*numbers(100, start), *numbers(100, start)], 1)
    assert value == (0 if function == "min_by" else 999)
    assert of.nbytes() < 100


def test_labels_of_texts_that_left_are_forgotten() -> None:
    of = accumulator("collect_set", [pa.string()], pa.list_(pa.string()), False)
    for start in range(0, 20_000, 2_000):
        texts = [pa.array([f"t{n}" for n in range(start, start + 2_000)])]
        change(of, texts, 1)
        change(of, texts, -1)
    assert of.nbytes() < 64 * 2_100
