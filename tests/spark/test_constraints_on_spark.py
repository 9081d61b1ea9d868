"""Constraints on Spark: the same results on any number of partitions, by time and by rows."""

from __future__ import annotations

import pytest

import penstock

ROWS = {
    "A": [(t, {"k": t * 7 % 60, "v": t % 3}) for t in range(60)],
    "B": [(t + 1 + t % 4, {"k": t * 7 % 60, "v": t % 5}) for t in range(0, 60, 2)],
}
QUERY = "SELECT A.k, B.v FROM A, B WHERE A.k = B.k AND A.v < 2"


@pytest.mark.spark
@pytest.mark.share(2)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("k", ["4 SECONDS", "3 ROWS"])
def test_the_same_on_any_number_of_partitions(partitions: int, k: str) -> None:
    constraints = {"A": f"PRIMARY KEY (k) REFERENCES B (k) WITHIN {k}", "B": "REFERENCES A (k)"}
    expected = penstock.evaluate(f"SET penstock.constraints = 'off'; {QUERY}", ROWS)
    found = penstock.evaluate(
        QUERY, ROWS, constraints=constraints, on="spark", partitions=partitions, batches=4
    )
    assert sorted(map(str, found)) == sorted(map(str, expected)) and len(expected) == 20


@pytest.mark.spark
@pytest.mark.parametrize(("how", "partitions"), [("monitored", 1), ("monitored safe", 3)])
def test_constraints_that_are_found(how: str, partitions: int) -> None:
    """Nothing is declared, and k does not grow: nothing is missed."""
    rows = {
        "A": [(t, {"k": t, "v": t % 3}) for t in range(3000)],
        "B": [(t + 1 + t % 4, {"k": t, "v": t % 5}) for t in range(0, 3000, 2)],
    }
    found, expected = (
        penstock.evaluate(f"SET penstock.constraints = '{mode}'; {QUERY}", rows, on=on, partitions=partitions)
        for mode, on in ((how, "spark"), ("off", "engine"))
    )
    assert sorted(map(str, found)) == sorted(map(str, expected)) and len(expected) == 1000
