"""Every rewrite rule fires where it should, stays away where it must, and keeps the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from own_aggregates import OWN, own_definitions
from strategies import Case, cases

import penstock
from penstock.catalog import Input
from penstock.cql import bind
from penstock.evaluation import plan_of, read_inputs
from penstock.plan import explain, optimizer
from penstock.plan.logical import Logical, rewrite, show
from penstock.plan.optimizer import RULES
from penstock.plan.rules.infer_filters import infer_filters
from penstock.plan.rules.keep_in_row_window import keep_in_row_window
from penstock.plan.rules.push_select_below_join import push_select_below_join
from penstock.plan.rules.push_select_below_window import push_select_below_window
from penstock.plan.rules.semijoin_to_join import semijoin_to_join
from penstock.schema import TimeDomain

CATALOG = {name: Input(name, pa.schema([("A", pa.int64()), ("B", pa.int64())])) for name in ("S1", "S2")}


def plan(cql: str) -> Logical:
    return bind(cql, CATALOG).root


def rewritten(cql: str, *rules: Callable[[Logical], Logical]) -> list[str]:
    root = plan(cql)
    for rule in rules:
        root = rewrite(root, rule)
    return [line.strip() for line in show(root).splitlines()]


def test_infer_filters_copies_a_filter_across_an_equality() -> None:
    cql = "SELECT * FROM S1 [ROWS 1000], S2 [RANGE 120] WHERE S1.A = S2.A AND S1.A > 10"
    assert rewritten(cql, infer_filters)[1] == "Join S1.A = S2.A AND S1.A > 10 AND S2.A > 10"


def test_infer_filters_leaves_predicates_over_several_columns_alone() -> None:
    cql = "SELECT * FROM S1 [RANGE 1], S2 [RANGE 1] WHERE S1.A = S2.A AND S1.A > S1.B"
    assert rewritten(cql, infer_filters)[1] == "Join S1.A = S2.A AND S1.A > S1.B"


def test_push_select_below_join_sends_each_filter_to_its_input() -> None:
    cql = "SELECT * FROM S1 [ROWS 9], S2 [RANGE 1] WHERE S1.A = S2.A AND S1.B < 20 AND S2.B > 3"
    assert rewritten(cql, push_select_below_join)[1:] == [
        "Join S1.A = S2.A",
        "Select S1.B < 20",
        "Window S1 [ROWS 9]",
        "Select S2.B > 3",
        "Window S2 [RANGE 1]",
    ]


@pytest.mark.parametrize("window", ["[RANGE 5]", "[NOW]", "[ROWS UNBOUNDED]", "[RANGE UNBOUNDED]"])
def test_filters_commute_with_time_windows_and_unbounded_ones(window: str) -> None:
    lines = rewritten(f"SELECT * FROM S1 {window} WHERE A > 10", push_select_below_window)
    assert lines[-3:] == [f"Window {window}", "Select S1.A > 10", "Stream S1"]


def test_filters_do_not_commute_with_row_windows() -> None:
    lines = rewritten("SELECT * FROM S1 [ROWS 5] WHERE A > 10", push_select_below_window)
    assert lines[1:] == ["Select S1.A > 10", "Window S1 [ROWS 5]"]


def test_a_filter_on_the_partition_commutes_with_its_row_window() -> None:
    cql = "SELECT * FROM S1 [PARTITION BY A ROWS 5] WHERE A > 10 AND B > 10"
    assert rewritten(cql, push_select_below_window)[1:] == [
        "Select S1.B > 10",
        "Window [PARTITION BY A ROWS 5]",
        "Select S1.A > 10",
        "Stream S1",
    ]


def test_keep_in_row_window_leaves_placeholders() -> None:
    lines = rewritten("SELECT * FROM S1 [ROWS 5] WHERE A > 10", keep_in_row_window)
    assert lines[1:] == ["Window S1 [ROWS 5] keeping S1.A > 10"]
    rows = [(t, {"A": t % 2, "B": t}) for t in range(20)]
    plain = "SELECT B FROM S [ROWS 6]"
    every = penstock.evaluate(plain, {"S": rows})
    some = penstock.evaluate(plain + " WHERE A = 1", {"S": rows})
    assert some == [c for c in every if c[2]["B"] % 2]


def test_keep_in_row_window_leaves_other_windows_alone() -> None:
    for window in ("[RANGE 5]", "[ROWS 4 SLIDE 2]"):
        assert "keeping" not in " ".join(
            rewritten(f"SELECT * FROM S1 {window} WHERE A > 1", keep_in_row_window)
        )


def test_semijoin_to_join_makes_one_star_of_look_ups() -> None:
    cql = "SELECT * FROM S1 [NOW] WHERE A IN (SELECT A FROM S2 [ROWS 9]) AND B IN (SELECT B FROM S2 [NOW])"
    assert rewritten(cql, semijoin_to_join)[1:] == [
        "Project S1.A AS S1.A, S1.B AS S1.B",
        "Join S1.A = #1.A AND S1.B = #2.B",
        "Window S1 [NOW]",
        "Distinct",
        "Project S2.A AS #1.A",
        "Window S2 [ROWS 9]",
        "Distinct",
        "Project S2.B AS #2.B",
        "Window S2 [NOW]",
    ]


def test_semijoin_to_join_leaves_other_conditions_and_antijoins_alone() -> None:
    for condition in (
        "A NOT IN (SELECT A FROM S2 [ROWS 9])",
        "EXISTS (SELECT * FROM S2 [ROWS 9] AS y WHERE y.A < S1.A)",
        "EXISTS (SELECT * FROM S2 [ROWS 9])",
    ):
        assert "join" in rewritten(f"SELECT * FROM S1 [NOW] WHERE {condition}", semijoin_to_join)[1]


def answers(case: Case) -> list:
    return penstock.evaluate(case.cql, case.inputs, schemas=case.schemas, until=case.until, functions=OWN)


def explained(case: Case) -> str:
    catalog = read_inputs(case.inputs, case.schemas, TimeDomain()).catalog()
    return explain(plan_of(case.cql, catalog, own_definitions().values(), 1), costs=False)


@pytest.mark.slow
def test_the_answer_is_the_same_without_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rules that change a query's plan."""
    applied: Counter[str] = Counter()

    @given(cases())
    def check(case: Case) -> None:
        with_all = explained(case)
        for rule in RULES:
            with monkeypatch.context() as patch:
                patch.setattr(optimizer, "RULES", tuple(r for r in RULES if r is not rule))
                without = answers(case) if explained(case) != with_all else None
            if without is not None:
                applied[rule.__name__] += 1
                oracle.assert_same(answers(case), without, case)

    check()
    assert len(applied) > len(RULES) // 2, applied
