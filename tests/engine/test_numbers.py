"""Aggregates of numbers that are large, far apart, infinite or at the limits of their type."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.engine.synopses.accumulators import accumulator
from penstock.engine.synopses.accumulators.base import Segments
from penstock.engine.synopses.accumulators.doubles import DOUBLES
from penstock.errors import DataError


def last_values(query: str, values: list[Any], schema: str, partitions: int = 1) -> list[tuple[Any, ...]]:
    """The result at each instant; a row at every second."""
    rows = [(ts, {"k": ts % 5, "v": v}) for ts, v in enumerate(values)]
    schemas = {"S": f"k INT, v {schema}"}
    found = penstock.evaluate(query, {"S": rows}, schemas, until=len(rows) - 1, partitions=partitions)
    now: dict[int, tuple[Any, ...]] = {ts: tuple(row.values()) for ts, op, row in found if op == "+"}
    shown: list[tuple[Any, ...]] = []
    for ts in range(len(rows)):
        shown.append(now.get(ts, shown[-1] if shown else ()))
    return shown


def windows(values: list[Any], size: int) -> Iterator[list[Any]]:
    return (values[max(0, end - size) : end] for end in range(1, len(values) + 1))


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def drawn(seed: int) -> list[float]:
    rng = random.Random(seed)
    kinds = [
        lambda: rng.gauss(1e9, 1),
        lambda: float(10**12 + rng.randrange(9)),
        lambda: rng.choice((-1, 1)) * 1.7e308,
        lambda: rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300),
        lambda: 5e-324 * rng.randrange(9),
        lambda: float(rng.randrange(-3, 4)),
    ]
    some = rng.sample(kinds, rng.randint(1, 3))
    return [rng.choice(some)() for _ in range(40)]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_doubles(seed: int, partitions: int) -> None:
    values = drawn(seed)
    items = "SUM(v) AS s, AVG(v) AS a, VARIANCE(v) AS v, VAR_POP(v) AS p, STDDEV(v) AS d"
    query = f"SELECT {items} FROM S [ROWS 4]"
    shown = last_values(query, values, "DOUBLE", partitions)
    for held, (total, mean, variance, of_all, deviation) in zip(windows(values, 4), shown, strict=True):
        exact, n = [Fraction(v) for v in held], len(held)
        assert total == nearest(sum(exact, Fraction(0)))
        assert mean == nearest(sum(exact, Fraction(0)) / n)
        off = sum((v - sum(exact, Fraction(0)) / n) ** 2 for v in exact)
        assert math.isclose(of_all, nearest(off / n), rel_tol=1e-13, abs_tol=1e-320)
        if n > 1:
            assert math.isclose(variance, nearest(off / (n - 1)), rel_tol=1e-13, abs_tol=1e-320)
            assert math.isclose(deviation, _root(off / (n - 1)), rel_tol=1e-13, abs_tol=1e-320)


def combined(parts: list[list[float]]) -> float:
    """VAR_POP from the states of some partitions."""

    def run(name: str, column: pa.Array) -> pa.Array:
        result = pa.binary() if name == "spread_state" else pa.float64()
        accumulator = DOUBLES[name]((column.type,), result, False)
        accumulator.room_for(1)
        entering = np.ones(len(column), np.int64)
        segments = Segments(np.array([0, len(column)]), np.zeros(1, np.int64), entering)
        return accumulator.update(segments, column)[1]

    states = [run("spread_state", pa.array(part, pa.float64())) for part in parts]
    return run("var_pop", pa.concat_arrays(states))[0].as_py()


@pytest.mark.parametrize(
    "parts",
    [
        [[2.0, -1.0, -1.0]],
        [[1.0, -1.0], [2.0, -2.0], [0.0]],
        [[1.0, -1.0], [1e300, -1e300]],
        [[2.0**130, 1.0, -1.0], [3.0]],
        [[3.0], [2.0**130, 1.0, -1.0]],
        [[2.0**190, 1.0, -1.0], [2.0**190, -(2.0**190)]],
        [[1e-300, -1e-300], [1.0, -1.0], [1e200, -1e200, 5.0]],
        [[2.0**200, -(2.0**200), 1.0], [2.0**-60]],
    ],
)
def test_sums_that_cancel_leave_their_squares(parts: list[list[float]]) -> None:
    """The sum of a partition may be zero, or of another size than its values and their squares."""
    values = [Fraction(v) for part in parts for v in part]
    mean = sum(values, Fraction(0)) / len(values)
    off = sum((v - mean) ** 2 for v in values)
    assert math.isclose(combined(parts), nearest(off / len(values)), rel_tol=1e-13)


@pytest.mark.parametrize("seed", range(40))
def test_states_of_random_partitions(seed: int) -> None:
    rng = random.Random(seed)
    values = [sign * v for v in drawn(seed)[:12] if abs(v) < 1e150 for sign in (1, -1)] + drawn(seed)[12:14]
    values = [v for v in values if abs(v) < 1e150] or [1.0]
    rng.shuffle(values)
    parts = [values[n::3] for n in range(3)] if seed % 2 else [sorted(values, key=abs), [rng.choice(values)]]
    test_sums_that_cancel_leave_their_squares([p for p in parts if p])


def test_variance_over_partitions_of_values_that_cancel() -> None:
    rows = [(15, {"a": a, "p": True}) for a in (2, -1, -1)]
    query = "SELECT VAR_POP(x.a) AS v FROM S [NOW] AS x ANTI JOIN S AS y ON y.a > 8 WHERE x.p = x.p"
    found = penstock.evaluate(query, {"S": rows}, {"S": "a INT, p BOOLEAN"}, partitions=2)
    assert found == [(15, "+", {"v": 2.0})]


def _root(square: Fraction) -> float:
    return nearest(Fraction(math.isqrt(int(square * 10**800)), 10**400))


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_is_infinite_leaves_again(partitions: int) -> None:
    values = [1.0, math.inf, -math.inf, math.nan, 2.0, 1.7e308, 1.7e308, 3.0, 4.0, 0.5]
    query = "SELECT SUM(v) AS s, AVG(v) AS a FROM S [ROWS 2]"
    sums = [s for s, _ in last_values(query, values, "DOUBLE", partitions)]
    expected = [1.0, math.inf, math.nan, math.nan, math.nan, 1.7e308, math.inf, 1.7e308, 7.0, 4.5]
    assert [repr(s) for s in sums] == [repr(s) for s in expected]


@pytest.mark.parametrize("query", ["SUM(v)", "AVG(v)", "STDDEV(v)"])
def test_a_group_that_was_empty_begins_anew(query: str) -> None:
    rows = [(1, {"v": 1.7e308}), (1, {"v": 1.7e308}), (9, {"v": 1.0}), (9, {"v": 2.0})]
    found = penstock.evaluate(f"SELECT {query} AS x FROM S [RANGE 1]", {"S": rows}, until=9)
    want = {"SUM(v)": 3.0, "AVG(v)": 1.5, "STDDEV(v)": math.sqrt(0.5)}[query]
    assert found[-1][2]["x"] == want or found[-2][2]["x"] == want


@pytest.mark.parametrize("partitions", [1, 2])
def test_decimals_of_38_digits(partitions: int) -> None:
    most, least = Decimal(10**38 - 1), Decimal(1 - 10**38)
    query = "SELECT SUM(v) AS s FROM S [ROWS 2]"
    shown = last_values(query, [most, least, Decimal(7), Decimal(8)], "DECIMAL(38, 0)", partitions)
    assert [s for (s,) in shown] == [most, Decimal(0), Decimal(8 - 10**38), Decimal(15)]
    with pytest.raises(DataError, match=r"a SUM is too large for DECIMAL\(38, 0\); cast its argument to"):
        last_values(query, [most, most], "DECIMAL(38, 0)", partitions)
    with pytest.raises(DataError, match=r"an AVG is too large for DECIMAL\(38, 4\)"):
        last_values("SELECT AVG(v) AS a FROM S [ROWS 2]", [most], "DECIMAL(38, 0)", partitions)
    values = [Decimal("12345678901234567890123456.78"), Decimal("0.01"), Decimal("-0.02")]
    shown = last_values("SELECT AVG(v) AS a FROM S [ROWS 3]", values, "DECIMAL(28, 2)", partitions)
    assert [a for (a,) in shown] == [
        Decimal("12345678901234567890123456.780000"),
        Decimal("6172839450617283945061728.395000"),
        Decimal("4115226300411522630041152.256667"),
    ]


@pytest.mark.parametrize("partitions", [1, 3])
def test_integers_at_their_limit(partitions: int) -> None:
    most = 2**63 - 1
    query = "SELECT SUM(v) AS s, AVG(v) AS a FROM S [ROWS 3]"
    shown = last_values(query, [most, -most, most, -most, 5], "BIGINT", partitions)
    assert [s for s, _ in shown] == [most, 0, most, -most, 5]
    with pytest.raises(DataError, match="a SUM is too large for BIGINT"):
        last_values("SELECT SUM(v) AS s FROM S [ROWS 2]", [most, most], "BIGINT", partitions)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("TRY_CAST('1e400' AS DECIMAL(5, 2))", None),
        ("TRY_CAST('9e9999999999999999999' AS DECIMAL(5, 2))", None),
        ("TRY_CAST(1e300 AS DECIMAL(38, 0))", None),
        ("ROUND(v, 400)", 1.5),
        ("ROUND(v, -2147483648)", 0.0),
        ("ROUND(v / 3, 320)", 0.5),
        ("ROUND(9223372036854775807, -1)", "it is out of range"),
        ("CAST('1e400' AS DECIMAL(5, 2))", "cannot cast '1e400' to DECIMAL"),
        pytest.param("LPAD('x', 2147483647, 'y')", "over 2 GB of text in a batch", marks=pytest.mark.long),
        ("TIMESTAMP_MICROS(9223372036854775807)", "has a time outside the years 1 to 9999"),
    ],
)
def test_at_the_limits(expression: str, value: Any) -> None:
    query = f"SELECT {expression} AS x FROM S"
    if not isinstance(value, str):
        assert penstock.evaluate(query, {"S": [(1, {"v": 1.5})]}) == [(1, "+", {"x": value})]
        return
    with pytest.raises(DataError, match=value):
        penstock.evaluate(query, {"S": [(1, {"v": 1.5})]})


def averaged(values: list[float], kind: pa.DataType) -> float:
    of, count = accumulator("avg", [kind], pa.float64(), False), len(values)
    of.room_for(1)
    segments = Segments(np.array([0, count]), np.zeros(1, np.int64), np.ones(count, np.int8))
    return float(of.update(segments, pa.array(values, kind))[1][0].as_py())


def test_an_average_is_rounded_once() -> None:
    draw = random.Random(7)
    assert averaged([1.7e308, 1.7e308], pa.float64()) == 1.7e308
    edges = (5e-324, 1e-323, -5e-324, 2.0**-1022, 1.7e308, -1.7e308, 1.0)
    for n in range(300):
        count, far = draw.randint(1, 9), draw.choice((0, 300, -1060))
        some = [math.ldexp(draw.uniform(-1, 1), far + draw.randint(-60, 60)) for _ in range(count)]
        values = some if n % 3 else [draw.choice(edges) for _ in range(count)]
        assert averaged(values, pa.float64()) == nearest(sum(map(Fraction, values)) / count)
        whole = [draw.randint(-(2**63), 2**63 - 1) for _ in range(count)]
        assert averaged(whole, pa.int64()) == sum(whole) / count


def test_between_equal_values_is_that_value() -> None:
    rows = [(t, {"v": 3.0}) for t in (1, 2)]
    query = "SELECT ISTREAM(PERCENTILE(v, 0.3) AS p, MEDIAN(v) AS m) FROM S"
    assert penstock.evaluate(query, {"S": rows}) == [(1, "+", {"p": 3.0, "m": 3.0})]


ZEROS = [
    (1, {"k": -0.0, "v": 1}),
    (2, {"k": 0.0, "v": 1}),
    (3, {"k": math.nan, "v": 1}),
    (4, {"k": math.nan, "v": 1}),
]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM S GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM S GROUP BY ROLLUP (k) HAVING k IS NOT NULL",
        "SELECT ISTREAM(k, COUNT(*) AS n) FROM S [TUMBLE 10] GROUP BY k, window_end",
        "SELECT DISTINCT k, 2 AS n FROM S",
        "SELECT k, 2 AS n FROM S UNION SELECT k, 2 AS n FROM S",
        "SELECT k, 2 AS n FROM S INTERSECT SELECT k, 2 AS n FROM S",
        "SELECT k, 2 AS n FROM S EXCEPT SELECT 7.0D AS k, 2 AS n FROM S",
        "SELECT k, v + 1 AS n FROM S QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1",
    ],
)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_there_is_one_zero_and_one_nan(query: str, partitions: int, turned: bool) -> None:
    kept = [row for _, row in (reversed(ZEROS) if turned else ZEROS)]
    rows = {"S": list(enumerate(kept))}
    found = penstock.evaluate(query, rows, schemas={"S": "k DOUBLE, v INT"}, partitions=partitions, until=20)
    shown = Counter[str]()
    for _, op, row in found:
        shown[repr(tuple(row.values()))] += 1 if op == "+" else -1
    assert +shown == {"(0.0, 2)": 1, "(nan, 2)": 1}
