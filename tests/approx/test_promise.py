"""A budget is kept at all times: no row enters a window before there is room for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import local_host
import numpy as np
import pyarrow as pa
import pytest
from local_host import Manner
from strategies import Case

import penstock
from penstock.engine.element import Chunk
from penstock.engine.joins import budget
from penstock.engine.joins.budget import BudgetedJoin
from penstock.engine.operator import Clock
from penstock.engine.synopses.store import Store
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.schema import TimeDomain

pytestmark = pytest.mark.slow  # many runs; the random queries of make test-fast have budgets too

ROWS: dict[str, list[Any]] = {n: [(t // 6, {"k": t * 7 % 11, "v": t}) for t in range(480)] for n in "AB"}
SCHEMAS = dict.fromkeys("AB", "k BIGINT, v BIGINT")
MOST = 40
JOIN = f"FROM A [RANGE 15], B [RANGE 15] WHERE A.k = B.k WITHIN MEMORY {MOST} ROWS"
GOALS = (
    "", "MAXIMIZE RESULTS", "MAXIMIZE RESULTS USING RECENT", "MAXIMIZE RESULTS USING PROB",
    "MAXIMIZE RESULTS USING UNTIL_EXPIRY", "SAMPLE UNIFORM", "SAMPLE CLUSTER",
)  # fmt: skip


@pytest.fixture
def most_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows the windows of the joins have had at each insertion of a row, also within a step."""
    kept, counts = list[BudgetedJoin](), list[int]()
    start, insert = BudgetedJoin.__init__, Store.insert

    def started(self: BudgetedJoin, *args: Any) -> None:
        start(self, *args)
        kept.append(self)

    def inserted(self: Store, *args: Any, **more: Any) -> Any:
        found = insert(self, *args, **more)
        counts.extend(sum(map(len, j._inputs.owned)) for j in kept if any(s is self for s in j._inputs.owned))
        return found

    monkeypatch.setattr(BudgetedJoin, "__init__", started)
    monkeypatch.setattr(Store, "insert", inserted)
    yield counts


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("arriving", [4096, 16])
def test_rows_kept_are_never_more_than_the_budget(
    goal: str, arriving: int, most_kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows come in one step, of which an epoch has more than the budget."""
    monkeypatch.setattr(budget, "ARRIVING_ROWS", arriving)
    shown = local_host.run(Case(f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} {goal}", ROWS, SCHEMAS))
    assert shown
    assert MOST // 2 < max(most_kept) <= MOST


@pytest.mark.parametrize("goal", [g for g in GOALS if g])
def test_how_many_arrive_at_a_time_does_not_matter(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} {goal}", ROWS, SCHEMAS)
    whole = sorted(map(str, local_host.run(case, Manner(cuts=(0.3,)))))
    monkeypatch.setattr(budget, "ARRIVING_ROWS", 16)
    assert sorted(map(str, local_host.run(case, Manner(cuts=(0.3,))))) == whole


@pytest.mark.parametrize("goal", ["", "MAXIMIZE RESULTS", "SAMPLE CLUSTER"])
def test_a_budget_that_shrinks_is_kept_at_once(goal: str) -> None:
    """Another partition has received most rows of a step, so that this one's share of the budget is less."""
    finite = read_inputs(ROWS, SCHEMAS, TimeDomain("integer", "seconds"))
    plan = plan_of(f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} {goal}", finite.catalog(), [], 1)
    ((engine,),) = InProcessRun(plan, {}).engines
    (join,) = (e.operator for e in engine.entities if isinstance(e.operator, BudgetedJoin))
    chunks = [_elements(n) for n in "AB"]
    join.run([c.slice(0, 240) for c in chunks], Clock(0, 40, 0))
    assert join.kept() > 0.4 * MOST
    join.run([c.slice(0, 0) for c in chunks], Clock(40, 41, 0, share=0.25))
    assert 0 < join.kept() <= MOST // 4


def _elements(name: str) -> Chunk:
    ts = np.array([t for t, _ in ROWS[name]])
    columns = {f"{name}.{c}": [row[c] for _, row in ROWS[name]] for c in ("k", "v")}
    return Chunk.of(ts, pa.RecordBatch.from_pydict(columns), end=ts + 16)


def test_a_share_of_the_budget_is_a_promise_too(most_kept: list[int]) -> None:
    text = f"SELECT ISTREAM(A.v, B.v AS w) {JOIN} MAXIMIZE RESULTS"
    assert penstock.evaluate(text, ROWS, partitions=3, batches=2)
    assert max(most_kept) <= MOST


@pytest.mark.parametrize("within", ["RATE 1000 PER SECOND", "MEMORY 5000 ROWS"])
def test_a_row_that_comes_late_meets_the_rows_that_came_before_it(within: str) -> None:
    """A budget that suffices loses nothing."""
    first, second = ((1, 1), (9, 2)), ((8, 3), (3, 4))
    rows = {n: [(t, {"k": 1, "v": v}) for t, v in pairs] for n, pairs in (("A", first), ("B", second))}
    text = "SELECT A.v, B.v AS w FROM A, B WHERE A.k = B.k"
    schemas = dict.fromkeys("AB", "k BIGINT, v BIGINT")
    exact, some = (
        local_host.run(Case(text + clause, rows, schemas), Manner(cuts=(0.5,), skew=6))
        for clause in ("", f" WITHIN {within}")
    )
    assert sorted(str(r) for *_, r in some) == sorted(str(r) for *_, r in exact)
