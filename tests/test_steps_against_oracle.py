"""However the rows come, on however many partitions, with whatever rebuilt: the oracle's result."""

from __future__ import annotations

import pytest
from checking import check_manner as check
from checking import manners
from hypothesis import given, settings
from hypothesis import strategies as st
from local_host import Manner
from regressions import REGRESSIONS, regressions
from strategies import Case, cases, long_cases


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(cases(), manners)
def test_steps_partitions_and_rebuilding(case: Case, manner: Manner) -> None:
    check(case, manner)


@settings(max_examples=max(settings.default.max_examples // 30, 1))
@given(long_cases(), manners)
def test_long_streams(case: Case, manner: Manner) -> None:
    check(case, manner)


@st.composite
def out_of_order(draw: st.DrawFn) -> tuple[Case, Manner]:
    """A case whose rows arrive up to ``skew`` ticks late."""
    case, manner, skew = draw(cases()), draw(manners), draw(st.integers(1, 4))
    inputs = {}
    for name, rows in case.inputs.items():
        delays = [draw(st.integers(0, skew)) for _ in rows]
        timed = rows and isinstance(rows[0], tuple)
        inputs[name] = [r for _, r in sorted(zip(delays, rows, strict=True), key=_arrival)] if timed else rows
    late = Case(case.cql, inputs, case.schemas, case.until)
    return late, Manner(manner.partitions, manner.cuts, manner.before, skew)


def _arrival(delayed: tuple[int, tuple]) -> int:
    return delayed[0] + delayed[1][0]


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(out_of_order())
def test_rows_within_the_skew_are_put_in_order(drawn: tuple[Case, Manner]) -> None:
    check(*drawn)


@pytest.mark.parametrize("name", regressions())
@pytest.mark.parametrize("partitions", (1, 3))
def test_regressions(name: str, partitions: int) -> None:
    check(REGRESSIONS[name], Manner(partitions, cuts=(0.5,)))
