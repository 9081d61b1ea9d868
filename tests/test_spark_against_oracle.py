"""The same random queries on Spark: file source, exchange, resident engines, log; the oracle's result.

A query takes seconds there, so few are drawn by default; ``PENSTOCK_CASES`` draws more.
"""

from __future__ import annotations

from typing import Any

import oracle
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from strategies import Case, cases

import penstock


@pytest.mark.spark
@settings(
    max_examples=max(settings.default.max_examples // 100, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(case=cases(), partitions=st.sampled_from((1, 4)), batches=st.integers(1, 3))
def test_spark(spark: Any, case: Case, partitions: int, batches: int) -> None:
    expected = oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until)
    how: dict[str, Any] = {"on": "spark", "partitions": partitions, "batches": batches}
    actual = penstock.evaluate(case.cql, case.inputs, case.schemas, until=case.until, **how)
    oracle.assert_same(actual, expected, f"{case}\n{how}")
