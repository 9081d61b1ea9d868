"""Settings that are changed while an engine runs: what they do, and that results stay as they are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from checking import Skip
from local_host import Manner, plan_of, run
from strategies import Case, Choices
from trials import hosted, settings_of

from penstock.engine.command import Command, CommandState
from penstock.engine.engine import Engine
from penstock.errors import EngineError
from penstock.measurement import Kind, Property, measured

ROWS = {n: [(t, {"a": t % 5, "b": t}) for t in range(1, 41)] for n in "RST"}
CASE = Case(
    "SELECT R.b AS x, S.b AS y, T.b AS z FROM R [RANGE 6], S [RANGE 6], T [RANGE 6] "
    "WHERE R.a = S.a AND S.a = T.a",
    ROWS, {n: "a INT, b INT" for n in "RST"}, None, "seconds",
)  # fmt: skip
EVERY = (
    (1, "scheduler", "chain"),
    (1, "slice_rows", 3),
    (2, "filters", "sweep"),
    (2, "profiling", 0.5),
    (3, "access_method", "b+tree"),
    (3, "memory_limit", 1),
    (4, "filters", "static"),
    (4, "access_method", "adaptive"),
    (4, "memory_limit", 0),
)


def turned(name: str, value: object) -> Command:
    return Command(1, "setting", {"name": name, "value": value})


def test_every_setting_leaves_the_result_as_it_is() -> None:
    cuts = (0.2, 0.4, 0.6, 0.8)
    expected = sorted(map(repr, run(CASE, Manner(2, cuts))))
    assert expected
    for before in ((), ("", "rebuild") * 3, ("", "snapshot, rebuild", "whole snapshot, rebuild") * 2):
        assert sorted(map(repr, run(CASE, Manner(2, cuts, before, settings=EVERY)))) == expected


def engine() -> Engine:
    return Engine(plan_of(CASE, Manner()).stages[0].stage)


def test_settings_are_used_and_survive_a_rebuild() -> None:
    one = engine()
    commands = [Command(n, "setting", {"name": k, "value": v}) for n, (_, k, v) in enumerate(EVERY[:6], 1)]
    one.step([], commands)
    other = engine()
    other.restore_header(one.header())
    third = engine()
    third.restore(one.snapshot().data)
    for each in (one, other, third):
        found = measured(each.measure())
        assert found.text(Property.SCHEDULER) == "chain" and found.value(Property.SLICE_ROWS) == 3
        assert {m.text for m in found.of(Property.ALGORITHM)} == {"sweep"}
        assert [m.text for m in found.of(Property.SETTING)][0] == "scheduler = chain"


def test_one_operator_has_a_setting_of_its_own() -> None:
    one = engine()
    (join,) = {m.entity for m in measured(one.measure()).of_kind(Kind.OPERATOR) if "join" in m.entity}
    wanted = (("filters", "sweep"), (f"filters@{join}", "static"), ("filters@mjoin.99", "a-greedy"))
    one.step([], [Command(n, "setting", {"name": k, "value": v}) for n, (k, v) in enumerate(wanted, 1)])
    other = engine()
    other.restore_header(one.header())
    for each in (one, other):
        assert {m.text for m in measured(each.measure()).of(Property.ALGORITHM)} == {"static"}
    one.step([], [Command(4, "setting", {"name": f"filters@{join}", "value": "sweep"})])
    assert {m.text for m in measured(one.measure()).of(Property.ALGORITHM)} == {"sweep"}


def test_a_budget_that_is_changed_keeps_fewer_rows() -> None:
    rows = {n: [(t, {"a": t % 3, "b": t}) for t in range(1, 201)] for n in "RS"}
    text = "SELECT R.b AS x, S.b AS y FROM R [RANGE 100], S [RANGE 100] WHERE R.a = S.a WITHIN MEMORY 60 ROWS"
    case = Case(f"{text} MAXIMIZE RESULTS", rows, {n: "a INT, b INT" for n in "RS"}, None, "seconds")
    cuts = tuple(n / 10 for n in range(1, 10))
    whole, less = (len(run(case, Manner(1, cuts, settings=s))) for s in ((), ((1, "budget", 0.25),)))
    before = ("", "", "rebuild", "snapshot, rebuild") * 2
    again = len(run(case, Manner(1, cuts, before, settings=((1, "budget", 0.25),))))
    assert 0 < less < whole and again == less


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(EngineError, match="setting 'sped' is unknown to this version"):
        CommandState().apply([turned("sped", 1)])
    with pytest.raises(EngineError, match="setting 'scheduler@mjoin.7' is unknown"):
        CommandState().apply([turned("scheduler@mjoin.7", "chain")])


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.some(4)
def test_random_queries_with_settings_that_change(seed: int) -> None:
    choices = Choices(random=Random(90_000 + seed))
    try:
        trial = hosted(choices)
        assert trial.manner is not None
        steps = len(trial.manner.cuts) + 2
        own = replace(trial.manner, settings=settings_of(choices, steps))
        replace(trial, manner=own).run()
    except Skip:
        pytest.skip("says nothing")
