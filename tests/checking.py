"""What every random case is held to: the oracle's result, however the case is run."""

from __future__ import annotations

from typing import Any

import local_host
import oracle
from hypothesis import reject
from hypothesis import strategies as st
from local_host import Manner
from strategies import Case

import penstock

manners = st.builds(
    Manner,
    partitions=st.integers(1, 4),
    cuts=st.lists(st.floats(0, 1), max_size=4).map(tuple),
    before=st.lists(st.sampled_from(("", "rebuild", "snapshot", "snapshot, rebuild")), max_size=5).map(tuple),
)


def check(case: Case, **how: Any) -> None:
    """``penstock.evaluate`` gives the oracle's changes, in the order of time and net per instant."""
    expected = expect(case)
    actual = penstock.evaluate(case.cql, case.inputs, schemas=case.schemas, until=case.until, **how)
    compare(actual, expected, case, str(case))
    assert [ts for ts, _, _ in actual] == sorted(ts for ts, _, _ in actual), case
    assert not cancelling(actual), f"{case}\nenters and leaves in one instant: {cancelling(actual)}"


def check_manner(case: Case, manner: Manner) -> None:
    """So does a host that cuts, spreads and rebuilds as it likes."""
    expected = expect(case)
    compare(local_host.run(case, manner), expected, case, f"{case}\n{manner}")


def expect(case: Case) -> list[oracle.Change]:
    """The oracle's changes; a case that has no single answer is drawn again."""
    try:
        return oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until)
    except oracle.Undetermined:
        reject()


def compare(actual: list[Any], expected: list[oracle.Change], case: Case, about: str) -> None:
    """Equal; before it is said that they are not, the oracle takes each instant alone."""
    if oracle.differences(actual, expected):
        alone = oracle.evaluate(case.cql, case.inputs, case.schemas, until=case.until, at_once=False)
        oracle.assert_same(actual, alone, about)


def cancelling(changes: list[oracle.Change]) -> list[tuple]:
    """Rows that enter and leave in the same instant."""
    signs: dict[tuple, set[str]] = {}
    for ts, sign, row in changes:
        signs.setdefault((ts, *oracle.normalise(row.values())), set()).add(sign)
    return [row for row, found in signs.items() if len(found) > 1]
