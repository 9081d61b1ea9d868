"""Functions in Python over many rows: each different value is computed once, and results stay the same."""

from __future__ import annotations

import datetime as dt
from random import Random

import pyarrow as pa
import pytest

from penstock.expression import Call
from penstock.functions.kernels import by_row
from penstock.functions.registry import FUNCTIONS
from penstock.functions.types import STRING, TIMESTAMP

PATTERNS = (
    "yyyy-MM-dd",
    "E d MMM y",
    "yyyy 'at Hms' D",
    "HH:mm",
    "h a",
    "ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
)


def result(name: str, *args: pa.Array | pa.Scalar) -> list[object]:
    kernel = FUNCTIONS[name].kernel
    assert kernel is not None
    return list(kernel(Call(name, (), STRING), args).to_pylist())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_dates_in_a_pattern(pattern: str) -> None:
    die, start = Random(1), dt.datetime(1969, 12, 30, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(microseconds=die.randrange(3 * 86_400_000_000)) for _ in range(500)]
    column = pa.array([*moments, None], pa.timestamp("us", "UTC")).cast(TIMESTAMP)
    many = result("date_format", column, pa.scalar(pattern))
    each = [result("date_format", column.slice(n, 1), pa.array([pattern]))[0] for n in range(501)]
    assert many == each


@pytest.mark.parametrize("number", (1, 2, 3, 4, -1, -3, -4))
@pytest.mark.parametrize("delimiter", ("/", "//", "é"))
def test_parts_of_texts(number: int, delimiter: str) -> None:
    die = Random(2)
    texts = pa.array(
        [*("".join(die.choice("a/é") for _ in range(die.randrange(6))) for _ in range(400)), None]
    )
    many = result("split_part", texts.slice(1), pa.scalar(delimiter), pa.scalar(number))
    each = result("split_part", texts.slice(1), pa.array([delimiter] * 400), pa.scalar(number))
    assert many == each


def test_a_function_is_called_once_for_each_value() -> None:
    called: list[str] = []

    def doubled(text: str) -> str:
        called.append(text)
        return text * 2

    texts = pa.array([*("ab" * 1000), None])
    assert by_row(doubled)(Call("f", (), STRING), (texts,)).to_pylist() == [*(["aa", "bb"] * 1000), None]
    assert sorted(called) == ["a", "b"]
