"""Joins inside a memory keep the same tuples however they are cut into steps, and after they were rebuilt."""

from __future__ import annotations

import local_host
import pytest
from local_host import Manner
from strategies import Case

pytestmark = pytest.mark.slow  # many runs; the random queries of make test-fast have budgets too

ROWS = {n: [(t // 6, {"k": t * 7 % 11, "v": t}) for t in range(480)] for n in "AB"}
SCHEMAS = dict.fromkeys("AB", "k BIGINT, v BIGINT")
JOIN = "FROM A [RANGE 15], B [RANGE 15] WHERE A.k = B.k WITHIN MEMORY 60 ROWS"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} MAXIMIZE RESULTS",
        f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} MAXIMIZE RESULTS USING RANDOM",
        f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} SAMPLE UNIFORM",
        f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} SAMPLE CLUSTER",
    ],
)
def test_steps_and_rebuilding_change_nothing(query: str) -> None:
    case = Case(query, ROWS, SCHEMAS)
    cuts = (0.2, 0.21, 0.5, 0.8)
    whole = in_order(local_host.run(case))
    assert whole
    assert in_order(local_host.run(case, Manner(cuts=cuts))) == whole
    for how in ("rebuild", "snapshot", "snapshot rebuild"):
        before = ("", how, "rebuild", how, "rebuild")
        assert in_order(local_host.run(case, Manner(cuts=cuts, before=before))) == whole


def in_order(changes: list[local_host.Change]) -> list[local_host.Change]:
    """Sorted within instants: a snapshot has no dropped rows, so a rebuilt join may probe in another way."""
    return sorted(changes, key=lambda c: (c[0], repr(c)))
